"""The expert's corrections: one edit restores any damage; the harness reads exactly that edit."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mimo.domains.base import NotCorrectable
from mimo.domains.coding.correction import _after, _named, _repairs
from mimo.harnesses.edit_lines import TOOLS, edited
from mimo.harnesses.markup import parse_actions

LINES = st.lists(
    st.sampled_from(["", "x = 1", "    return a", "        return b", "def f():", "if a <b:", "  "]),
    min_size=1,
    max_size=7,
)


@settings(max_examples=300, deadline=None)
@given(now=LINES, wanted=LINES)
def test_one_edit_restores_whatever_was_done_to_a_file(now: list[str], wanted: list[str]) -> None:
    before, after = ("\n".join(["start = 1", *lines, ""]) for lines in (now, wanted))
    repairs = _repairs("a.py", before, after)
    assert len(repairs) == (before != after)
    for text in repairs:
        parsed = parse_actions(text, TOOLS)
        assert parsed.call is not None
        assert not parsed.malformed
        made = edited("a.py", before, parsed.call)
        assert not isinstance(made, str)
        assert made.text == after


def test_what_no_single_edit_can_say_is_refused() -> None:
    with pytest.raises(NotCorrectable, match="no single edit"):
        _repairs("a.py", "", "x = 1\n")
    with pytest.raises(NotCorrectable, match="no single edit"):
        _repairs("a.py", "    x = 1\n", "x = 1\n")  # a bare line takes the indentation it replaces
    with pytest.raises(NotCorrectable, match="no single edit"):
        _repairs("a.py", "x = 1\n", "x = '</edit>'\n")


def test_a_note_is_never_read_as_an_action() -> None:
    edit = '<edit path="a.py" line="1">x</edit>'
    said = _named("it was wrong.", edit)
    assert parse_actions(said, TOOLS).call == parse_actions(edit, TOOLS).call
    for note in ("see <submit/>", '<look path="b.py"/>', "<edit"):
        with pytest.raises(NotCorrectable, match="markup"):
            _named(note, edit)


def test_only_what_the_harness_carries_out_changes_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\ny = 2\n")
    (tmp_path / "b.bin").write_bytes(b"\xff\xfe")
    (tmp_path / "c.py").symlink_to("a.py")
    turns = (
        '<edit path="a.py" line="2">y = 3</edit> <edit path="a.py" line="1">lost</edit>',
        '<edit path="a.py" line="9">x</edit>',
        '<edit path="b.bin" line="1">x</edit>',
        '<edit path="c.py" line="1">x</edit>',
        '<edit path="none.py" line="1">x</edit>',
        '<edit path="a.py" line="1">z = 1',
        "<test/>",
    )
    assert _after(turns, tmp_path) == {"a.py": "x = 1\ny = 3\n"}
    with pytest.raises(NotCorrectable, match="ends the rollout"):
        _after(("<submit/>",), tmp_path)
