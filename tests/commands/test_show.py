"""`mimo show`: a run, a stage's groups, a group, a rollout; prefixes, near names, hostile text, damage."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from commands.cli import cli
from mimo.errors import RecipeError
from mimo.records import to_line
from mimo.rollouts.changes import changes_digest
from mimo.rollouts.store import RolloutStore
from mimo.run_dir.runs import list_runs
from mimo.types import (
    Group,
    HackFinding,
    HackVerdict,
    RolloutError,
    RolloutStatus,
    ToolCall,
    ToolResult,
    Turn,
)
from sandbox.base import Changes, FileChange
from tests.mimo.pipeline.conftest import Bench, made_bench
from tests.mimo.rollouts.made import made_rollout

CHANGES = Changes(files=(FileChange(path="a.py", data=b"x = 2\n", mode=0o644, refused=None),), capped=False)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A finished run whose rl-mixed left a step of two groups, and its audit one rollout."""
    bench = made_bench(tmp_path_factory.mktemp("show"))
    assert bench.run().error is None
    store = RolloutStore(bench.output("rl-mixed"))
    members = [_member(number, "s000003-g00002") for number in range(3)]
    members[1] = _masked(members[1])
    other = [_member(number, "s000003-g00010") for number in range(2)]
    store.write(3, [*members, *other])
    (store.folder / "groups").mkdir()
    record = Group(
        group_id="s000003-g00002",
        task_id="task",
        step=3,
        rollout_ids=("s000003-g00002.0",),
        method="gar",
        accepted=False,
        reason="all failed",
        statistics={"scale": 1.25},
    )
    (store.folder / "groups" / "000003.jsonl").write_bytes(to_line(record))
    RolloutStore(bench.output("audit")).write(1, [_member(0, "base-heldout-000001-00000")])
    return bench


