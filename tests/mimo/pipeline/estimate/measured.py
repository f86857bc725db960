"""Finished runs on a quiet machine (two AVX-512 cores, 24 GiB): seconds of each stage, the recipe's sizes."""

from __future__ import annotations

from dataclasses import dataclass

from mimo.recipe.loader import load_recipe
from mimo.recipe.models import Recipe


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredRun:
    """A run of recipes/pro.yaml; `sizes` are the overrides that give the recipe it ran."""

    profile: str
    commit: str
    sizes: tuple[str, ...]
    seconds: dict[str, float]

    def recipe(self, *overrides: str) -> Recipe:
        """The recipe of the run, with more overrides."""
        return load_recipe("pro", profile=self.profile, overrides=[*self.sizes, *overrides]).model


SMOKE = MeasuredRun(
    profile="smoke",
    commit="0e08555",
    sizes=(
        "tasks.sources=[{kind: generated, domain: coding, seed: 7, train: 48, heldout: 12, level: 1}]",
        "prepare_env.reruns=2",
        "cold_start.demonstrations_per_task=2",
        "cold_start.batch_rollouts=16",
        "cold_start.steps=200",
        "cold_start.stop_pass_rate={low: 0.3, high: 0.7, first_step: 60, every_steps: 10, rollouts: 48}",
        "synthesize_rubrics.attempts_per_task=2",
        "rl_mixed.steps=8",
        "rl_mixed.groups_per_step=8",
        "rl_mixed.group_size=8",
        "mopd2.steps=2",
        "mopd2.samples_per_step=128",
        "mopd2.evaluation_contexts=12",
        "audit.heldout_rollouts_per_task=2",
        "audit.train_rollouts_per_task=2",
        "audit.base_rollouts_per_task=1",
        "audit.heldout_harnesses=[]",
    ),
    seconds={
        "prepare-env": 15.9,
        "probe-hacks": 7.6,
        "cold-start": 94.0,
        "synthesize-rubrics": 16.1,
        "rl-mixed": 71.0,
        "mopd2": 48.5,
        "audit": 46.4,
    },
)
_SHA = "0" * 64
_PAIR = (
    "{kind: pypi-pair, domain: coding, package: %s, old: '1', new: '2', split: heldout, "
    f"sha256_old: '{_SHA}', sha256_new: '{_SHA}'}}"
)
_PAIRS = ", ".join(_PAIR % name for name in ("parse", "sqlparse-1", "sqlparse-2", "more-itertools"))
LAPTOP = MeasuredRun(
    profile="laptop",
    commit="de79820",
    sizes=(
        f"tasks.sources=[{_PAIRS}, {{kind: generated, domain: coding, seed: 7, train: 96, heldout: 24}}]",
        "prepare_env.reruns=3",
        "cold_start.demonstrations_per_task=2",
        "cold_start.batch_rollouts=8",
        "cold_start.steps=50",
        "cold_start.checkpoint_every=10",
        "cold_start.eval_rollouts=32",
        "synthesize_rubrics.attempts_per_task=4",
        "rl_mixed.steps=8",
        "rl_mixed.groups_per_step=8",
        "rl_mixed.group_size=8",
        "mopd2.steps=4",
        "mopd2.samples_per_step=32",
        "mopd2.evaluation_contexts=6",
        "audit.heldout_rollouts_per_task=2",
        "audit.train_rollouts_per_task=2",
        "audit.base_rollouts_per_task=1",
        "audit.heldout_harnesses=[]",
    ),
    seconds={
        "prepare-env": 103.0,
        "probe-hacks": 22.0,
        "cold-start": 488.1,
        "synthesize-rubrics": 138.8,
        "rl-mixed": 505.1,
        "mopd2": 340.7,
        "audit": 443.0,
    },
)
RUNS = {"smoke": SMOKE, "laptop": LAPTOP}
