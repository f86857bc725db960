from __future__ import annotations

import json
from pathlib import Path

import pytest

from mimo.errors import RecipeError
from mimo.rollouts.corrections import (
    Correction,
    CorrectionSource,
    read_corrections,
    write_corrections,
)

LINE = {
    "schema": 1,
    "task_id": "clamp-1",
    "harness": "edit-lines",
    "source": {"run": "r1", "stage": "rl-mixed", "rollout_id": "s1-g0.3", "turn": 2},
    "kind": "refused-call",
    "faulty": '<edit path="a.py" line="99">x</edit>',
    "observation": "a.py has 4 lines.",
    "note": "The action names a file or lines that are not there.",
}


def test_a_written_file_is_the_agreed_form_and_reads_back(tmp_path: Path) -> None:
    correction = Correction(
        task_id="clamp-1",
        harness="edit-lines",
        source=CorrectionSource(run="r1", stage="rl-mixed", rollout_id="s1-g0.3", turn=2),
        kind="refused-call",
        faulty='<edit path="a.py" line="99">x</edit>',
        observation="a.py has 4 lines.",
        note="The action names a file or lines that are not there.",
    )
    path = tmp_path / "corrections.jsonl"
    write_corrections(path, [correction, correction])
    assert [json.loads(line) for line in path.read_text().splitlines()] == [LINE, LINE]
    assert read_corrections(path) == [correction, correction]


def test_an_unknown_kind_and_a_nameless_run_are_read(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    row = {**LINE, "kind": "later", "source": {**LINE["source"], "run": None}}  # type: ignore[dict-item]
    path.write_text(json.dumps(row) + "\n\n")
    (found,) = read_corrections(path)
    assert (found.kind, found.source.run) == ("later", None)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("not json", "not JSON"),
        ("[]", "expected an object"),
        (json.dumps({**LINE, "schema": 2}), "schema is 2"),
        (json.dumps({**LINE, "right": "x"}), "right"),
        (json.dumps({**LINE, "source": {"run": None}}), "source.turn"),
    ],
)
def test_a_bad_line_is_named_by_its_number(tmp_path: Path, bad: str, said: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps(LINE) + "\n" + bad + "\n")
    with pytest.raises(RecipeError, match=":2: ") as caught:
        read_corrections(path)
    assert said in caught.value.message


def test_a_missing_file_and_many_bad_lines_are_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="cannot read"):
        read_corrections(tmp_path / "none.jsonl")
    path = tmp_path / "c.jsonl"
    path.write_text("x\n" * 8)
    with pytest.raises(RecipeError, match="and 3 more"):
        read_corrections(path)
