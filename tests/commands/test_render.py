"""Tables on narrow terminals."""

from __future__ import annotations

from rich.console import Console

from commands.render import table


def test_a_narrow_terminal_wraps_reasons_not_names() -> None:
    console = Console(width=40)
    with console.capture() as shown:
        console.print(table(("stage", "plan", "why"), [("synthesize-rubrics", "run", "after this and that")]))
    assert "synthesize-rubrics" in shown.get()
    assert max(map(len, shown.get().splitlines())) <= 40
