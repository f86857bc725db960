"""Held-out tasks in harnesses that no training stage uses: who is tried, and rates that stay apart."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from mimo.errors import RecipeError
from mimo.rollouts.loop import Finished
from mimo.stages import heldout_harnesses
from mimo.stages.harness_choice import check_harnesses
from mimo.stages.heldout_harnesses import apart, evaluate_heldout_harnesses, heldout_harness_rates
from tests.mimo.rollouts.made import made_task
from tests.mimo.stages.graded import NotedContext, attempt, smoke_recipe

HELDOUT = "audit.heldout_harnesses=[xml-plan]"
AGENT = replace(made_task("a"), domain="agent", split="heldout", family="merge")
CODING = replace(made_task("c"), split="heldout")
TRAIN = replace(made_task("t"), domain="agent", split="train")


def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *overrides: str) -> tuple[list[Any], NotedContext]:
    """The tasks that are tried, with their harness, and what the stage counted."""
    seen: list[Any] = []

    async def evaluate(tasks: list[Any], *_: object, harness: Any, **__: object) -> list[Finished]:
        seen.extend((task.task_id, harness(task)) for task in tasks)
        return []

    monkeypatch.setattr(heldout_harnesses, "evaluate", evaluate)
    ctx = NotedContext(recipe=smoke_recipe(overrides), inputs={}, out=tmp_path)
    asyncio.run(
        evaluate_heldout_harnesses(
            cast(Any, ctx), [AGENT, CODING, TRAIN], cast(Any, None), cast(Any, None),
            name="base", step=1, attempts=2, on_done=lambda *_: None,
        )
    )  # fmt: skip
    return seen, ctx


def test_heldout_tasks_that_a_heldout_harness_is_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, ctx = tried(tmp_path, monkeypatch, HELDOUT)
    assert seen == [("a", "xml-plan")]
    assert ctx.counts == {"task without a held-out harness": 1}  # the coding one


def test_none_is_asked_for_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, ctx = tried(tmp_path, monkeypatch)
    assert seen == []
    assert ctx.counts == {}


def test_their_rates_are_apart(tmp_path: Path) -> None:
    ctx = NotedContext(recipe=smoke_recipe([HELDOUT]), inputs={}, out=tmp_path)
    mine = attempt(AGENT, "x", passed=True).rollout
    other = replace(attempt(AGENT, "y", passed=False).rollout, harness="xml-plan")
    plain, elsewhere = apart(cast(Any, ctx), [mine, other])
    assert (plain, elsewhere) == ([mine], [other])
    rates = heldout_harness_rates(elsewhere, [AGENT, CODING], confidence=0.95)
    assert {name: row["mean"] for name, row in rates.items()} == {"heldout-harness/agent": 0.0}


def test_a_harness_is_trained_with_or_held_out() -> None:
    with pytest.raises(RecipeError, match=r"xml-plan is in harness\.names and in audit\.heldout_harnesses"):
        check_harnesses(smoke_recipe([HELDOUT, "harness.names=[edit-lines, xml-plan]"]))
    with pytest.raises(RecipeError, match="did you mean 'xml-plan'"):
        check_harnesses(smoke_recipe(["audit.heldout_harnesses=[xml-plam]"]))
    check_harnesses(smoke_recipe([HELDOUT]))
