"""The harness `edit-lines`: its parser's rules with their spans, and what its actions do in a box."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mimo.errors import RecipeError
from mimo.harnesses import load_harness
from mimo.harnesses.edit_lines import EditLines
from mimo.harnesses.markup import RULES
from mimo.harnesses.visible_tests import shortened
from mimo.types import Environment, Limits, Source, Task, ToolCall, Verifier
from sandbox import BoxLimits, BoxSpec, Sandbox, open_sandbox

LIMITS = Limits(
    wall_s=90, turn_s=30, command_s=60, memory_mb=256, processes=32, disk_mb=32, output_bytes=8192
)
MODULE = 'def add(a, b):\n    """Return a plus b."""\n    return a - b\n'
TEST = (
    "from m import add\n\n\ndef test_1():\n    assert add(1, 2) == 3\n"
    "\n\ndef test_2():\n    assert add(0, 0) == 0\n"
)


@pytest.mark.parametrize(
    ("text", "name", "faults"),
    [
        ('<look path="a.py"/>', "look", []),
        ('<look path="a.py" lines="3-9"/>', "look", []),
        ('I will fix it. <edit path="a.py" line="3">x < 3</edit>', "edit", []),
        ("<test/>", "test", []),
        ("if a < b and c > d: <submit/>", "submit", []),
        ('<edit path="a.py" line="3">x', None, [("malformed-markup", (0, 28))]),
        ('<look path="a.py"', None, [("malformed-markup", (0, 17))]),
        ("<look path=a.py/>", None, [("malformed-markup", (0, 17))]),
        ("<test></test>", None, [("malformed-markup", (0, 6)), ("malformed-markup", (6, 13))]),
        ("<run/>", None, [("unknown-tool", (0, 6))]),
        ('<bash cmd="ls">', None, [("unknown-tool", (0, 15))]),
        ("<look/>", None, [("malformed-arguments", (0, 7))]),
        ('<look path="a" path="b"/>', None, [("malformed-arguments", (0, 25))]),
        ('<look path="../secret"/>', None, [("malformed-arguments", (0, 24))]),
        ('<look path="/etc/passwd"/>', None, [("malformed-arguments", (0, 26))]),
        ('<edit path="a.py" line="0">x</edit>', None, [("malformed-arguments", (0, 35))]),
        ('<edit path="a.py" line="5-3">x</edit>', None, [("malformed-arguments", (0, 37))]),
        ('<test verbose="1"/>', None, [("malformed-arguments", (0, 19))]),
        ("<test/> <submit/>", "test", [("several-actions", (8, 17))]),
        ("<oops/><submit/>", "submit", [("unknown-tool", (0, 7))]),
        ("just words", None, [("empty-turn", (0, 10))]),
        ("", None, [("empty-turn", (0, 0))]),
    ],
)
def test_parser(text: str, name: str | None, faults: list[tuple[str, tuple[int, int]]]) -> None:
    parsed = EditLines(3).parse(text)
    assert (parsed.call.name if parsed.call else None) == name
    assert [(fault.rule, fault.chars) for fault in parsed.malformed] == faults
    assert all(fault.rule in RULES for fault in parsed.malformed)


def test_edit_body_may_hold_tags() -> None:
    parsed = EditLines(3).parse('<edit path="a.html" line="1"><b>bold</b> <test/></edit>')
    assert parsed.call == ToolCall(
        name="edit", arguments={"path": "a.html", "line": [1, 1], "body": "<b>bold</b> <test/>"}
    )
    assert parsed.malformed == ()


@pytest.fixture
def box(rootfs: Path, tmp_path: Path) -> Iterator[Sandbox]:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "m.py").write_text(MODULE)
    (tree / "test_m.py").write_text(TEST)
    (tree / "long.py").write_text("".join(f"x{n} = {n}\n" for n in range(1, 101)))
    (tree / "data.bin").write_bytes(b"\xff\xfe\n")
    for path in (tmp_path, tree, *tree.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    limits = BoxLimits(wall_s=90, command_s=60, memory_mb=256, processes=32, disk_mb=32, output_bytes=8192)
    with open_sandbox("local", BoxSpec(rootfs=rootfs, snapshot=tree, workdir="/work", limits=limits)) as made:
        yield made


def task_of(runner: str = "functions", command: str = "") -> Task:
    return Task(
        task_id="t",
        domain="coding",
        family="add",
        split="train",
        source=Source(kind="folder", name="t", version="0", sha256="0", license="CC0-1.0"),
        instruction="Fix add in m.py.\n",
        environment=Environment(image="i", snapshot="s", workdir="/work", env={}, limits=LIMITS),
        verifier=Verifier(
            kind="tests",
            fail_to_pass=(),
            pass_to_pass=(),
            protected=(),
            command=command,
            timeout_s=10,
            expect={"runner": runner, "visible": ["test_m.py"]},
        ),
        private="p",
    )


def say(harness: EditLines, box: Sandbox, text: str, task: Task | None = None) -> str:
    return harness.act(harness.parse(text).call, box, task or task_of()).text


def test_a_whole_repair(box: Sandbox) -> None:
    harness = EditLines(4)
    assert [message.role for message in harness.opening(task_of())] == ["system", "user"]
    assert say(harness, box, '<look path="m.py"/>') == (
        'm.py:\n1 def add(a, b):\n2     """Return a plus b."""\n3     return a - b'
    )
    assert say(harness, box, "<test/>") == "FAIL assert add(1, 2) == 3\n1 passed"
    assert say(harness, box, '<edit path="m.py" line="3">return a + b</edit>') == (
        "Edited m.py:\n3     return a + b\nLast turn."
    )
    assert say(harness, box, "<test/>") == "2 passed\nNo turn left."
    assert harness.act(ToolCall(name="submit", arguments={}), box, task_of()).done
    assert box.read("/work/m.py", max_bytes=1000).decode() == MODULE.replace("a - b", "a + b")


@pytest.mark.parametrize(
    ("edit", "result"),
    [
        (
            'line="3">\n    c = a + b\n    return c\n</edit>',
            MODULE.replace("return a - b", "c = a + b\n    return c"),
        ),
        ('line="2-3">return a + b</edit>', "def add(a, b):\n    return a + b\n"),
        ('line="2"></edit>', "def add(a, b):\n    return a - b\n"),
        ('line="3">        return 0</edit>', MODULE.replace("    return a - b", "        return 0")),
    ],
)
def test_edits(box: Sandbox, edit: str, result: str) -> None:
    say(EditLines(3), box, f'<edit path="m.py" {edit}')
    assert box.read("/work/m.py", max_bytes=1000).decode() == result


def test_edits_that_cannot_be_made_say_why_and_change_nothing(box: Sandbox) -> None:
    harness = EditLines(9)
    assert say(harness, box, '<edit path="m.py" line="4">x</edit>') == "m.py has 3 lines."
    assert say(harness, box, '<edit path="no.py" line="1">x</edit>').startswith("Cannot read no.py")
    assert say(harness, box, '<edit path="data.bin" line="1">x</edit>') == "data.bin is no UTF-8 text."
    assert say(harness, box, "nothing") == "No action read. Use one of look, edit, test, submit."
    box.freeze()
    assert box.changes().files == ()


def test_long_files_are_cut_and_can_be_asked_for_in_parts(box: Sandbox) -> None:
    harness = EditLines(9)
    seen = say(harness, box, '<look path="long.py"/>')
    assert "60 x60 = 60" in seen
    assert "61 x61" not in seen
    assert seen.endswith('(100 lines; use lines="A-B")')
    assert (
        say(harness, box, '<look path="long.py" lines="99-100"/>') == "long.py:\n99 x99 = 99\n100 x100 = 100"
    )
    assert say(harness, box, '<look path="long.py" lines="200-300"/>').endswith(
        '(100 lines; use lines="A-B")'
    )


def test_other_commands_run_as_the_task_says_with_short_output(box: Sandbox) -> None:
    task = task_of(runner="pytest", command="printf '\\033[31mred\\033[0m'; exit 3")
    harness = EditLines(9)
    seen = harness.act(ToolCall(name="test", arguments={}), box, task)
    assert (seen.text, seen.exit_code) == ("red", 3)


def test_broken_and_endless_visible_tests_are_reported(box: Sandbox) -> None:
    harness = EditLines(9)
    say(harness, box, '<edit path="m.py" line="1">def add(a, b:</edit>')
    assert say(harness, box, "<test/>").startswith("ERROR test_m.py: SyntaxError")
    say(harness, box, '<edit path="m.py" line="1-3">def add(a, b):\n    while True:\n        pass</edit>')
    assert say(harness, box, "<test/>") == "FAIL: too slow"
    slow = task_of(runner="pytest", command="sleep 30")
    short = Limits(
        wall_s=60, turn_s=30, command_s=1, memory_mb=256, processes=32, disk_mb=32, output_bytes=8192
    )
    from dataclasses import replace

    slow = replace(slow, environment=replace(slow.environment, limits=short))
    assert "took too long" in harness.act(ToolCall(name="test", arguments={}), box, slow).text


def test_shortened_keeps_what_tells_most() -> None:
    text = "noise\n" * 500 + "E   assert 1 == 2\nFAILED t.py::test_1\n==== 1 failed ====\n"
    assert shortened(text, 200) == "E   assert 1 == 2\nFAILED t.py::test_1\n==== 1 failed ===="
    assert len(shortened("y" * 5000, 100)) == 100


def test_registry() -> None:
    assert load_harness("edit-lines", max_turns=3).max_turns == 3
    with pytest.raises(RecipeError, match="did you mean 'edit-lines'"):
        load_harness("edit-line", max_turns=3)
