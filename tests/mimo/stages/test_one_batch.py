"""All domains in one batch: the recipe's shares, harnesses drawn by domain, real boxes and verifiers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mimo.domains import load_domain
from mimo.domains.base import share_kind
from mimo.harnesses import HARNESSES, HELDOUT, draw_harness, harness_maker
from mimo.recipe.loader import load_recipe
from mimo.rollouts.expert import ExpertSampler
from mimo.rollouts.groups import GroupPlan, sample_groups
from mimo.rollouts.loop import Attempt, Finished
from mimo.stages.feed import MixedFeed
from mimo.types import Json, Task
from tests.mimo.rollouts.conftest import LIMITS, Lab

FAMILIES = {
    "coding": ("coding", "clamp"),
    "agent": ("agent", "line"),
    "context": ("agent", "context-brief"),
    "visual": ("visual", "rings"),
    "cyber": ("cyber", "double-free"),
}
"""Kind of task to its domain and a family."""
NAMES = [name for name in HARNESSES.names() if name not in HELDOUT]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with ThreadPoolExecutor(8) as pool:
        yield Lab(tmp_path_factory.mktemp("batch"), pool)


def made(lab: Lab, domain: str, family: str, folder: Path) -> Task:
    source: dict[str, Json] = {
        "kind": "generated", "domain": domain, "seed": 5, "train": 1, "heldout": 0, "level": 1,
        "families": None if domain == "coding" else [family],
    }  # fmt: skip
    acting = load_domain(domain)
    (task_id,) = acting.list_sources(source)
    root = acting.build(source, task_id, folder)
    return acting.import_folder(root, lab.store, limits=LIMITS, history="past", cache=lab.cache)


def test_every_domain_stands_in_one_batch_with_the_recipes_shares(lab: Lab, tmp_path: Path) -> None:
    """25 groups by the recipe's shares; a rollout of each kind and harness, by its expert, all verified."""
    tasks = [made(lab, domain, family, tmp_path) for domain, family in FAMILIES.values()]
    shares = load_recipe("pro", profile="smoke").model.rl_mixed.shares.model_dump()
    feed = MixedFeed(tasks, shares, seed=1, cursors={})
    assert (feed.skipped, feed.unused) == ({}, {})
    wanted = feed.quotas(25, 0)
    assert wanted == {"coding": 17, "agent": 3, "visual": 3, "cyber": 1, "context": 1}
    assert Counter(map(share_kind, feed.take(wanted))) == wanted
    plans = [
        GroupPlan(group_id=f"{kind}-{n}", task=task, harness=harness, step=1, size=1)
        for kind, task in zip(FAMILIES, tasks, strict=True)
        for n, harness in enumerate({draw_harness(NAMES, task.domain, kind, n) for n in range(2)})
    ]
    finished = asyncio.run(_replayed(lab, plans))
    assert {row.rollout.domain for row in finished} == {"coding", "agent", "visual", "cyber"}
    for row in finished:
        assert row.rollout.verdict is not None, row.rollout.error
        assert row.rollout.verdict.passed, (row.rollout.harness, row.rollout.verdict.detail)
        assert row.rollout.domain in harness_maker(row.rollout.harness).domains


async def _replayed(lab: Lab, plans: list[GroupPlan]) -> list[Finished]:
    house = lab.house(context_tokens=2048, turn_tokens=512, observation_tokens=256, max_turns=6)

    def expert(attempt: Attempt) -> ExpertSampler:
        turns = load_domain(attempt.task.domain).demonstrate(
            attempt.task, lab.store, harness=attempt.harness, seed=3
        )
        return ExpertSampler(turns, lab.renderer)

    groups = await sample_groups(plans, expert, house, seed=1, on_done=lambda *_: None)
    return [row for group in groups for row in group]