@pytest.fixture
def scene(finished: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("MIMO_HOME", str(finished.home.root))
    return finished


def _member(number: int, group: str) -> Any:
    made = made_rollout(number, number == 0, group=group)
    finished = replace(made, changes=None)
    rollout = replace(
        made.rollout, rollout_id=f"{group}.{number}", group_id=group, step=3, reward=float(number == 0)
    )
    return replace(finished, rollout=rollout)


def _masked(finished: Any) -> Any:
    """The second member: a tool call, hostile output, a masked token, an error, a hack, a change."""
    rollout, payload = finished.rollout, finished.payload
    (context,) = rollout.contexts
    asked, said = context.turns
    said = replace(said, tool_calls=(ToolCall(name="bash", arguments={"command": "cat \x1b[31msecret"}),))
    answer = Turn(
        role="tool",
        text="out\x1b[2Jput\u202e",
        span=(said.span[1], said.span[1]),
        tool_result=ToolResult(exit_code=7, truncated=True),
    )
    mask = payload.loss_mask.copy()
    mask[said.span[0]] = False
    rollout = replace(
        rollout,
        contexts=(replace(context, turns=(asked, said, answer)),),
        status=RolloutStatus.ERROR,
        error=RolloutError(where="tool", type="BoxDied", message="gone"),
        verdict=None,
        reward=None,
        hack=HackFinding(verdict=HackVerdict.SUSPECTED, routes=("A01",), evidence=("context 0 turn 1: A01",)),
    )
    changed = replace(finished, rollout=rollout, payload=replace(payload, loss_mask=mask), changes=CHANGES)
    return replace(changed, rollout=replace(rollout, diff=changes_digest(CHANGES)))


def call(*args: str) -> Result:
    return CliRunner().invoke(cli, ["show", *args])


def data(*args: str) -> dict[str, Any]:
    result = call(*args, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.output)
    return found


def refused(*args: str) -> str:
    error = call(*args).exception
    assert isinstance(error, RecipeError)
    return f"{error.message} | {error.hint}"


def test_a_run_says_how_it_stands_and_where_things_are(scene: Bench) -> None:
    (run,) = list_runs(scene.home)
    for name in (run.run_id, "last", str(scene.recipe)):
        found = data(name)
        assert (found["kind"], found["run"], found["status"]) == ("run", run.run_id, "done")
    rl = next(row for row in found["stages"] if row["stage"] == "rl-mixed")
    assert rl["headline"] == {"pass_rate": 0.5}
    assert Path(rl["folder"]) == scene.output("rl-mixed")
    text = call("last").output
    assert "rl-mixed: pass_rate = 0.5" in text
    assert "prepare-env: task rejected: 2" in text
    assert str(scene.output("audit")) in text


def test_a_stage_lists_its_groups(scene: Bench) -> None:
    rows = data("last", "rl-mixed")["groups"]
    assert [(row["group_id"], row["rollouts"], row["passed"]) for row in rows] == [
        ("s000003-g00002", 3, 1),
        ("s000003-g00010", 2, 1),
    ]
    assert (rows[0]["no_verdict"], rows[0]["on_a_route"], rows[0]["reward_mean"]) == (1, 1, 0.5)
    assert "2 groups, 5 rollouts" in call("last", "rl-mixed").output
    assert "no rollouts" in call("last", "prepare-env").output


def test_a_group_is_a_table_of_its_rollouts(scene: Bench) -> None:
    found = data(str(scene.recipe), "s000003-g00002")
    assert found["group"]["reason"] == "all failed"
    assert [row["rollout_id"][-1] for row in found["rollouts"]] == ["0", "1", "2"]
    assert "contexts" not in found["rollouts"][0]
    text = call("last", "s000003-g00002").output
    assert "method gar, not trained on: all failed" in text
    assert "scale: 1.25" in text
    row = next(line for line in text.splitlines() if line.startswith("s000003-g00002.1"))
    assert "error" in row
    assert "suspected A01" in row
    assert "BoxDied in tool: gone" in row


def test_a_rollout_is_a_transcript(scene: Bench) -> None:
    found = data("last", "s000003-g00002-r1")
    assert found["rollout"]["rollout_id"] == "s000003-g00002.1"
    assert found["tokens"] == [
        [
            {"tokens": 3, "trained": 0, "masked": 0},
            {"tokens": 4, "trained": 3, "masked": 1},
            {"tokens": 0, "trained": 0, "masked": 0},
        ]
    ]
    text = call("last", "s000003-g00002.1").output
    for part in (
        "BoxDied in tool: gone", "verdict   none", "suspected, A01", "context 0 turn 1: A01",
        "1 of the policy's", "--- 1 assistant · 4 tokens, 1 masked", "-> bash",
        "--- 2 tool · exit code 7 · output was cut",
        "+x = 2", "note: no verdict, so no reward", "note: its group was not trained on: all failed",
    ):  # fmt: skip
        assert part in text, part
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_ids_without_a_run_and_beginnings(scene: Bench) -> None:
    assert data("s000003-g00002.0")["rollout"]["rollout_id"] == "s000003-g00002.0"
    assert data("s000003-g0001")["kind"] == "group"
    assert data("last", "base-h")["rollout"]["group_id"] == "base-heldout-000001-00000"
    assert data("last", "audit/base-heldout-000001-00000.0")["stage"] == "audit"
    assert "5 rollouts in 2 groups: rl-mixed/s000003-g00002, rl-mixed/s000003-g00010" in refused("last", "s0")


def test_unknown_names_are_told_the_near_ones(scene: Bench) -> None:
    assert "near it: s000003-g00002.2, s000003-g00002.1" in refused("last", "s000003-g00002-r9")
    assert "near it: s000003-g00010" in refused("last", "s000003-g00011")
    assert "has no stage 'rl-mixd' | it has prepare-env, " in refused("last", "rl-mixd/s0")
    assert "no stage, group or rollout 'nonsense'" in refused("nonsense")
    assert "is no run" in refused("nonsense", "s0")


def test_an_unfinished_stage_is_shown_too(scene: Bench, knobs: Callable[..., None]) -> None:
    knobs(at="raise")
    assert scene.run("rl_mixed.group_size=4").error is not None
    assert "has no rollouts yet" in refused("last", "s0")
    (work,) = scene.home.outputs("rl-mixed").glob("*.work/out")
    RolloutStore(work).write(3, [_member(0, "s000003-g00004")])
    found = data("last", "s000003")
    assert found["rollout"]["rollout_id"] == "s000003-g00004.0"
    assert found["folder"] == str(work)
    shutil.rmtree(scene.home.run(list_runs(scene.home)[0].run_id))


def test_damaged_records_are_one_clear_error(scene: Bench) -> None:
    folder = scene.output("rl-mixed")
    payload, records = folder / "payload" / "000003-0.safetensors", folder / "rollouts" / "000003.jsonl.gz"
    whole = payload.read_bytes(), records.read_bytes()
    payload.write_bytes(b"short")
    assert "tokens of step 3 cannot be read" in refused("last", "s000003-g00002.0")
    payload.unlink()
    assert data("last", "s000003-g00002.0")["tokens"] is None
    records.write_bytes(b"no gzip")
    assert "rollouts cannot be read" in refused("last", "s000003-g00002.0")
    payload.write_bytes(whole[0])
    records.write_bytes(whole[1])
