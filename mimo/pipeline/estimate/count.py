"""How much each stage has to do, from the recipe alone: tasks, rollouts, tokens, steps, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mimo.pipeline.estimate import assumptions as known
from mimo.pipeline.estimate.assumptions import Assumed
from mimo.pipeline.estimate.work import Work, real_tasks, rollout_size, task_counts
from mimo.recipe.models import Recipe


def all_work(recipe: Recipe, assumed: Assumed) -> Mapping[str, Work]:
    """The work of every stage the recipe runs, in order."""
    counter = _Counter(recipe, assumed)
    made = {
        "prepare-env": counter.prepare_env,
        "probe-hacks": counter.probe_hacks,
        "cold-start": counter.cold_start,
        "synthesize-rubrics": counter.synthesize_rubrics,
        "rl-mixed": counter.rl_mixed,
        "mopd2": counter.mopd2,
        "audit": counter.audit,
    }
    absent = {"cold-start"} if recipe.cold_start is None else set()
    return {name: made[name]() for name in recipe.stages if name not in absent}


class _Counter:
    """Counts stage by stage; each method is one stage."""

    def __init__(self, recipe: Recipe, assumed: Assumed) -> None:
        self.recipe = recipe
        self.assumed = assumed
        self.tasks = task_counts(recipe)
        self.size = rollout_size(recipe, assumed)
        self._sampler_up = False

    def prepare_env(self) -> Work:
        total = sum(self.tasks.values())
        real, runs = real_tasks(self.recipe), self.recipe.prepare_env.reruns * 2
        return Work(
            stage="prepare-env",
            environments=total,
            verdicts=(total - real) * runs,
            real_verdicts=real * runs,
            fetched=2 * sum(source.kind == "pypi-pair" for source in self.recipe.tasks.sources),
        )

    def probe_hacks(self) -> Work:
        total = sum(self.tasks.values())
        real, rounds = real_tasks(self.recipe), self.recipe.probe_hacks.clean_rounds
        return Work(
            stage="probe-hacks",
            environments=total,
            probes=(total - real) * rounds,
            real_probes=real * rounds,
        )

    def cold_start(self) -> Work:
        spec = self.recipe.cold_start
        assert spec is not None
        demonstrations = self.tasks["train"] * spec.demonstrations_per_task
        steps = spec.steps
        evaluations, each = (1, spec.eval_rollouts) if spec.eval_rollouts else (0, 0)
        if spec.stop_pass_rate is not None:
            band = spec.stop_pass_rate
            reached = self.assumed(known.BAND_REACHED) * (spec.steps - band.first_step)
            steps = min(steps, band.first_step + round(reached))
            evaluations, each = 1 + (steps - band.first_step) // band.every_steps, band.rollouts
        computed = steps * spec.batch_rollouts * self.size.tokens
        return replace(
            self._sampling(
                "cold-start", evaluations * each, tasks=evaluations * min(each, self.tasks["train"])
            ),
            verdicts=demonstrations,
            computed=computed,
            trained=computed * self.size.generated / self.size.tokens,
            steps=steps,
            publishes=1.0 + evaluations,
            checkpoints=-(-steps // spec.checkpoint_every),
            kept_checkpoints=2,
            trainer_starts=1,
            sampler_starts=self._sampler_start(),
            starts_behind=True,
            sequential=float(evaluations),
            kept_tokens=(demonstrations + evaluations * each) * self.size.tokens,
        )

    def synthesize_rubrics(self) -> Work:
        number = self.tasks["train"] * self.recipe.synthesize_rubrics.attempts_per_task
        return replace(
            self._sampling("synthesize-rubrics", number, tasks=self.tasks["train"]),
            sampler_starts=self._sampler_start(),
            sequential=-(-self.tasks["train"] // _CHUNK),
            kept_tokens=number * self.size.tokens,
        )

    def rl_mixed(self) -> Work:
        spec = self.recipe.rl_mixed
        groups = spec.steps * spec.groups_per_step
        accepted = groups * spec.group_size
        oversampled = self.assumed(known.SAMPLED_PER_ACCEPTED)
        rollouts = accepted * oversampled
        answers = self.size.tokens - self.size.opening
        return replace(
            self._sampling("rl-mixed", rollouts, tasks=groups * oversampled),
            computed=groups * self.size.opening + accepted * answers,
            trained=accepted * self.size.generated,
            steps=spec.steps,
            publishes=1.0 + spec.steps,
            checkpoints=-(-spec.steps // spec.checkpoint_every),
            kept_checkpoints=spec.keep_checkpoints,
            trainer_starts=1,
            sampler_starts=self._sampler_start(),
            sequential=float(spec.steps),
            kept_tokens=rollouts * self.size.tokens,
        )

    def mopd2(self) -> Work:
        spec, size = self.recipe.mopd2, self.size
        samples = spec.steps * spec.samples_per_step
        full = samples * spec.weights.student
        single = samples - full
        kinds = [share > 0 for share in spec.weights.model_dump().values()]
        fixed = 2 * sum(kinds) * spec.evaluation_contexts
        tokens = full * size.tokens + single * (size.opening + size.tokens) / 2
        generated = full * size.generated + single * size.generated / size.turns
        return Work(
            stage="mopd2",
            rollouts=full + spec.evaluation_contexts,
            groups=full + spec.evaluation_contexts,
            turns=(full + spec.evaluation_contexts) * size.turns + single,
            generated=generated + spec.evaluation_contexts * size.generated,
            prefilled=tokens - generated + spec.evaluation_contexts * (size.tokens - size.generated),
            computed=tokens,
            trained=generated,
            scored=2 * (tokens + fixed * size.tokens),
            scored_sequences=2 * (samples + fixed),
            folder_loads=spec.steps * 3.0 + 2 * 2 * sum(kinds),
            steps=spec.steps,
            publishes=1.0 + spec.steps,
            checkpoints=float(spec.steps),
            kept_checkpoints=self.recipe.rl_mixed.keep_checkpoints,
            trainer_starts=1,
            sampler_starts=self._sampler_start(),
            sequential=float(spec.steps + 1),
            kept_tokens=tokens,
        )

    def audit(self) -> Work:
        spec, size = self.recipe.audit, self.size
        trained = sum(name in self.recipe.stages for name in ("cold-start", "rl-mixed", "mopd2"))
        trained -= self.recipe.cold_start is None and "cold-start" in self.recipe.stages
        each = self._audited(spec.heldout_rollouts_per_task, spec.train_rollouts_per_task)
        base = self._audited(
            min(spec.base_rollouts_per_task, spec.heldout_rollouts_per_task),
            min(spec.base_rollouts_per_task, spec.train_rollouts_per_task),
        )
        untrained = base if _speaks_no_harness(self.recipe) else 0
        rollouts = trained * each + base - untrained
        spoken = self._sampling("audit", rollouts, tasks=(1 + trained) * sum(self.tasks.values()))
        written = self._untrained_tokens() if untrained else 0.0
        return replace(
            spoken,
            turns=spoken.turns + untrained * self.recipe.harness.max_turns,
            prefilled=spoken.prefilled + untrained * (size.tokens - size.generated),
            untrained_rollouts=untrained,
            untrained_generated=untrained * written,
            real_verdicts=real_tasks(self.recipe, "heldout") * spec.heldout_rollouts_per_task * trained,
            publishes=1.0 + trained,
            folder_loads=1.0 + trained,
            sampler_starts=self._sampler_start(),
            sequential=2.0 * (1 + trained),
            kept_tokens=rollouts * size.tokens + untrained * (size.opening + written),
        )

    def _sampling(self, stage: str, number: float, *, tasks: float) -> Work:
        """Only the rollouts of a stage; verified each."""
        size = self.size
        return Work(
            stage=stage,
            rollouts=number,
            groups=tasks,
            turns=number * size.turns,
            generated=number * size.generated,
            prefilled=number * (size.tokens - size.generated),
        )

    def _audited(self, heldout: int, train: int) -> int:
        """Rollouts of one policy; held-out tasks once more in harnesses that nobody trained with."""
        again = 2 if self.recipe.audit.heldout_harnesses else 1
        return self.tasks["heldout"] * heldout * again + self.tasks["train"] * train

    def _untrained_tokens(self) -> float:
        """What a policy writes that ends no turn by itself: its limit, or what the context leaves."""
        recipe = self.recipe
        written = self.assumed(known.UNTRAINED_FILL) * recipe.harness.max_turns * recipe.sampling.turn_tokens
        return float(min(written, recipe.policy.context_tokens - self.size.opening))

    def _sampler_start(self) -> int:
        """1 for the first stage that samples: the server is handed on."""
        first, self._sampler_up = not self._sampler_up, True
        return int(first)


_CHUNK = 16
"""Tasks that synthesize-rubrics attempts together (`mimo.stages.rubrics_loop.CHUNK`; a test compares)."""


def _speaks_no_harness(recipe: Recipe) -> bool:
    """Random policies, and packages' (the smallest): before a cold start they follow no format."""
    return recipe.cold_start is not None and recipe.policy.source.startswith(("init:", "package:"))
