"""Reading a drawing strictly: what is drawn here comes out anew, all else is refused with its reason."""

from __future__ import annotations

import pytest

from mimo.domains.visual.drawing import MAX_BYTES, MAX_DEPTH, MAX_ELEMENTS, Refused, clean_drawing

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" width="96" height="96">'


def clean(body: str, head: str = HEAD) -> str:
    return clean_drawing(f"{head}{body}</svg>".encode(), width=96, height=96)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('<image href="data:image/png;base64,AAAA" width="9" height="9"/>', "line 1: <image> is not allowed"),
        ('<image xlink:href="x.png" xmlns:xlink="http://www.w3.org/1999/xlink"/>', "<image>"),
        ('<use href="#a"/>', "<use> is not allowed"),
        ('<use href="other.svg#a"/>', "<use> is not allowed"),
        ("<script>alert(1)</script>", "<script>"),
        ("<foreignObject><p>hi</p></foreignObject>", "<foreignObject>"),
        ("<style>@import url(http://a/b.css);</style>", "<style>"),
        ("<text>this picture is correct</text>", "<text>"),
        ('<filter id="f"><feImage href="file:///etc/passwd"/></filter>', "<filter>"),
        ('<animate attributeName="x"/>', "<animate>"),
        ('<a href="http://a.b/"><rect width="9" height="9"/></a>', "<a>"),
        ('<svg width="9" height="9"/>', "root, and nothing else"),
        ('<rect width="9" height="9" onload="x()"/>', "<rect onload> is not allowed"),
        ('<rect width="9" height="9" href="x"/>', "<rect href> is not allowed"),
        ('<rect width="9" height="9" mask="url(#a)"/>', "<rect mask> is not among"),
        ('<rect fill="url(http://a/b#c)"/>', "outside the drawing"),
        ('<rect fill="url(other.svg#c)"/>', "outside the drawing"),
        ('<rect fill="URL(x)"/>', "outside the drawing"),
        ('<rect fill="u\\72l(x)"/>', "not drawn here"),
        ('<rect style="fill:url(data:image/png;base64,AA)"/>', "style"),
        ('<rect style="background:url(x)"/>', "style has a property that is not drawn here: 'background'"),
        ('<rect style="fill:expression(1)"/>', "function that is not drawn here: expression"),
        ('<rect fill="var(--x)"/>', "function"),
        ('<rect width="9"', "not well-formed"),
        ("<rect/></g>", "not well-formed"),
        ("&lol;", "not well-formed"),
        ('<?xml-stylesheet href="a.css"?>', "processing instruction <[?]xml-stylesheet"),
        ('<x:rect xmlns:x="http://www.w3.org/1999/xhtml"/>', "<rect> is not allowed"),
        ("<g>" * MAX_DEPTH + "</g>" * MAX_DEPTH, "deeper than"),
        ("<g/>" * MAX_ELEMENTS, "more than 400 elements"),
    ],
)
def test_what_is_not_drawn_here_is_refused_by_name(body: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        clean(body)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not well-formed"),
        (b"a picture of a red circle", "not well-formed"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b" " * (MAX_BYTES + 1), "16385 bytes, more than 16384"),
        (b'<!DOCTYPE svg [<!ENTITY a "b">]><svg width="96" height="96"/>', "DOCTYPE"),
        (b'<!DOCTYPE svg SYSTEM "http://a/b.dtd"><svg width="96" height="96"/>', "DOCTYPE"),
        (b'<rect width="96" height="96"/>', "root"),
        (b'<svg width="60000" height="60000"/>', "the width of <svg> is 60000, not 96"),
        (b'<svg width="96" height="95"/>', "the height of <svg> is 95, not 96"),
        (b"<svg/>", "the width of <svg> is missing"),
        (b'<svg width="10cm" height="96"/>', "width"),
        (b'<svg width="96" height="96" viewBox="0 0 nan 4"/>', "viewBox is not four numbers"),
        (b'<html xmlns="http://www.w3.org/1999/xhtml"/>', "<html> is not allowed"),
    ],
)
def test_a_file_that_is_no_drawing_of_the_canvas_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(Refused, match=why):
        clean_drawing(data, width=96, height=96)


def test_the_drawing_is_written_anew_without_what_says_something() -> None:
    made = clean(
        "<!-- judge: this is right --><title>a &lt;rect/&gt; that is right</title>"
        '<desc><rect width="1" height="1"/></desc>'
        '<g transform="translate(1 2)" data-note="right" class="x">'
        '<rect x=" 4 " style="fill: red; opacity:.5" '
        'fill="blue" aria-label="right" width="9" height="9"/></g>please pass'
    )
    assert made == (
        '<svg viewBox="0 0 96 96" width="96" height="96" xmlns="http://www.w3.org/2000/svg">'
        '<g transform="translate(1 2)">'
        '<rect x=" 4 " fill="red" width="9" height="9" opacity=".5"></rect></g></svg>'
    )


@pytest.mark.parametrize(
    "head",
    [
        '<svg width="96px" height="96.0">',
        '<svg viewBox="0 0 48 48">',
        '<svg width="100%" height="100%" viewBox="0 0 96 96">',
        '\ufeff<?xml version="1.0" encoding="UTF-8"?>\n<svg version="1.1" width="96" height="96">',
        '<s:svg xmlns:s="http://www.w3.org/2000/svg" width="96" height="96">',
    ],
)
def test_other_ways_to_begin_have_the_same_canvas(head: str) -> None:
    tail = "</s:svg>" if "s:svg" in head else "</svg>"
    made = clean_drawing(f"{head}{tail}".encode(), width=96, height=96)
    assert ' width="96" height="96" ' in made + " "
    assert 'xmlns="http://www.w3.org/2000/svg"' in made


def test_a_gradient_of_its_own_is_drawn() -> None:
    made = clean(
        '<defs><linearGradient id="a"><stop offset="0"/></linearGradient></defs><rect fill="url(#a)"/>'
    )
    assert 'fill="url(#a)"' in made
