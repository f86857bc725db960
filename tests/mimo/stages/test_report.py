"""The report shows the numbers it was given and nothing a policy wrote can act in it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from mimo.stages.charts import curve
from mimo.stages.markup import duration, number, percent, size, text
from mimo.stages.report import render_report
from tests.mimo.stages.report_example import example, rollout

HOSTILE = '</pre><script>alert(1)</script><img src=x onerror="alert(2)">&amp;\x1b[2J\u202egnp.exe\0$title'
_VOID = {"meta", "br"}


class _Page(HTMLParser):
    """Collects tags, attributes and text, and checks that elements nest."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.words = ""
        self.feed(page)
        assert self.open == [], "elements left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words += data + "\n"


def test_every_number_of_the_example_is_on_the_page() -> None:
    words = _Page(render_report(example())).words
    for expected in (
        "Audit of pro-laptop-20261129-1804",
        "83.3 %",  # rl, training
        "80 of 96",
        "37 of 48, 12 tasks",
        "not measured",  # mopd2
        "roman",
        "13 min 32 s",  # sampling
        "49.3 %",  # its share of the time
        "18\u202f231",  # tokens masked
        "importance ratio outside 0.2 to 5",
        "bound 1e-05 (dashed)",
        "The sum starts at 1 instead of 0.",
        "+    total = 0",
        "git-history",
        "sandbox: T: m",
        "513.1 MiB",
        "not judged",
    ):
        assert expected in words, expected


def test_a_hostile_text_in_any_place_stays_text() -> None:
    report = _poison(example())
    page = render_report(report)
    seen = _Page(page)
    assert not seen.tags & {"script", "img", "iframe", "a", "link", "object", "form", "base"}
    assert not [name for name, _ in seen.attributes if name.startswith("on") or name in ("src", "href")]
    assert "alert(1)" in seen.words
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", page)
    assert "\\x1b[2J" in seen.words


def test_the_page_asks_nothing_of_the_network() -> None:
    page = render_report(example())
    assert "default-src 'none'" in page
    assert not re.search(r"https?://|url\(|@import|<script", page)


def test_a_report_of_nothing_but_a_title_is_a_page() -> None:
    assert _Page(render_report({"title": "empty"})).tags >= {"html", "h1"}


def test_a_transcript_is_cut_with_a_notice() -> None:
    page = render_report({"title": "t", "rollouts": [{"rollout": rollout(text="x" * 50_000)}]})
    assert "[cut: 50000 characters in all]" in page
    assert len(page) < 60_000


def test_a_curve_has_a_gap_where_a_value_is_missing() -> None:
    nan = float("nan")
    drawn = curve([(1, 0.0), (2, 1.0), (3, nan), (4, 1.0), (5, 0.5)], "reward")
    assert drawn.count("<polyline") == 2
    assert "nan" not in drawn
    assert curve([(1, nan)], "reward") == '<p class="soft">no points</p>'


@pytest.mark.parametrize("points", [[(1, 2.0)], [(1, 0.0), (2, 0.0)], [(0, -1e-9), (1, 1e9)]])
def test_flat_single_and_extreme_curves_stay_inside_the_picture(points: list[tuple[float, float]]) -> None:
    drawn = curve(points, "x")
    ys = [float(value) for value in re.findall(r'cy="([-\d.]+)"', drawn)]
    assert ys
    assert all(0 <= y <= 150 for y in ys)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (number(None), "–"),
        (number(float("inf")), "–"),
        (number(True), "–"),
        (number(1234567), "1\u202f234\u202f567"),
        (number(6.1234e-7), "6.123e-07"),
        (percent(0.4567), "45.7 %"),
        (percent(None), "–"),
        (duration(4.21), "4.2 s"),
        (duration(185), "3 min 05 s"),
        (duration(3723), "1 h 02 min"),
        (size(512), "512 B"),
        (size(3 * 2**20), "3.0 MiB"),
        (text(None), "–"),
        (text("a\tb\n"), "a\tb\n"),
        (text("\ud800"), "\\xd800"),
    ],
)
def test_texts_and_numbers(shown: str, expected: str) -> None:
    assert shown == expected


def _poison(value: object) -> object:
    """The example with the hostile text at the end of every text, and as a key."""
    if isinstance(value, dict):
        return {key: _poison(item) for key, item in value.items()} | (
            {HOSTILE: HOSTILE} if "recipe" in value else {}
        )
    if isinstance(value, list):
        return [_poison(item) for item in value]
    return value + HOSTILE if isinstance(value, str) else value
