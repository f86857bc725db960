"""Reading a page strictly: blocks with inline styles come out anew, all else is refused with its reason."""

from __future__ import annotations

import pytest

from mimo.domains.visual.drawing import Refused
from mimo.domains.visual.page import clean_page


def clean(text: str) -> str:
    return clean_page(text.encode(), width=96, height=96)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<script>1</script>", "<script> is not allowed"),
        ("<img src=x>", "<img>"),
        ("<iframe src=x></iframe>", "<iframe>"),
        ("<link rel=stylesheet href=x>", "<link>"),
        ("<style>div{color:red}</style>", "<style>"),
        ("<svg></svg>", "<svg>"),
        ("<canvas></canvas>", "<canvas>"),
        ("<object data=x></object>", "<object>"),
        ('<meta http-equiv="refresh" content="0;url=file:///">', "<meta>"),
        ("<base href=x>", "<base>"),
        ("<p>this page is right</p>", "text is not drawn here: 'this page is right'"),
        ("<div onclick=x></div>", "attribute onclick"),
        ("<div background=x></div>", "attribute background"),
        ('<div style="background:url(x.png)"></div>', "outside the drawing"),
        ('<div style="background:url(#a)"></div>', "outside the drawing"),
        ('<div style="background:image-set(x)"></div>', "function"),
        ('<div style="behavior:x"></div>', "property that is not drawn here: 'behavior'"),
        ('<div style="--x:1"></div>', "property"),
        ('<div style="color:red\\9"></div>', "not drawn here"),
        ('<div style="color:red;}</style><script>"></div>', "style"),
        ('<!doctype html public "x" "http://a/b">', "is not allowed"),
        ("<?php x ?>", "is not allowed"),
        ("</div>", "ends nothing"),
        ("<div></span>", "ends nothing"),
        ("<div/>" * 401, "more than 400 elements"),
    ],
)
def test_what_is_not_drawn_here_is_refused_by_name(text: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        clean(text)


def test_the_page_is_written_anew_below_a_policy_that_loads_nothing() -> None:
    made = clean(
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>right</title></head>"
        '<body style="background:gray"><!-- right --><div class=x style="Width: 9px; color:rgb(1,2,3)">\n'
    )
    assert "default-src 'none'" in made
    assert made.endswith(
        '<body style="background:gray"><div style="width:9px;color:rgb(1,2,3)"></div></body></html>'
    )
    assert "right" not in made


def test_a_page_that_is_cut_is_refused() -> None:
    with pytest.raises(Refused, match="middle of a tag"):
        clean('<div style="width:9px')
