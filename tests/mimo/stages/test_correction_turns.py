"""Demonstrations with a mistake in them, played in real boxes: what is kept, learnt and counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import recipes
from mimo.backends.base import SamplingParams
from mimo.backends.scripted import ScriptedSampler
from mimo.domains import load_domain
from mimo.domains.base import TaskStore
from mimo.errors import RecipeError
from mimo.records import to_line
from mimo.rollouts.corrections import Correction, CorrectionSource, write_corrections
from mimo.rollouts.store import RolloutStore
from mimo.stages.base import StageContext
from mimo.stages.cold_start import ColdStart
from mimo.stages.cold_start_loop import _note, _pass_rate
from mimo.stages.correction_turns import Corrected, numbers, read_rows
from mimo.stages.demonstrations import Demonstration, demonstrations, kept_demonstrations
from mimo.stages.engines import open_house
from mimo.types import Limits, Task, Turn
from tests.mimo.stages.graded import NotedContext, smoke_recipe

TOKENIZER = Path(recipes.__file__).parent / "tokenizers" / "small-2048"
LIMITS = Limits(wall_s=60, turn_s=5, command_s=10, memory_mb=256, processes=32, disk_mb=64, output_bytes=8192)
SOURCE = {
    "kind": "generated", "domain": "coding", "seed": 5, "train": 2, "heldout": 1, "families": None, "level": 1
}  # fmt: skip
HIDDEN = SOURCE | {"seed": 7, "train": 12, "heldout": 0, "level": 2}


@dataclass(frozen=True, kw_only=True)
class Set:
    """A prepared task set: two training tasks that are shown, one that is not, one held out."""

    root: Path
    cache: Path
    shown: tuple[Task, ...]
    unseen: Task
    heldout: Task

    def context(self, out: Path, *overrides: str) -> NotedContext:
        recipe = smoke_recipe(overrides)
        return NotedContext(recipe=recipe, inputs={"prepare-env": self.root}, out=out, cache=self.cache)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Set:
    """Made once: importing tasks takes a second."""
    folder = tmp_path_factory.mktemp("set")
    store, domain = TaskStore(folder / "set"), load_domain("coding")

    def made(source: dict[str, object], task_id: str) -> Task:
        built = domain.build(source, task_id, folder / "made")  # type: ignore[arg-type]
        return domain.import_folder(built, store, limits=LIMITS, history="past", cache=folder / "cache")

    one, two, heldout = (made(SOURCE, name) for name in domain.list_sources(SOURCE))
    others = (made(HIDDEN, name) for name in domain.list_sources(HIDDEN))
    unseen = next(task for task in others if not task.verifier.expect["shown"])
    (folder / "set" / "tasks.jsonl").write_bytes(b"".join(map(to_line, (one, two, unseen, heldout))))
    return Set(root=store.root, cache=folder / "cache", shown=(one, two), unseen=unseen, heldout=heldout)


def _played(ctx: NotedContext) -> tuple[list[Demonstration], list[Corrected]]:
    async def go() -> list[Demonstration]:
        with open_house(cast(StageContext, ctx), TOKENIZER, "test") as house:
            return await demonstrations(cast(StageContext, ctx), house)

    return asyncio.run(go()), read_rows(ctx.out / "demonstrations")


def _said(demo: Demonstration) -> list[Turn]:
    return [turn for turn in demo.rollout.contexts[0].turns if turn.role == "assistant"]


def _learnt(demo: Demonstration, turn: Turn) -> bool:
    """Whether every token of the turn carries a loss; fails if only some do."""
    values = set(demo.payload.loss_mask[turn.span[0] : turn.span[1]].tolist())
    assert len(values) == 1
    return values == {True}


def _with_mistake(
    demos: Sequence[Demonstration], rows: Sequence[Corrected], kind: str
) -> list[Demonstration]:
    names = {row.rollout_id for row in rows if row.left_out is None and row.kind == kind}
    return [demo for demo in demos if demo.rollout.rollout_id in names]


def test_a_mistake_is_seen_named_corrected_and_never_learnt(tasks: Set, tmp_path: Path) -> None:
    """At smoke's three turns: one mistake, its correction, the submit; nothing else has room."""
    ctx = tasks.context(tmp_path, "cold_start.correction_share=1.0", "cold_start.demonstrations_per_task=4")
    demos, rows = _played(ctx)
    kept = [row for row in rows if row.left_out is None]
    assert {row.kind for row in kept} == {"wrong-line", "malformed-call"}
    assert {row.task_id for row in kept} == {task.task_id for task in tasks.shown}
    for kind in ("wrong-line", "malformed-call"):
        for demo in _with_mistake(demos, rows, kind):
            mistake, correction, submit = _said(demo)
            assert [_learnt(demo, turn) for turn in (mistake, correction, submit)] == [False, True, True]
            assert correction.text.startswith("Mistake: ")
            assert "Correction:\n<edit" in correction.text
            assert not correction.flags
            assert bool(mistake.flags) == (kind == "malformed-call")
            answer = demo.rollout.contexts[0].turns[3]
            assert answer.role == "tool"
            assert answer.text.startswith("No action read" if mistake.flags else "Edited ")
            assert demo.rollout.verdict is not None
            assert demo.rollout.verdict.passed
    unplayed = [row for row in rows if row.rollout_id is None]
    assert {row.left_out for row in unplayed if row.kind == "edit-fails-tests"} >= {
        "needs 4 turns, harness.max_turns is 3"
    }
    plain = [demo for demo in demos if demo.rollout.task_id == tasks.unseen.task_id]
    assert len(plain) == 4, "a task whose mistakes do not fit keeps its plain demonstrations"
    assert all(_learnt(demo, turn) for demo in plain for turn in _said(demo))
    assert len(demos) == 12
    assert ctx.counts["own mistake not played"] == len(unplayed)
    assert numbers(rows)["corrections"] == len(kept) == 8
    assert "8 hold a corrected mistake (malformed-call " in _note(len(demos), rows)


