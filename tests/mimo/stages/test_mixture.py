"""Several domains in one batch: shares, harnesses, what is skipped, and the numbers by domain."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from mimo.errors import RecipeError
from mimo.rollouts.groups import GroupPlan
from mimo.rollouts.loop import Finished
from mimo.rollouts.rates import pass_rate
from mimo.rollouts.store import RolloutStore
from mimo.stages import collect as collecting
from mimo.stages.audit_report import domain_tables
from mimo.stages.domain_metrics import domain_metrics, last_pass_rates, mixture_note
from mimo.stages.feed import MixedFeed, TaskFeed
from mimo.stages.harness_choice import check_harnesses
from mimo.stages.mopd2_loop import distil_rules
from mimo.stages.rl_loop import signal_rules
from mimo.types import Domain, Task
from tests.mimo.harnesses.test_choice import HERE
from tests.mimo.rollouts.made import made_task
from tests.mimo.stages.graded import NotedContext, attempt, smoke_recipe

SHARES = {"coding": 0.68, "agent": 0.12, "visual": 0.13, "cyber": 0.04, "context": 0.03}
ANY = f"{HERE.replace('test_choice', 'any_domain')}:AnyDomain"


def tasks_of(**numbers: int) -> list[Task]:
    rows = []
    for kind, number in numbers.items():
        domain = cast(Domain, "agent" if kind == "context" else kind)
        family = "context-brief" if kind == "context" else "plain"
        rows += [replace(made_task(f"{kind}{n}"), domain=domain, family=family) for n in range(number)]
    return rows


def feed_of(tasks: Sequence[Task], shares: dict[str, float] | None = None) -> MixedFeed:
    return MixedFeed(tasks, shares or SHARES, seed=5, cursors={})


def test_one_domain_is_fed_as_before() -> None:
    tasks = tasks_of(coding=7)
    mixed, plain = feed_of(tasks), TaskFeed(tasks, seed=5)
    assert mixed.take(mixed.quotas(10, 0)) == plain.take(10)
    assert mixed.cursors == {"coding": plain.cursor}


def test_a_feed_resumes_at_its_cursors() -> None:
    tasks = tasks_of(coding=5, agent=3, context=2)
    whole = feed_of(tasks)
    rows = [whole.take(whole.quotas(8, step)) for step in range(4)]
    half = feed_of(tasks)
    for step in range(2):
        half.take(half.quotas(8, step))
    later = MixedFeed(tasks, SHARES, seed=5, cursors=half.cursors)
    assert [later.take(later.quotas(8, step)) for step in (2, 3)] == rows[2:]


def test_domains_without_tasks_or_share_are_counted_and_named(tmp_path: Path) -> None:
    shares = {"coding": 0.5, "agent": 0.5, "visual": 0.0}
    ctx = NotedContext(recipe=smoke_recipe(), inputs={}, out=tmp_path)
    note = mixture_note(cast(Any, ctx), feed_of(tasks_of(coding=1, visual=2), shares), first=True)
    assert ctx.counts == {"domain skipped": 1, "task of a domain without a share": 2}
    assert note == "batch shares: coding 1; skipped, no task: agent"
    mixture_note(cast(Any, ctx), feed_of(tasks_of(coding=1, visual=2), shares), first=False)
    assert sum(ctx.counts.values()) == 3  # a resume counts nothing again
    with pytest.raises(RecipeError, match="gives nothing to visual"):
        feed_of(tasks_of(visual=1), shares)


class Groups:
    """Stands for sampling: a group passes wholly while `rejects(plan)`; held while `waits(plan)`."""

    def __init__(self, rejects: Callable[[GroupPlan], bool]) -> None:
        self.plans: list[GroupPlan] = []
        self.rejects = rejects
        self.waits: Callable[[GroupPlan], bool] = lambda _: False
        self.go = asyncio.Event()

    async def sample(self, plans: Sequence[GroupPlan], *_: object, **__: object) -> list[list[Finished]]:
        [plan] = plans
        self.plans.append(plan)
        if self.waits(plan):
            await self.go.wait()
        passed = self.rejects(plan)
        return [
            [
                attempt(plan.task, f"{plan.group_id}.0"),
                attempt(plan.task, f"{plan.group_id}.1", passed=passed),
            ]
        ]


async def collected(
    groups: Groups, ctx: NotedContext, feed: MixedFeed, monkeypatch: pytest.MonkeyPatch
) -> collecting.Collected:
    monkeypatch.setattr(collecting, "sample_groups", groups.sample)
    nothing = cast(Any, None)
    rules = signal_rules(ctx.recipe)
    return await collecting.collect(cast(Any, ctx), 0, feed, nothing, nothing, rules=rules, grade=list)


def test_a_batch_keeps_its_shares_when_groups_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent group is rejected at first (all pass): its replacement is an agent group too."""
    tasks = tasks_of(coding=6, agent=4)
    recipe = smoke_recipe(["rl_mixed.groups_per_step=8", f"harness.names=['edit-lines', '{ANY}']"])
    groups = Groups(lambda plan: plan.task.domain == "agent" and len(groups.plans) <= 8)
    ctx = NotedContext(recipe=recipe, inputs={}, out=tmp_path)
    feed = feed_of(tasks)
    wanted = feed.quotas(8, 0)
    found = asyncio.run(collected(groups, ctx, feed, monkeypatch))
    plans = groups.plans
    assert Counter(plan.task.domain for plan in plans[:8]) == wanted == {"coding": 7, "agent": 1}
    assert [plan.task.domain for plan in plans[8:]] == ["agent"]
    assert found.rounds == 2
    assert len({plan.group_id for plan in plans}) == 9
    assert Counter(group.plan.task.domain for group in found.accepted) == wanted
    harnesses = {(plan.task.domain, plan.harness) for plan in plans}
    assert {name for domain, name in harnesses if domain == "agent"} == {ANY}
    assert {name for domain, name in harnesses if domain == "coding"} == {"edit-lines", ANY}
    metrics = domain_metrics(found, tasks)
    assert metrics["domains/agent/groups_accepted"] == metrics["domains/agent/groups_wanted"] == 1
    assert metrics["domains/agent/pass_rate"] == 0.75  # the rejected group passed twice
    assert metrics["domains/coding/pass_rate"] == 0.5


