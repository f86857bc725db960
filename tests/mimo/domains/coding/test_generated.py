"""The generator: enough families, a strict split, one wrong line each, the same bytes from one seed."""

from __future__ import annotations

import ast
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mimo.domains.coding.expert import can_demonstrate, demonstration, one_line_edit
from mimo.domains.coding.generated.behavior import outcomes
from mimo.domains.coding.generated.draw import draw, families_for
from mimo.domains.coding.generated.families import FAMILIES
from mimo.domains.coding.generated.family import Family
from mimo.domains.coding.generated.mutate import bugs
from mimo.domains.coding.generated.source import GeneratedTasks
from mimo.errors import RecipeError
from mimo.harnesses import load_harness
from mimo.types import Json, Task
from tests.mimo.domains.coding.conftest import NOTHING, Lab


def _source(**values: Json) -> GeneratedTasks:
    return GeneratedTasks.of(
        {"kind": "generated", "domain": "coding", "seed": 3, "train": 40, "heldout": 10} | values
    )


def test_numbers_of_families() -> None:
    assert len(FAMILIES) >= 40
    assert sum(entry.split == "heldout" for entry in FAMILIES.values()) >= 12


@pytest.mark.parametrize("entry", FAMILIES.values(), ids=FAMILIES)
def test_every_spelling_is_a_right_function_with_distinct_names(entry: Family) -> None:
    for number in range(6):
        spelling = entry.spell(random.Random(number), 2)
        function = ast.parse(spelling.source).body[0]
        assert isinstance(function, ast.FunctionDef)
        names = {argument.arg for argument in function.args.args}
        assert len(names) == len(function.args.args)
        assert ast.get_docstring(function)
        assert spelling.module not in sys.stdlib_module_names
        assert all(
            result.startswith("= ") for result in outcomes(spelling.source, spelling.function, entry.inputs)
        )


@pytest.mark.parametrize("entry", FAMILIES.values(), ids=FAMILIES)
def test_placeholders_never_collide(entry: Family) -> None:
    """At level 2 every placeholder is drawn alone, so no two may share a spelling."""
    words = [word for options in entry.words.values() for word in set(options)]
    assert [word for word, count in Counter(words).items() if count > 1] == []


def test_a_bug_is_one_line_and_its_repair_is_the_original() -> None:
    source = 'def f(a, b):\n    """Text."""\n    if a < b:\n        return a + b\n    return 0\n'
    found = bugs(source)
    kinds = {bug.kind for bug in found}
    assert {"comparison", "operator", "boundary", "wrong-variable"} <= kinds
    for bug in found:
        broken = bug.apply(source).split("\n")
        assert [n for n, (x, y) in enumerate(zip(source.split("\n"), broken, strict=True), 1) if x != y] == [
            bug.line
        ]
        assert bug.line >= 3


def test_splits_share_no_family_and_shares_are_exact() -> None:
    source = _source()
    for split, pool, count in source.splits():
        assert {entry.split for entry in pool} == {split}
        assert count == (40 if split == "train" else 10)
    assert len(set(source.task_ids())) == 50


def test_every_draw_shows_the_bug_on_both_sides() -> None:
    pool = families_for("train", None, None)
    for index in range(80):
        task = draw(11, "train", index, pool, None)
        assert any(case.broken for case in task.visible)
        assert any(case.broken for case in task.hidden)
        assert len(task.hidden) >= len(task.visible)
        assert not {case.arguments for case in task.visible} & {case.arguments for case in task.hidden}


def test_same_seed_same_bytes_in_another_process(tmp_path: Path) -> None:
    source = _source()
    name = source.task_ids()[7]
    here = source.build(name, tmp_path / "here")
    code = (
        "from pathlib import Path; from mimo.domains.coding.generated.source import GeneratedTasks as G; "
        f"G.of({{'seed': 3, 'train': 40, 'heldout': 10}}).build({name!r}, Path({str(tmp_path / 'there')!r}))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONHASHSEED": "77"}, cwd=Path.cwd())
    files = sorted(path.relative_to(here) for path in here.rglob("*") if path.is_file())
    assert len(files) >= 9
    for path in files:
        assert (here / path).read_bytes() == (tmp_path / "there" / name / path).read_bytes()


