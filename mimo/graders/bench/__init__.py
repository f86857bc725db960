"""The grader bench: one group's advantages to play with, as a page of its own or a widget in a report.

Everything is inlined, nothing is fetched. The widget computes in JavaScript what `mimo.algo` computes.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import Literal

SCRIPTS = ("math.js", "link.js", "words.js", "element.js")


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchRollout:
    """One row; a score or factor that no grader gave is None. `length` is generated tokens, at least 1."""

    passed: bool
    leak: bool = False
    quality: float | None = None
    solution: float | None = None
    behavior: float | None = None
    length: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchGroup:
    """A group as the bench shows it; `cap` None is uncapped, `length_penalty` the reference profile."""

    rollouts: Sequence[BenchRollout]
    method: Literal["gar", "grs"] = "gar"
    cap: float | None = 1.5
    below_mean: Literal["zero", "keep"] = "zero"
    length_penalty: bool = False


EXAMPLE = BenchGroup(
    rollouts=(
        BenchRollout(passed=True, quality=1.0, solution=0.9, behavior=0.8, length=100),
        BenchRollout(passed=True, quality=0.6, solution=0.5, behavior=0.5, length=120),
        BenchRollout(passed=True, quality=0.3, solution=0.7, behavior=0.6, length=250),
        BenchRollout(passed=False, quality=0.5, solution=0.4, behavior=0.5, length=150),
        BenchRollout(passed=False, quality=0.5, solution=0.3, behavior=0.7, length=400),
    ),
    cap=None,
)
"""The article's example: five rollouts, three pass, the passes total 1.20; .720 against .250 under GRS."""


def bench_page(group: BenchGroup) -> str:
    """A whole HTML document that opens on `group`; its address carries the state as `#…`."""
    page = Template(_text("page.html"))
    return page.substitute(element=_element(group, share=True), script=bench_script())


def bench_element(group: BenchGroup) -> str:
    """The widget for one group as HTML; a page that holds any needs `bench_script()` once, after them."""
    return _element(group, share=False)


def bench_script() -> str:
    """The `<script>` that brings every `<mimo-bench>` of a page to life; styles included."""
    style = json.dumps(_text("bench.css")).replace("<", "\\u003c")
    parts = "\n".join(_text(name) for name in SCRIPTS)
    return f"<script>\n(() => {{\nconst BENCH_CSS = {style};\n{parts}}})();\n</script>"


def link_text(group: BenchGroup) -> str:
    """The group as the text behind the `#` of the page's address.

    Raises:
        ValueError: fewer than two rollouts, a length below 1, or a number the page cannot read.
    """
    if len(group.rollouts) < 2:
        raise ValueError(f"a bench group has {len(group.rollouts)} rollouts; it needs at least 2")
    cap = "" if group.cap is None else repr(float(group.cap))
    rows = ";".join(_row(one) for one in group.rollouts)
    below = group.below_mean
    return f"m={group.method}&cap={cap}&len={int(group.length_penalty)}&below={below}&r={rows}"


def _row(one: BenchRollout) -> str:
    if one.length < 1:
        raise ValueError(f"a bench rollout has length {one.length}; it needs at least 1")
    verdict = ("p" if one.passed else "f") + ("h" if one.leak else "")
    scores = (_score(value) for value in (one.quality, one.solution, one.behavior))
    return ",".join([verdict, *scores, str(one.length)])


def _score(value: float | None) -> str:
    if value is None or math.isnan(value):
        return ""
    if not 0 <= value <= 1:
        raise ValueError(f"a bench score is {value}; expected 0 to 1")
    return repr(float(value))


def _element(group: BenchGroup, *, share: bool) -> str:
    state = html.escape(link_text(group), quote=True)
    return f'<mimo-bench data-state="{state}"{" share" if share else ""}></mimo-bench>'


def _text(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
