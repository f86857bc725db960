"""Each way to write an action: what its parser reads, rule and place of every fault, and how it is said."""

from __future__ import annotations

import pytest

from mimo.errors import RecipeError
from mimo.harnesses import fenced_bash, json_calls, xml_tags
from mimo.harnesses.composed import FORMATS
from mimo.harnesses.markup import RULES
from mimo.harnesses.toolsets import TOOLSETS
from mimo.types import ToolCall

FILES, SHELL, LINES = (TOOLSETS[name].tools for name in ("files", "shell", "lines"))


@pytest.mark.parametrize(
    ("text", "call", "faults"),
    [
        ('{"tool": "shell", "command": "ls"}', ("shell", {"command": "ls"}), []),
        ('I look. {"tool": "read", "path": "a.txt"}\n', ("read", {"path": "a.txt"}), []),
        (
            '{\n "tool": "write",\n "path": "a", "content": "x\\ny"}',
            ("write", {"path": "a", "content": "x\ny"}),
            [],
        ),
        ('{"tool": "read", "path": "a", "lines": "2-3"}', ("read", {"path": "a", "lines": [2, 3]}), []),
        ('{"tool": "read", "path": "a", "lines": 2}', ("read", {"path": "a", "lines": [2, 2]}), []),
        ('{"tool": "shell", "command": "echo {\\"a\\": 1}"}', ("shell", {"command": 'echo {"a": 1}'}), []),
        (
            '{"tool": "write", "path": "a", "content": "line\nraw"}',
            ("write", {"path": "a", "content": "line\nraw"}),
            [],
        ),
        ("use { and } and {x}", None, [("empty-turn", (0, 19))]),
        ('{"tool": "shell", "command": "ls"', None, [("malformed-markup", (0, 33))]),
        ('{"tool": "shell", "command": ls}\nmore', None, [("malformed-markup", (0, 32))]),
        ('{"command": "ls"}', None, [("malformed-markup", (0, 17))]),
        ('{"tool": 3}', None, [("malformed-markup", (0, 11))]),
        ('{"tool": "run"}', None, [("unknown-tool", (0, 15))]),
        ('{"tool": "shell"}', None, [("malformed-arguments", (0, 17))]),
        ('{"tool": "shell", "command": ["ls"]}', None, [("malformed-arguments", (0, 36))]),
        ('{"tool": "shell", "command": true}', None, [("malformed-arguments", (0, 34))]),
        ('{"tool": "submit", "now": "1"}', None, [("malformed-arguments", (0, 30))]),
        ('{"tool": "read", "path": "../x"}', None, [("malformed-arguments", (0, 32))]),
        ('{"tool": "shell", "command": "a", "command": "b"}', None, [("malformed-arguments", (0, 49))]),
        (
            '{"tool": "submit"} {"tool": "shell", "command": "ls"}',
            ("submit", {}),
            [("several-actions", (19, 53))],
        ),
        ('{"a": ' * 100_000, None, [("malformed-markup", (0, 600_000))]),
        ("", None, [("empty-turn", (0, 0))]),
    ],
)
def test_json(text: str, call: tuple[str, dict[str, object]] | None, faults: list[object]) -> None:
    parsed = json_calls.parse(text, FILES)
    assert (parsed.call and (parsed.call.name, parsed.call.arguments)) == call
    assert [(fault.rule, fault.chars) for fault in parsed.malformed] == faults
    assert all(fault.rule in RULES for fault in parsed.malformed)