def test_with_more_turns_the_tests_show_a_wrong_repair_first(tasks: Set, tmp_path: Path) -> None:
    ctx = tasks.context(
        tmp_path, "cold_start.correction_share=1.0", "cold_start.demonstrations_per_task=4",
        "harness.max_turns=6", "policy.context_tokens=2048",
    )  # fmt: skip
    demos, rows = _played(ctx)
    assert {row.task_id for row in rows if row.left_out is None} >= {tasks.unseen.task_id}
    wrong = _with_mistake(demos, rows, "edit-fails-tests")
    assert wrong
    for demo in wrong:
        said = _said(demo)
        at = next(place for place, turn in enumerate(said) if not _learnt(demo, turn))
        tests, correction, *rest = said[at + 1 :]
        assert tests.text == "<test/>"
        assert "FAIL" in demo.rollout.contexts[0].turns[2 * (at + 1) + 3].text
        assert correction.text.startswith("Mistake: the tests fail")
        assert [turn.text for turn in rest] == ["<test/>", "<submit/>"][-len(rest) :]


def test_no_share_is_what_it_was_and_a_resume_plays_nothing_again(tasks: Set, tmp_path: Path) -> None:
    ctx = tasks.context(tmp_path, "cold_start.correction_share=0.0")
    demos, rows = _played(ctx)
    assert rows == []
    assert all(_learnt(demo, turn) for demo in demos for turn in _said(demo))
    ctx.cache = Path("/nonexistent")
    again = kept_demonstrations(ctx.out / "demonstrations")
    assert [demo.rollout for demo in again] == [demo.rollout for demo in demos]


def _line(
    task: Task, faulty: str, *, kind: str = "refused-call", answer: str = "", note: str = ""
) -> Correction:
    source = CorrectionSource(run="r", stage="rl-mixed", rollout_id="x.0", turn=0)
    return Correction(
        task_id=task.task_id, harness="edit-lines", source=source, kind=kind, faulty=faulty,
        observation=answer, note=note,
    )  # fmt: skip


def _path(task: Task) -> str:
    return task.instruction.split(" in ", 1)[1].split(":", 1)[0]