def test_other_seed_or_family_list_gives_other_ids() -> None:
    ids = {_source().task_ids()[0], _source(seed=4).task_ids()[0], _source(level=1).task_ids()[0]}
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"families": ["clampp"]}, "unknown function families clampp"),
        ({"level": 9}, "level is 9"),
        ({"families": ["clamp"]}, "no function family is left for the heldout split"),
    ],
)
def test_bad_sources_are_refused(values: dict[str, Json], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        _source(**values)


def test_level_1_prompts_are_short(generated: Callable[..., list[Task]]) -> None:
    for task in generated(train=6, level=1):
        assert len(task.instruction) < 500
        assert "1 def " in task.instruction


def test_gate_holds_for_each_split(lab: Lab, generated: Callable[..., list[Task]]) -> None:
    for task in generated(train=5, heldout=5, seed=21):
        reference = lab.verdict(task, lab.domain.reference(task, lab.store))
        assert reference.passed, (task.family, reference.detail)
        idle = lab.verdict(task, NOTHING)
        assert not idle.passed
        assert not idle.tampered
        assert task.verifier.fail_to_pass


def test_expert_repairs_in_the_box_in_every_way(lab: Lab, generated: Callable[..., list[Task]]) -> None:
    ways = set()
    for task in generated(train=6, seed=31):
        for seed in range(3):
            name = ("edit-lines", "json-lines")[seed % 2]
            harness = load_harness(name, max_turns=3)
            turns = lab.domain.demonstrate(task, lab.store, harness=name, seed=seed)
            ways.add(tuple(str(turn.facts["action"]) for turn in turns))
            assert len(turns) <= 3
            with lab.open(task) as box:
                seen = [harness.act(harness.parse(turn.text).call, box, task) for turn in turns]
                box.freeze()
                changes = box.changes()
            assert [item.done for item in seen] == [False] * (len(turns) - 1) + [True]
            assert lab.verdict(task, changes).passed
    assert len(ways) >= 2


def test_expert_refuses_heldout_families_and_other_harnesses(
    lab: Lab, generated: Callable[..., list[Task]]
) -> None:
    (heldout,) = generated(heldout=1)
    assert not can_demonstrate(heldout)
    with pytest.raises(RecipeError, match="has no demonstration"):
        demonstration(heldout, lab.store, harness="edit-lines", seed=0)
    (train,) = generated(train=1)
    with pytest.raises(RecipeError, match="is not for the coding domain"):
        demonstration(train, lab.store, harness="bash-terse", seed=0)


def test_one_line_edit_names_the_line(lab: Lab, generated: Callable[..., list[Task]]) -> None:
    (task,) = generated(train=1, seed=2)
    path, line, code = one_line_edit(lab.store.snapshot(task), lab.store.private(task))
    base = (lab.store.snapshot(task) / path).read_text().split("\n")
    right = (lab.store.private(task) / "solution/files" / path).read_text().split("\n")
    assert base[line - 1] != right[line - 1]
    assert right[line - 1].strip() == code


def test_snapshot_holds_neither_hidden_tests_nor_the_reference(
    lab: Lab, generated: Callable[..., list[Task]]
) -> None:
    (task,) = generated(train=1, seed=6)
    tree = lab.store.snapshot(task)
    names = {path.name for path in tree.rglob("*")}
    assert "test_hidden.py" not in names
    assert "solution" not in names
    right = next((lab.store.private(task) / "solution/files").rglob("*.py")).read_bytes()
    assert right not in {path.read_bytes() for path in tree.rglob("*") if path.is_file()}
