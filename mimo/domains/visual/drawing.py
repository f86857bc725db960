"""An SVG that a policy wrote, read strictly and written anew: what is rendered is ours, value by value.

Elements and attributes are those of an allow-list; nothing in it can name another file, run, or draw text.
So there is no second reading of the same bytes by another parser, and no way around a ban.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

MAX_BYTES = 16_384
MAX_ELEMENTS = 400
MAX_DEPTH = 24
SVG = "http://www.w3.org/2000/svg"
SHAPES = ("rect", "circle", "ellipse", "line", "polyline", "polygon", "path")
ELEMENTS = ("svg", "g", *SHAPES, "defs", "linearGradient", "radialGradient", "stop", "clipPath")
UNDRAWN = ("title", "desc", "metadata")
"""Elements that say something and draw nothing: they are left out with what they hold."""
_PAINT_WORDS = (
    "fill fill-opacity fill-rule stroke stroke-width stroke-opacity stroke-linecap stroke-linejoin "
    "stroke-miterlimit stroke-dasharray stroke-dashoffset opacity color clip-path clip-rule stop-color "
    "stop-opacity display visibility"
)
_PLACE_WORDS = (
    "x y width height rx ry cx cy r x1 y1 x2 y2 points d pathLength transform id offset fx fy "
    "gradientUnits gradientTransform spreadMethod clipPathUnits"
)
_PAINT = tuple(_PAINT_WORDS.split())
_PLACE = tuple(_PLACE_WORDS.split())
_HARMLESS = ("version", "class", "role", "lang", "baseProfile", "shape-rendering", "focusable")
"""Attributes that change nothing that is drawn here: left out."""
_FUNCTIONS = ("rgb", "rgba", "hsl", "hsla", "translate", "rotate", "scale", "skewX", "skewY", "matrix")
_VALUE = re.compile(r"[A-Za-z0-9#%.,()\s+*/_-]*")
_CALL = re.compile(r"([A-Za-z-]+)\s*\(")
_OWN = re.compile(r"url\(\s*#[\w-]+\s*\)")
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)"


class Refused(ValueError):
    """The file is not rendered; the message says why, and where."""


def clean_drawing(data: bytes, *, width: int, height: int) -> str:
    """The drawing written anew, for a canvas of `width` x `height` pixels.

    Raises:
        Refused: not well-formed, too large, another canvas, a reference to anything outside, or an element
            or attribute that is not drawn here.
    """
    text = plain_text(data)
    reader = _Reader(width=width, height=height)
    try:
        reader.parser.Parse(text, True)
    except expat.ExpatError as error:
        raise Refused(f"not well-formed: {error}") from error
    return "".join(reader.out)


def plain_text(data: bytes) -> str:
    """The text of a file of bounded size; Refused for anything but UTF-8."""
    if len(data) > MAX_BYTES:
        raise Refused(f"{len(data)} bytes, more than {MAX_BYTES}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused("not UTF-8 text") from error


def checked_value(name: str, text: str, *, functions: tuple[str, ...] = _FUNCTIONS, own: bool = True) -> str:
    """The value of an attribute or property as it is.

    Raises:
        Refused: it names something outside, or holds a character or function that no value here needs.
    """
    bare = _OWN.sub("", text) if own else text
    if "url" in bare.lower() or "://" in bare or "data:" in bare.lower():
        raise Refused(f"{name} refers to something outside the drawing: {text[:60]!r}")
    if not _VALUE.fullmatch(bare):
        raise Refused(f"{name} has a value that is not drawn here: {text[:60]!r}")
    for call in _CALL.findall(bare):
        if call not in functions:
            raise Refused(f"{name} has a function that is not drawn here: {call}()")
    return text


def declarations(
    text: str, known: Sequence[str], *, functions: tuple[str, ...] = _FUNCTIONS, own: bool = True
) -> dict[str, str]:
    """Property to value of a `style` attribute; Refused for a property that is not known."""
    found = {}
    for part in text.split(";"):
        if not part.strip():
            continue
        name, colon, value = part.partition(":")
        name = name.strip().lower()
        if not colon or name not in known:
            raise Refused(f"style has a property that is not drawn here: {name[:40]!r}")
        found[name] = checked_value(f"style {name}", value.strip(), functions=functions, own=own)
    return found


@dataclass(kw_only=True, slots=True)
class _Reader:
    """Writes the drawing anew while expat reads it; any exception of a handler ends the reading."""

    width: int
    height: int
    out: list[str] = field(default_factory=list)
    parser: expat.XMLParserType = field(init=False)
    _depth: int = 0
    _elements: int = 0
    _silent: int = 0
    """Depth inside an element that draws nothing."""

    def __post_init__(self) -> None:
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.StartDoctypeDeclHandler = self.doctype
        self.parser.ProcessingInstructionHandler = self.instruction

    def doctype(self, *_: object) -> None:
        """A document type can define entities and name files."""
        raise Refused("a DOCTYPE is not allowed")

    def instruction(self, target: str, _: str) -> None:
        """Style sheets come this way."""
        raise Refused(f"the processing instruction <?{target[:40]} is not allowed")

    def start(self, full: str, attributes: Mapping[str, str]) -> None:
        """One element."""
        space, _, name = full.rpartition(" ")
        self._depth += 1
        self._elements += 1
        if self._silent or (name in UNDRAWN and self._depth > 1):
            self._silent += 1
            return
        if space not in ("", SVG) or name not in ELEMENTS:
            raise Refused(f"line {self.parser.CurrentLineNumber}: <{name[:40]}> is not allowed")
        if (name == "svg") != (self._depth == 1):
            raise Refused("the root, and nothing else, has to be <svg>")
        if self._elements > MAX_ELEMENTS or self._depth > MAX_DEPTH:
            raise Refused(f"more than {MAX_ELEMENTS} elements, or deeper than {MAX_DEPTH}")
        kept = self._attributes(name, attributes)
        if name == "svg":
            kept = self._canvas(kept) | {"xmlns": SVG}
        self.out.append(f"<{name}" + "".join(f" {key}={quoteattr(text)}" for key, text in kept.items()) + ">")

    def end(self, full: str) -> None:
        """Its end."""
        self._depth -= 1
        if self._silent:
            self._silent -= 1
            return
        self.out.append(f"</{full.rpartition(' ')[2]}>")

    def _attributes(self, element: str, attributes: Mapping[str, str]) -> dict[str, str]:
        kept, style = dict[str, str](), dict[str, str]()
        for full, text in attributes.items():
            space, _, name = full.rpartition(" ")
            where = f"line {self.parser.CurrentLineNumber}: <{element} {name[:40]}>"
            if name == "href" or name.lower().startswith("on"):
                raise Refused(f"{where} is not allowed")
            if space or name in _HARMLESS or name.startswith(("data-", "aria-")):
                continue
            if name == "style":
                style = declarations(text, _PAINT)
            elif name in _PLACE or name in _PAINT or (element == "svg" and name == "viewBox"):
                kept[name] = checked_value(where, text)
            else:
                raise Refused(f"{where} is not among the attributes that are drawn here")
        return kept | style  # as in CSS, a style is stronger than an attribute

    def _canvas(self, kept: dict[str, str]) -> dict[str, str]:
        """The root's attributes with the task's canvas; another one is refused, not scaled."""
        box = kept.get("viewBox")
        if box is not None and not re.fullmatch(rf"\s*{_NUMBER}(?:[\s,]+{_NUMBER}){{3}}\s*", box):
            raise Refused(f"viewBox is not four numbers: {box[:40]!r}")
        for name, size in (("width", self.width), ("height", self.height)):
            text = kept.get(name, "100%" if box is not None else "")
            number = re.fullmatch(rf"\s*({_NUMBER})(?:px)?\s*", text)
            if text.strip() != "100%" and (number is None or float(number[1]) != size):
                raise Refused(f"the {name} of <svg> is {text[:20] or 'missing'}, not {size}")
            kept[name] = str(size)
        return {"viewBox": f"0 0 {self.width} {self.height}"} | kept