def test_recorded_mistakes_are_replayed_restored_and_accounted_for(tasks: Set, tmp_path: Path) -> None:
    one, two = tasks.shown
    path = _path(one)
    ruined = f'<edit path="{path}" line="1-2">x = 1</edit>'
    lines = [
        _line(
            one, ruined, kind="later-kind", note="half of the file was thrown away.", answer=f"Edited {path}:"
        ),
        _line(two, f'<edit path="{_path(two)}" line="999">x</edit>', answer=f"{_path(two)} has "),
        _line(one, ruined, kind="later-kind"),
        _line(one, "<submit/>", kind="submit-failing"),
        _line(one, f'<edit path="{path}" line="1">y</edit>', kind="later", note="see <submit/> there."),
        _line(two, '<look path="none.py"/>', answer="none.py:"),
        _line(tasks.heldout, "<test/>"),
        replace(_line(one, "<look/>"), task_id="gone"),
        replace(_line(one, "<look/>"), harness="other"),
    ]
    file = tmp_path / "corrections.jsonl"
    write_corrections(file, lines)
    ctx = tasks.context(
        tmp_path, "cold_start.correction_share=0.0", f"cold_start.corrections={file}",
        "cold_start.corrections_max_share=0.9", "sampling.turn_tokens=160",
    )  # fmt: skip
    demos, rows = _played(ctx)
    assert numbers(rows)["corrections/recorded"] == 2
    assert sorted(row.left_out for row in rows if row.left_out is not None) == [
        "its harness other is not one of this run",
        "its task is no training task of this run",
        "its task is no training task of this run",
        "the faulty turn ends the rollout",
        "the note of the mistake holds markup",
        "the same turn on the same task again",
        "the tool answers otherwise than it was recorded",
    ]
    (restored,) = _with_mistake(demos, rows, "later-kind")
    mistake, correction, _ = _said(restored)
    assert (mistake.text, _learnt(restored, mistake)) == (ruined, False)
    assert correction.text.startswith("Mistake: half of the file was thrown away. Correction:\n<edit")
    assert ctx.counts["recorded mistake dropped"] == 1
    assert ctx.counts["recorded mistake not played"] == 6
    assert len(demos) == 6 + 2, "every plain demonstration is still there"


def test_a_file_never_outweighs_the_demonstrations(tasks: Set, tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    write_corrections(file, [_line(task, f"<look {n}") for n in range(4) for task in tasks.shown])
    ctx = tasks.context(tmp_path, "cold_start.correction_share=0.0", f"cold_start.corrections={file}")
    _, rows = _played(ctx)
    assert sum(row.left_out is None for row in rows) == 2, "a quarter of the whole: 2 beside 6"
    assert sum(row.left_out == "over cold_start.corrections_max_share" for row in rows) == 6


def test_a_file_of_another_task_set_is_refused(tasks: Set, tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"
    write_corrections(file, [replace(_line(tasks.shown[0], "<look/>"), task_id="gone")])
    with pytest.raises(RecipeError, match="none of its 1 corrections is of a training task of this run"):
        _played(tasks.context(tmp_path, f"cold_start.corrections={file}"))


def test_what_the_file_holds_is_part_of_the_key_and_a_bad_file_ends_the_plan(tmp_path: Path) -> None:
    def key(path: Path) -> object:
        return ColdStart().params(smoke_recipe([f"cold_start.corrections={path}"]))

    first, moved, other = (tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl"))
    row = json.loads(to_line(Correction(
        task_id="t", harness="h", source=CorrectionSource(run=None, stage="s", rollout_id="r", turn=0),
        kind="k", faulty="f", observation="", note="n",
    )))  # fmt: skip
    first.write_text(json.dumps(row) + "\n")
    moved.write_text(first.read_text())
    other.write_text(first.read_text() * 2)
    assert key(first) == key(moved) != key(other)
    other.write_text(first.read_text() + json.dumps(row | {"schema": 9}) + "\n")
    with pytest.raises(RecipeError, match=r"c\.jsonl:2: .*schema is 9"):
        key(other)
    with pytest.raises(RecipeError, match="cannot read"):
        key(tmp_path / "none.jsonl")


def test_an_evaluations_rollouts_stay_in_the_store(tasks: Set, tmp_path: Path) -> None:
    ctx = tasks.context(tmp_path, "cold_start.stop_pass_rate.rollouts=3")
    spec = ctx.recipe.cold_start
    assert spec is not None

    async def go() -> float:
        with open_house(cast(StageContext, ctx), TOKENIZER, "cold-start:70") as house:

            def submits(prompt: tuple[int, ...], params: SamplingParams) -> list[int]:
                return house.renderer.assistant_ids("<submit/>")

            school = SimpleNamespace(sampler=ScriptedSampler(submits, weight_version=1), house=house)
            return await _pass_rate(cast(StageContext, ctx), spec, school, 70)  # type: ignore[arg-type]

    assert asyncio.run(go()) == 0.0
    store = RolloutStore(tmp_path)
    assert store.steps() == [70]
    rollouts = list(store.rollouts(70))
    assert len(rollouts) == 3
    assert {(rollout.step, rollout.policy) for rollout in rollouts} == {(70, "cold-start:70")}
    assert store.payloads(70).keys() == {rollout.rollout_id for rollout in rollouts}
