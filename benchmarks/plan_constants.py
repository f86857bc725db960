"""How far `mimo plan` was off for a finished run, and the physical speeds that the run shows.

    python benchmarks/plan_constants.py HOME [RUN]

HOME is the MIMO_HOME of a finished run on the CPU (of several runs the newest, or RUN). Prints each stage's
measured and estimated seconds, then the values of `mimo/pipeline/estimate/assumptions.py`, as this run
shows them. Only figures of a machine that did nothing else are worth keeping.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from mimo.pipeline.estimate import Estimate, estimate, hardware_of
from mimo.pipeline.estimate.policy_facts import PolicyFacts
from mimo.pipeline.order import STAGES
from mimo.recipe.loader import load_recipe
from mimo.recipe.machine import Machine, this_machine
from mimo.recipe.models import Recipe
from mimo.rollouts.store import RolloutStore
from mimo.run_dir.files import read_json, read_lines
from mimo.run_dir.home import Home
from mimo.run_dir.manifest import ENGINE_FOLDER
from mimo.run_dir.outputs import every
from mimo.run_dir.runs import RunFolder
from mimo.types import Json

GIGA = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """A run's stages: folder and seconds."""

    recipe: Recipe
    folders: dict[str, Path]
    seconds: dict[str, float]

    def total(self, stage: str, metric: str) -> float:
        """A metric summed over the stage's committed steps."""
        path = self.folders[stage] / ENGINE_FOLDER / "metrics.jsonl"
        rows = (cast("dict[str, Json]", row["metrics"]) for row in read_lines(path) if "metrics" in row)
        return sum(float(str(row.get(metric) or 0.0)) for row in rows)


def main() -> None:
    """Read, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("home", type=Path)
    parser.add_argument("run", nargs="?")
    given = parser.parse_args()
    run = read_run(Home(given.home.resolve()), given.run)
    here = this_machine()
    machine = Machine(gpus=(), cores=here.cores, memory_gib=here.memory_gib)
    made = estimate(run.recipe, hardware_of(run.recipe, machine))
    print(compared(run, made))
    assert made.policy is not None
    for line in shown(run, made.policy, machine.cores):
        print(line)


def read_run(home: Home, name: str | None) -> Finished:
    """The newest finished run of the home, or the one named."""
    folders = sorted(path for path in home.runs.iterdir() if path.is_dir())
    chosen = RunFolder(home.run(name) if name else folders[-1])
    record, state = chosen.record(), chosen.state()
    if record is None or state is None or state.status != "done":
        raise SystemExit(f"{chosen.folder}: not a finished run")
    recipe = as_it_ran(record.recipe, record.profile)
    published = {
        stage: item for stage in STAGES for item in every(home, stage) if item.manifest.run == record.run
    }
    return Finished(
        recipe=recipe,
        folders={stage: item.folder for stage, item in published.items()},
        seconds={stage: item.manifest.wall_s for stage, item in published.items()},
    )


def as_it_ran(data: dict[str, Json], profile: str) -> Recipe:
    """The recorded recipe; keys that are newer than the run are those of today's recipe."""
    today = load_recipe("pro", profile=profile).model.data()
    return Recipe.model_validate(completed(data, today))


def completed(data: dict[str, Json], newer: dict[str, Json]) -> dict[str, Json]:
    """`data` with the keys of `newer` that it lacks, mapping by mapping; keys unknown today are left out."""
    found = {}
    for key, value in newer.items():
        mine = data.get(key, value)
        below = isinstance(mine, dict) and isinstance(value, dict) and key != "deepspeed"
        found[key] = completed(mine, value) if below else mine  # type: ignore[arg-type]
    return found


def compared(run: Finished, made: Estimate) -> str:
    """A stage a line: measured, estimated, the estimate's parts."""
    lines = [f"{'stage':<20}{'measured':>10}{'estimate':>10}{'off':>7}"]
    for name, stage in made.stages.items():
        measured, expected = run.seconds.get(name), stage.seconds
        if measured and expected:
            parts = ", ".join(f"{part} {seconds:.1f}" for part, seconds in (stage.parts or {}).items())
            lines.append(
                f"{name:<20}{measured:>10.1f}{expected:>10.1f}{expected / measured - 1:>+7.0%}  {parts}"
            )
    return "\n".join(lines)


def shown(run: Finished, facts: PolicyFacts, cores: int) -> Iterator[str]:
    """The physical values of this run, by the names of `assumptions.py`."""
    yield from _rollouts(run)
    for stage in ("cold-start", "rl-mixed", "mopd2"):
        if stage in run.folders:
            yield from _training(run, facts, stage, cores)
    for stage, folder, name in (
        ("prepare-env", "gates", "environment and its gates"),
        ("probe-hacks", "probes", "rounds of probes"),
    ):
        rows = [read_json(path) or {} for path in (run.folders[stage] / folder).glob("*.json")]
        seconds = sorted(float(str(row.get("seconds", 0.0))) for row in rows)
        yield f"{stage}: {name}: median {seconds[len(seconds) // 2]:.3f} s, longest {seconds[-1]:.1f} s"


def _rollouts(run: Finished) -> Iterator[str]:
    for stage in ("synthesize-rubrics", "rl-mixed", "audit"):
        store = RolloutStore(run.folders[stage])
        rows = [item for step in store.steps() for item in store.rollouts(step)]
        spoken = [item for item in rows if item.policy != "base"]
        number = max(1, len(spoken))
        tokens = sum(item.prompt_tokens + item.generated_tokens for item in spoken) / number
        written = sum(item.generated_tokens for item in spoken) / number
        turns = sum(item.num_turns for item in spoken) / number
        yield f"{stage}: {len(rows)} rollouts; {tokens:.0f} tokens, {written:.1f} written, {turns:.2f} turns"
    spec, made = run.recipe.rl_mixed, RolloutStore(run.folders["rl-mixed"])
    sampled = sum(len(list(made.rollouts(step))) for step in made.steps())
    accepted = spec.steps * spec.groups_per_step * spec.group_size
    yield f"rollout/sampled_per_accepted: {sampled / accepted:.2f}"


def _training(run: Finished, facts: PolicyFacts, stage: str, cores: int) -> Iterator[str]:
    computed, trained = (run.total(stage, f"train/tokens/{what}") for what in ("computed", "trained"))
    seconds = run.total(stage, "train/time/forward_s") + run.total(stage, "train/time/backward_s")
    flops = 6.0 * (computed * facts.active_body + trained * facts.vocabulary * facts.hidden)
    path = run.folders[stage] / ENGINE_FOLDER / "metrics.jsonl"
    rows = [cast("dict[str, Json]", row["metrics"]) for row in read_lines(path) if "metrics" in row]
    steps = sum("train/tokens/computed" in row for row in rows)
    published = max(1, sum("time/export_s" in row for row in rows))
    optimizer = run.total(stage, "train/time/optimizer_s") / max(1, steps)
    teachers = run.total(stage, "time/teacher_s")
    yield (
        f"{stage}: train {flops / seconds / cores / GIGA:.0f} GFLOP/s a core; optimiser "
        f"{optimizer / facts.parameters * GIGA:.1f} s for 1e9; an update: export "
        f"{run.total(stage, 'time/export_s') / published:.2f} s, reload "
        f"{run.total(stage, 'time/update_s') / published:.2f}, canary "
        f"{run.total(stage, 'time/canary_s') / published:.2f}; teachers {teachers:.1f} s"
    )


if __name__ == "__main__":
    main()