@pytest.mark.parametrize(
    ("text", "call", "faults"),
    [
        ("```bash\nls -l\n```", ("shell", {"command": "ls -l"}), []),
        ("Go\n```bash\nif ls; then\n  ls\nfi\n```\n", ("shell", {"command": "if ls; then\n  ls\nfi"}), []),
        ("```bash\nsubmit\n```", ("submit", {}), []),
        ("```bash\necho '`x`' \"``\"\n```", ("shell", {"command": "echo '`x`' \"``\""}), []),
        ("```bash\nls", None, [("malformed-markup", (0, 10))]),
        ("```bash\nls\n```python\n1\n```", None, [("malformed-markup", (0, 11)), ("unknown-tool", (11, 26))]),
        ("```\nls\n```", None, [("malformed-markup", (0, 10))]),
        ("```python\nprint()\n```", None, [("unknown-tool", (0, 21))]),
        ("```bash\n\n```", None, [("malformed-arguments", (0, 12))]),
        ("```bash\nls\n```\n```bash\nsubmit\n```", ("shell", {"command": "ls"}),
         [("several-actions", (15, 33))]),
        ("ls -l", None, [("empty-turn", (0, 5))]),
        ("use ```bash ls``` inline", None, [("empty-turn", (0, 24))]),
    ],
)  # fmt: skip
def test_fenced_bash(text: str, call: tuple[str, dict[str, object]] | None, faults: list[object]) -> None:
    parsed = fenced_bash.parse(text, SHELL)
    assert (parsed.call and (parsed.call.name, parsed.call.arguments)) == call
    assert [(fault.rule, fault.chars) for fault in parsed.malformed] == faults


def test_tags_take_their_bodies_under_the_tools_own_names() -> None:
    parsed = xml_tags.parse('<write path="a">x < y</write><shell>ls</shell>', FILES)
    assert parsed.call == ToolCall(name="write", arguments={"path": "a", "content": "x < y"})
    assert [(fault.rule, fault.chars) for fault in parsed.malformed] == [("several-actions", (29, 46))]


CALLS = [
    (FILES, ToolCall(name="shell", arguments={"command": "sed -i 's/a \"b\"/{c}/' \\\n f | grep '<x>'"})),
    (FILES, ToolCall(name="write", arguments={"path": "a/b", "content": "x\n\ny: {\"z\": 'ü'}\n"})),
    (FILES, ToolCall(name="read", arguments={"path": "a/b", "lines": [2, 9]})),
    (LINES, ToolCall(name="edit", arguments={"path": "m.py", "line": [3, 3], "body": "return a < b"})),
    (LINES, ToolCall(name="test", arguments={})),
    (SHELL, ToolCall(name="submit", arguments={})),
]


SAID = [
    (name, tools, call)
    for name in FORMATS
    for tools, call in CALLS
    if name != "bash" or call.name in fenced_bash.TOOLS
]


@pytest.mark.parametrize(("name", "tools", "call"), SAID)
def test_what_is_said_is_read_again(name: str, tools: dict[str, object], call: ToolCall) -> None:
    form = FORMATS[name]
    parsed = form.parse("Next.\n" + form.say(call, tools), tools)  # type: ignore[arg-type]
    assert parsed.call == call
    assert parsed.malformed == ()


def test_what_cannot_be_said_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be said as a tag"):
        xml_tags.say(ToolCall(name="shell", arguments={"command": "echo '</shell>'"}), SHELL)
    with pytest.raises(ValueError, match="cannot hold"):
        fenced_bash.say(ToolCall(name="shell", arguments={"command": "cat <<E\n```\nE"}), SHELL)
    with pytest.raises(RecipeError, match="bash blocks cannot say the tools read, write"):
        fenced_bash.explain(FILES)


def test_what_a_prompt_shows_is_read_as_an_action() -> None:
    """Every line that explains an action is one (placeholders included)."""
    for form, tools in ((json_calls, FILES), (xml_tags, FILES)):
        for line in form.explain(tools).split("\n"):
            parsed = form.parse(line, tools)
            assert parsed.malformed == (), line
            assert parsed.call is not None
    shown = fenced_bash.explain(SHELL)
    assert fenced_bash.parse(shown, SHELL).call == ToolCall(name="shell", arguments={"command": "command"})
