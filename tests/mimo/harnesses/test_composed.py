"""Harnesses put together by name: their parts, what they tell a policy, and what their tools do in a box."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mimo.errors import RecipeError
from mimo.harnesses import HARNESSES, HELDOUT, load_harness, supported
from mimo.harnesses.context import KeepAll, Recent
from mimo.types import Task, ToolCall
from sandbox import BoxLimits, BoxSpec, Sandbox, open_sandbox
from tests.mimo.rollouts.made import made_task

NAMES = [name for name in HARNESSES.names() if name != "edit-lines"]


@pytest.fixture
def box(rootfs: Path, tmp_path: Path) -> Iterator[Sandbox]:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 200)))
    limits = BoxLimits(wall_s=60, command_s=20, memory_mb=256, processes=32, disk_mb=32, output_bytes=8192)
    with open_sandbox(
        "local", BoxSpec(rootfs=rootfs, snapshot=tmp_path / "tree", workdir="/work", limits=limits)
    ) as opened:
        yield opened


@pytest.fixture
def task() -> Task:
    made = made_task("t")
    limits = replace(made.environment.limits, command_s=5.0)
    return replace(
        made, domain="agent", environment=replace(made.environment, workdir="/work", limits=limits)
    )


def test_four_harnesses_train_an_agent_and_two_are_kept_for_evaluation() -> None:
    mine = supported(HARNESSES.names(), "agent")
    assert len(set(mine) - set(HELDOUT)) >= 4
    assert set(HELDOUT) <= set(mine)
    openings = {name: load_harness(name, max_turns=3).opening(made_task("t"))[0].text for name in NAMES}
    assert len(set(openings.values())) == len(NAMES)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("terse+json+files", "has 3 parts, not 4"),
        ("terse+jsn+files+recent", "no format 'jsn' .did you mean 'json'"),
        ("terse+json+file+recent", "no tools 'file' .did you mean 'files'"),
        ("terse+bash+files+keep-all", "bash blocks cannot say the tools read, write"),
        ("bash-ters", "did you mean 'bash-terse'"),
    ],
)
def test_a_wrong_part_is_named(name: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        load_harness(name, max_turns=3)


def test_parts_recombine_and_decide_the_domains() -> None:
    free = load_harness("plan+json+lines+recent", max_turns=3)
    assert free.name == "plan+json+lines+recent"
    assert free.domains == ("coding", "visual")
    assert free.context == Recent()
    assert load_harness("edit-lines", max_turns=3).context == KeepAll()
    assert supported(["terse+xml+shell+keep-all", "edit-lines"], "cyber") == ["terse+xml+shell+keep-all"]


def test_the_opening_says_the_goal_and_every_action(task: Task) -> None:
    system, user = load_harness("xml-files", max_turns=3).opening(task)
    assert "Change nothing else" in system.text
    assert all(f"<{name}" in system.text for name in ("read", "write", "shell", "submit"))
    assert user.text == task.instruction.strip()


def test_tools_in_a_box(box: Sandbox, task: Task) -> None:
    acting = load_harness("json-files-recent", max_turns=9)

    def act(name: str, **arguments: object) -> str:
        return acting.act(ToolCall(name=name, arguments=arguments), box, task).text  # type: ignore[arg-type]

    assert act("read", path="a.txt", lines=[198, 300]) == "line 198\nline 199"
    assert act("read", path="a.txt").endswith("line 60\n(199 lines in all)")
    assert act("read", path="no.txt").startswith("Cannot read no.txt")
    assert act("write", path="new/b.txt", content="hello\n") == "Wrote new/b.txt: 6 characters."
    assert act("shell", command="\ncat new/b.txt\n") == "hello"
    assert act("shell", command="false") == "exit 1"
    assert act("shell", command="true") == "No output."
    assert act("shell", command="sleep 30").startswith("The command took too long.")
    assert (
        acting.act(None, box, task).text
        == "No action read. Use one of read, write, shell, submit.\nNo turn left."
    )


def test_a_submit_ends_and_the_last_turn_is_said(box: Sandbox, task: Task) -> None:
    acting = load_harness("bash-terse", max_turns=2)
    assert (
        acting.act(ToolCall(name="shell", arguments={"command": "echo x"}), box, task).text == "x\nLast turn."
    )
    done = acting.act(ToolCall(name="submit", arguments={}), box, task)
    assert (done.done, done.text) == (True, "Submitted.")


def test_an_expert_without_file_tools_uses_the_shell(box: Sandbox, task: Task) -> None:
    acting = load_harness("xml-plan", max_turns=4)
    for call in (
        ToolCall(name="write", arguments={"path": "c.txt", "content": "one\n$two\n"}),
        ToolCall(name="read", arguments={"path": "c.txt"}),
    ):
        text = acting.say(call)
        assert text.startswith(f"Next: {call.name}.\n")
        seen = acting.act(acting.parse(text).call, box, task)
    assert seen.text == "one\n$two"
    with pytest.raises(ValueError, match="cannot say test"):
        acting.say(ToolCall(name="test", arguments={}))


def test_when_old_observations_are_dropped() -> None:
    recent = Recent(keep=1, above=0.5)
    assert recent.drops([50, 50, 50], used=50, limit=100) == 0
    assert recent.drops([50, 50, 50], used=51, limit=100) == 2
    assert recent.drops([], used=99, limit=100) == 0
    assert KeepAll().drops([50, 50, 50], used=99, limit=100) == 0
