"""How much each stage has to do, from the recipe alone: tasks, rollouts, tokens, steps, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mimo.errors import RecipeError
from mimo.pipeline.estimate import assumptions as known
from mimo.pipeline.estimate.assumptions import Assumed
from mimo.recipe.models import Recipe
from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutSize:
    """The mean rollout of a trained policy, in tokens; `opening` is what a group's rollouts share."""

    tokens: float
    generated: float
    turns: float
    opening: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What one stage does, summed over its steps. Zero where it does no such thing."""

    stage: str
    environments: int = 0
    """Environments built, or probed."""
    verdicts: float = 0.0
    """Verifications that no policy's rollout asks for (gates, demonstrations)."""
    probes: float = 0.0
    """Rounds of probes."""
    rollouts: float = 0.0
    """By policies that speak the harness."""
    groups: float = 0.0
    """Tasks attempted at a time: their rollouts share an opening in the sampler's cache."""
    turns: float = 0.0
    """Model turns of those and of single turns."""
    generated: float = 0.0
    """Tokens sampled by them."""
    prefilled: float = 0.0
    """Prompt and tool tokens that the sampler reads."""
    untrained_rollouts: float = 0.0
    """By a policy that has not learnt the harness and fills its turns."""
    untrained_generated: float = 0.0
    computed: float = 0.0
    """Tokens that pass the trainer forwards and backwards, shared openings once."""
    trained: float = 0.0
    """Of them, those with a loss (the head is computed at these)."""
    scored: float = 0.0
    """Tokens scored forwards by folders read with transformers, one policy's reading each."""
    scored_sequences: float = 0.0
    """Sequences of them, read one by one."""
    folder_loads: float = 0.0
    """Times that a policy's folder is loaded for that."""
    steps: int = 0
    """Optimiser steps; each ends with new weights in the sampler, and in RL and distillation a checkpoint."""
    publishes: float = 0.0
    checkpoints: float = 0.0
    kept_checkpoints: int = 0
    trainer_starts: int = 0
    sampler_starts: int = 0
    sequential: float = 0.0
    """Rounds of sampling that wait for one another (steps, chunks of tasks, policies)."""
    kept_tokens: float = 0.0
    """Tokens whose rollouts stay on disk."""

    def as_json(self) -> dict[str, Json]:
        """The counts a reader asks for; the rest is detail of the time."""
        return {
            "environments": self.environments,
            "rollouts": round(self.rollouts + self.untrained_rollouts),
            "tokens_sampled": round(self.generated + self.untrained_generated),
            "tokens_prefilled": round(self.prefilled),
            "tokens_trained": round(self.computed),
            "tokens_with_loss": round(self.trained),
            "steps": self.steps,
        }


def task_counts(recipe: Recipe) -> dict[str, int]:
    """Tasks by split (train, heldout) that the sources make, before any is rejected."""
    counts = {"train": 0, "heldout": 0}
    for source in recipe.tasks.sources:
        if source.kind == "generated":
            counts["train"] += source.train
            counts["heldout"] += source.heldout
        elif source.kind == "folder":
            counts[source.split] += _folders(Path(source.path))
        else:
            counts[source.split] += 1
    return counts


def rollout_size(recipe: Recipe, assumed: Assumed) -> RolloutSize:
    """The mean rollout: what the recipe says in `runtime.plan`, else assumptions."""
    plan = recipe.runtime.plan
    tokens = plan.rollout_tokens or assumed(known.CONTEXT_SHARE) * recipe.policy.context_tokens
    tokens = float(min(tokens, recipe.policy.context_tokens))
    share = plan.generated_share or assumed(known.GENERATED_SHARE)
    turns = max(1.0, assumed(known.TURNS_SHARE) * recipe.harness.max_turns)
    opening = min(assumed(known.OPENING_SHARE) * tokens, assumed(known.OPENING_TOKENS))
    return RolloutSize(tokens=tokens, generated=share * tokens, turns=turns, opening=opening)


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
        gates = total * self.recipe.prepare_env.reruns * 2
        return Work(stage="prepare-env", environments=total, verdicts=gates)

    def probe_hacks(self) -> Work:
        total = sum(self.tasks.values())
        rounds = total * self.recipe.probe_hacks.clean_rounds
        return Work(stage="probe-hacks", environments=total, probes=rounds)

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


def _folders(path: Path) -> int:
    """Task folders below `path`, counted as prepare-env will find them."""
    if not path.is_dir():
        raise RecipeError(f"task folder {path} does not exist", hint="see tasks.sources in the recipe")
    if (path / "task.toml").is_file():
        return 1
    return sum((folder / "task.toml").is_file() for folder in path.iterdir())
