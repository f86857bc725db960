"""The grader bench: one group's advantages to play with, as a page of its own or a widget in a report.

Everything is inlined, nothing is fetched. The widget computes in JavaScript what `mimo.algo` computes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import Literal

from mimo.types import Grades, HackVerdict, Rollout, Routing

LENGTH_PENALTY = {
    "max": 0.2,
    "deadzone": 0.0,
    "saturation": 1.0,
    "exponent": 1.5,
    "percentile": 30.0,
    "gate": 0.5,
}
"""The page's length penalty: the fork's reference profile (METHOD 5.1), the same as in math.js."""

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


def bench_group(
    rollouts: Sequence[Rollout],
    method: Routing,
    *,
    cap: float | None,
    below_mean: Literal["zero", "keep"],
    length_penalty: bool,
    floor: float,
) -> BenchGroup:
    """A group of a run as the bench shows it; rollouts without a verdict are left out.

    A plain group is shown as GAR with quality 1 everywhere, which moves nothing.

    Args:
        length_penalty: True only if the run's constants are LENGTH_PENALTY, the ones that the page knows.
        floor: of the GRS scores, as the run had it.
    """
    rows = [_bench_rollout(one, method, floor) for one in rollouts if one.verdict is not None]
    shown: Literal["gar", "grs"] = "grs" if method == "grs" else "gar"
    return BenchGroup(
        rollouts=rows, method=shown, cap=cap, below_mean=below_mean, length_penalty=length_penalty
    )


def _bench_rollout(rollout: Rollout, method: Routing, floor: float) -> BenchRollout:
    grades, hack = rollout.grades or Grades(grader="none"), rollout.hack
    return BenchRollout(
        passed=rollout.verdict is not None and rollout.verdict.passed,
        leak=hack is not None and hack.verdict is HackVerdict.CONFIRMED,
        quality=1.0 if method == "plain" else grades.quality,
        solution=None if grades.solution is None else max(grades.solution, floor),
        behavior=None if grades.behavior is None else max(grades.behavior, floor),
        length=max(rollout.generated_tokens, 1),
    )


def bench_page(group: BenchGroup) -> str:
    """A whole HTML document that opens on `group`; its address carries the state as `#…`."""
    page = Template(_text("page.html"))
    return page.substitute(element=_element(link_text(group), share=True), script=bench_script())


def bench_element(state: str) -> str:
    """The widget for one group (`link_text`) as HTML; its page needs `bench_script()` once, at the end."""
    return _element(state, share=False)


def bench_script() -> str:
    """The `<script>` that brings every `<mimo-bench>` of a page to life; styles included."""
    return f"<script>{_script()}</script>"


def script_source() -> str:
    """What a content policy must list under `script-src` for `bench_script()`: its hash, nothing else."""
    digest = hashlib.sha256(_script().encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _script() -> str:
    style = json.dumps(_text("bench.css")).replace("<", "\\u003c")
    parts = "\n".join(_text(name) for name in SCRIPTS)
    return f"\n(() => {{\nconst BENCH_CSS = {style};\n{parts}}})();\n"


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


def _element(state: str, *, share: bool) -> str:
    return (
        f'<mimo-bench data-state="{html.escape(state, quote=True)}"{" share" if share else ""}></mimo-bench>'
    )


def _text(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
