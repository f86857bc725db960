"""Records go to JSON lines and back unchanged; damaged ones are refused with the field's name."""

from __future__ import annotations

import json

import pytest

from mimo.records import from_json, from_line, to_json, to_line
from mimo.types import (
    Context,
    Environment,
    Flag,
    HackFinding,
    HackVerdict,
    Limits,
    Rollout,
    RolloutStatus,
    Source,
    Task,
    Turn,
    Verifier,
)

LIMITS = Limits(wall_s=1, turn_s=1, command_s=1.5, memory_mb=1, processes=1, disk_mb=1, output_bytes=1)
TASK = Task(
    task_id="t",
    domain="coding",
    family="f",
    split="train",
    source=Source(kind="k", name="n", version="1", sha256="s", license="l"),
    instruction="fix «it»\n",
    environment=Environment(image="i", snapshot="s", workdir="/repo", env={"A": "b"}, limits=LIMITS),
    verifier=Verifier(
        kind="tests",
        fail_to_pass=("a",),
        pass_to_pass=(),
        protected=(),
        command="c",
        timeout_s=1,
        expect={"a": [1, {"b": None}]},
    ),
    private="p",
)
TURN = Turn(role="assistant", text="x", span=(0, 3), flags=(Flag(rule="a", span=(0, 1)),))
ROLLOUT = Rollout(
    rollout_id="r",
    group_id="g",
    task_id="t",
    domain="coding",
    harness="h",
    policy="p",
    step=0,
    seed=1,
    status=RolloutStatus.DONE,
    contexts=(Context(context_id="c", parent=None, turns=(TURN,)),),
    hack=HackFinding(verdict=HackVerdict.CLEAN),
)


@pytest.mark.parametrize("item", [TASK, ROLLOUT])
def test_a_record_survives_the_line(item: object) -> None:
    line = to_line(item)
    assert line.count(b"\n") == 1
    assert from_line(type(item), line) == item
    assert json.loads(line)["schema"] == 1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"step": "x"}, "step"),
        ({"step": 1.5}, "step"),
        ({"nope": 1}, "nope"),
        ({"status": "finished"}, "status"),
        ({"schema": 2}, "schema"),
        ({"contexts": [{"context_id": "c", "parent": None, "turns": [{"role": "cat"}]}]}, "turns.0.role"),
    ],
)
def test_a_damaged_record_is_refused_by_name(change: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        from_json(Rollout, {**to_json(ROLLOUT), **change})  # type: ignore[dict-item]


def test_a_missing_field_and_a_line_that_is_no_object() -> None:
    data = to_json(ROLLOUT)
    del data["seed"]
    with pytest.raises(ValueError, match="seed"):
        from_json(Rollout, data)
    with pytest.raises(ValueError, match="not JSON"):
        from_line(Rollout, b"{")
    with pytest.raises(ValueError, match="expected an object"):
        from_line(Rollout, b"[]")