def test_a_rejected_group_is_replaced_while_others_still_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = Groups(lambda plan: plan.group_id.endswith("g00000"))
    groups.waits = lambda plan: plan.group_id.endswith("g00001")
    ctx = NotedContext(recipe=smoke_recipe(["rl_mixed.groups_per_step=2"]), inputs={}, out=tmp_path)

    async def watch() -> collecting.Collected:
        found = asyncio.ensure_future(collected(groups, ctx, feed_of(tasks_of(coding=6)), monkeypatch))
        async with asyncio.timeout(30):
            while len(groups.plans) < 3:
                await asyncio.sleep(0.01)
        groups.go.set()
        return await found

    found = asyncio.run(watch())
    assert [group.plan.group_id[-1] for group in found.accepted] == ["1", "2"]
    assert [record.group_id[-1] for record, _ in found.rejected] == ["0"]


def test_refills_are_bounded_and_what_is_missing_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = Groups(lambda _: True)
    recipe = smoke_recipe(["rl_mixed.groups_per_step=2", "rl_mixed.max_refills=3"])
    ctx = NotedContext(recipe=recipe, inputs={}, out=tmp_path)
    found = asyncio.run(collected(groups, ctx, feed_of(tasks_of(coding=3)), monkeypatch))
    assert (len(found.accepted), len(found.rejected), found.rounds) == (0, 8, 4)
    assert ctx.counts == {"group rejected": 8, "refill bound reached": 2}


def test_the_last_pass_rate_of_each_domain(tmp_path: Path) -> None:
    coding, agent = tasks_of(coding=1, agent=1)
    store = RolloutStore(tmp_path)
    store.write(1, [attempt(agent, "a", passed=True), attempt(coding, "b", passed=True)])
    store.write(2, [attempt(coding, "c", passed=False)])
    found = last_pass_rates(store, [coding, agent])
    assert found == {"pass_rate_last_step/agent": 1.0, "pass_rate_last_step/coding": 0.0}
    assert last_pass_rates(store, [coding]) == {}


def test_a_source_that_no_harness_can_work_on_is_refused_at_once() -> None:
    source = "tasks.sources=[{kind: generated, domain: cyber, seed: 1, train: 1, heldout: 0}]"
    with pytest.raises(RecipeError, match="supports the cyber domain"):
        check_harnesses(smoke_recipe([source]))
    check_harnesses(smoke_recipe([source, f"harness.names=['edit-lines', '{ANY}']"]))


def test_a_domain_has_the_shares_of_all_its_kinds_in_mopd2() -> None:
    rules = distil_rules(smoke_recipe(), tasks_of(coding=1, agent=1, context=1))
    assert rules.domains == pytest.approx({"coding": 0.68 / 0.83, "agent": 0.15 / 0.83})


def test_the_report_has_a_row_for_each_split_and_domain() -> None:
    rate = pass_rate({"t": [True, False]}, confidence=0.95)
    one = {name: getattr(rate, name) for name in ("mean", "low", "high", "rollouts", "tasks")}
    rates: dict[str, Any] = {
        "base": {"domain": {"heldout/agent": one}},
        "rl-mixed": {"domain": {"heldout/agent": one, "train/coding": one}},
    }
    (table,) = cast("list[dict[str, Any]]", domain_tables(rates))
    assert table["columns"] == ["split", "domain", "base", "rl-mixed"]
    assert [row[:2] for row in table["rows"]] == [["heldout", "agent"], ["train", "coding"]]
    assert table["rows"][0][2].startswith("50.0% [")
    assert table["rows"][1][2] == "not measured"
    assert domain_tables({"base": {"split": {}}}) == []
