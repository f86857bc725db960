"""Every family and level: the gates, the expert in every harness, and what is kept from a policy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mimo.domains.agent.draw import draw, families_for
from mimo.domains.agent.families import FAMILIES
from mimo.domains.agent.source import GeneratedTasks
from mimo.domains.base import share_kind
from mimo.errors import RecipeError
from mimo.harnesses import HARNESSES, supported
from mimo.pipeline.code import CodeReader
from tests.mimo.domains.lab import NOTHING, Lab

HARNESSES_HERE = supported(HARNESSES.names(), "agent")
TRAIN = [name for name, entry in FAMILIES.items() if entry.split == "train"]
PLACES = [(name, level) for name in FAMILIES for level in (1, 2)]


def test_twelve_families_to_train_on_and_four_held_out() -> None:
    assert len(TRAIN) == 12
    assert len(FAMILIES) - len(TRAIN) == 4
    assert {share for name in FAMILIES for share in [name.startswith("context-")]} == {True, False}


@pytest.mark.parametrize(("family", "level"), PLACES)
def test_the_reference_passes_and_doing_nothing_does_not(lab: Lab, family: str, level: int) -> None:
    task = lab.task(family, level)
    good = lab.verdict(task, lab.domain.reference(task, lab.store))
    assert good.passed, good.detail
    idle = lab.verdict(task, NOTHING)
    assert not idle.passed
    tests = idle.detail["tests"]
    assert isinstance(tests, dict)
    assert {name for name, outcome in tests.items() if outcome == "failed"} == set(task.verifier.fail_to_pass)
    assert {name for name, outcome in tests.items() if outcome == "passed"} == set(task.verifier.pass_to_pass)


@pytest.mark.parametrize(("place", "family"), list(enumerate(TRAIN)))
def test_the_expert_brings_every_training_task_about(lab: Lab, place: int, family: str) -> None:
    """At both levels, each time in another harness, so that every harness meets several families."""
    for level in (1, 2):
        harness = HARNESSES_HERE[(place + 3 * level) % len(HARNESSES_HERE)]
        task = lab.task(family, level)
        verdict = lab.verdict(task, lab.replayed(task, harness, seed=place))
        assert verdict.passed, (harness, verdict.detail)
        assert verdict.detail["refused"] == {}


def test_the_expert_speaks_every_harness(lab: Lab) -> None:
    assert len(HARNESSES_HERE) >= 6
    task = lab.task("setting", 2)
    for harness in HARNESSES_HERE:
        assert lab.verdict(task, lab.replayed(task, harness, seed=1)).passed, harness


def test_no_heldout_task_is_demonstrated_nor_holds_an_experts_steps(lab: Lab) -> None:
    for name in set(FAMILIES) - set(TRAIN):
        task = lab.task(name, 1)
        assert not lab.domain.demonstrates(task)
        assert not (lab.store.private(task) / "solution/steps.json").exists()
        with pytest.raises(RecipeError, match="no demonstration"):
            lab.domain.demonstrate(task, lab.store, harness="bash-terse", seed=0)
    with pytest.raises(RecipeError, match="not for the agent domain"):
        lab.domain.demonstrate(lab.task("rename", 1), lab.store, harness="edit-lines", seed=0)


def test_an_expert_needs_few_turns(lab: Lab) -> None:
    for family in TRAIN:
        for level, most in ((1, 3), (2, 4)):
            task = lab.task(family, level)
            for seed in range(6):
                turns = lab.domain.demonstrate(task, lab.store, harness="bash-terse", seed=seed)
                assert len(turns) <= most
                assert "submit" in turns[-1].text


@pytest.mark.parametrize("family", FAMILIES)
def test_many_draws_of_a_family_are_tasks(family: str) -> None:
    """The end state differs from the beginning, in every draw; instructions vary and are short."""
    said = set()
    for index in range(60):
        made = draw(index, FAMILIES[family].split, 0, (FAMILIES[family],), 1 + index % 2)
        case = made.case
        before = case.world.files
        assert case.after or case.rows
        assert all(before.get(path) != text for path, text in case.after.items())
        assert all(case.world.tables[name] != rows for name, rows in case.rows.items())
        assert all(path in before for path, text in case.after.items() if text is None)
        assert len(case.instruction) < 240
        said.add(case.instruction)
    assert len(said) >= 5 or family in ("context-brief",)


def test_the_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    source = GeneratedTasks(seed=4, train=12, heldout=4, families=None, level=None)
    for task_id in source.task_ids():
        one, two = (source.build(task_id, tmp_path / name) for name in "ab")
        files = {path.relative_to(one): path.read_bytes() for path in one.rglob("*") if path.is_file()}
        assert files == {
            path.relative_to(two): path.read_bytes() for path in two.rglob("*") if path.is_file()
        }


def test_nothing_of_the_checks_is_in_the_workspace(lab: Lab) -> None:
    task = lab.task("counting", 2)
    names = {path.name for path in lab.store.snapshot(task).rglob("*")}
    assert not names & {"checks.json", "steps.json", "deleted.txt"}
    wanted = json.loads((lab.store.private(task) / "tests/checks.json").read_bytes())
    assert wanted["files"]


def test_context_tasks_count_under_their_own_share(lab: Lab) -> None:
    assert share_kind(lab.task("context-brief", 1)) == "context"
    assert share_kind(lab.task("rename", 1)) == "agent"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"families": ["renam"]}, "unknown task families renam"),
        ({"families": ["merge"]}, "no task family of the agent domain is left for the train split"),
        ({"level": 3}, "level is 3"),
        ({"kind": "folder"}, "no task source 'folder'"),
    ],
)
def test_a_wrong_source_is_a_clear_error(lab: Lab, source: dict[str, object], message: str) -> None:
    entry: dict[str, object] = {"kind": "generated", "domain": "agent", "seed": 1, "train": 1, "heldout": 0}
    with pytest.raises(RecipeError, match=message):
        lab.domain.list_sources({**entry, **source})  # type: ignore[dict-item]


def test_a_level_two_source_draws_from_all_families() -> None:
    assert {entry.name for entry in families_for("train", None, 2)} == set(TRAIN)


def test_a_stages_code_digest_holds_the_programs_that_go_into_boxes() -> None:
    modules = CodeReader().facts("mimo.stages.prepare_env").modules
    programs = ("desk", "api_client", "api_server", "read_db")
    assert {f"mimo.domains.agent.boxed.{name}" for name in programs} <= set(modules)
