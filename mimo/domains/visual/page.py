"""An HTML page that a policy wrote, read strictly and written anew: blocks with inline styles.

No text, no picture, no script, no style sheet, no address: what a browser of ours gets is ours, and its own
policy for content forbids all loading as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

from mimo.domains.visual.drawing import MAX_DEPTH, MAX_ELEMENTS, Refused, declarations, plain_text

BLOCKS = ("div", "span", "section", "main", "header", "footer", "nav", "article", "aside", "p")
_FRAME = ("html", "head", "body")
_SIDES = ("top", "right", "bottom", "left")
PROPERTIES = (
    "position", "width", "height", "min-width", "min-height", "max-width", "max-height", "background",
    "background-color", "display", "float", "clear", "box-sizing", "border-radius", "opacity", "z-index",
    "overflow", "inset", "gap", "flex", "flex-direction", "flex-grow", "justify-content", "align-items",
    "grid-template-columns", "grid-template-rows", "color", "font-size", "line-height", "vertical-align",
    *_SIDES, "margin", "padding", "border",
    *(f"{name}-{side}" for name in ("margin", "padding", "border") for side in _SIDES),
)  # fmt: skip
_FUNCTIONS = ("rgb", "rgba", "hsl", "hsla", "linear-gradient", "calc", "repeat")
_HEAD = (
    '<!doctype html><html><head><meta charset="utf-8">'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    "<style>html{{margin:0;background:white;overflow:hidden}}"
    "body{{margin:0;position:relative;width:{width}px;height:{height}px;overflow:hidden}}</style></head>"
)


def clean_page(data: bytes, *, width: int, height: int) -> str:
    """The page written anew, for a window of `width` x `height` pixels.

    Raises:
        Refused: anything but blocks with inline styles of the properties above.
    """
    reader = _Reader()
    reader.feed(plain_text(data))
    if "<" in reader.rawdata:  # what the parser waits for the rest of
        raise Refused("the page ends in the middle of a tag")
    reader.close()
    open_blocks = "".join(f"</{name}>" for name in reversed(reader.open))
    body = "".join(reader.out) + open_blocks
    return f'{_HEAD.format(width=width, height=height)}<body style="{reader.body}">{body}</body></html>'


@dataclass
class _Reader(HTMLParser):
    """Writes the blocks anew; a title is left out, as is white space."""

    out: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    body: str = ""
    elements: int = 0
    in_title: bool = False

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One element."""
        self.elements += 1
        where = f"line {self.getpos()[0]}: <{tag[:40]}>"
        if self.elements > MAX_ELEMENTS or len(self.open) >= MAX_DEPTH:
            raise Refused(f"more than {MAX_ELEMENTS} elements, or deeper than {MAX_DEPTH}")
        if tag == "title":
            self.in_title = True
        elif tag == "meta" and [name for name, _ in attrs] == ["charset"]:
            return
        elif tag in BLOCKS:
            self.out.append(f'<{tag} style="{_style(attrs, where)}">')
            self.open.append(tag)
        elif tag == "body":
            self.body = _style(attrs, where)
        elif tag not in _FRAME:
            raise Refused(f"{where} is not allowed")

    def handle_endtag(self, tag: str) -> None:
        """Its end; an end without a beginning is refused."""
        if tag == "title":
            self.in_title = False
        elif tag in BLOCKS:
            if not self.open or self.open.pop() != tag:
                raise Refused(f"line {self.getpos()[0]}: </{tag}> ends nothing")
            self.out.append(f"</{tag}>")
        elif tag not in _FRAME:
            raise Refused(f"line {self.getpos()[0]}: </{tag[:40]}> is not allowed")

    def handle_data(self, data: str) -> None:
        """Text is not drawn here: which letters a machine has is its own affair."""
        if data.strip() and not self.in_title:
            raise Refused(f"line {self.getpos()[0]}: text is not drawn here: {data.strip()[:40]!r}")

    def unknown_decl(self, data: str) -> None:
        """Marked sections."""
        raise Refused(f"<![{data[:20]} is not allowed")

    def handle_pi(self, data: str) -> None:
        """Processing instructions."""
        raise Refused(f"<?{data[:20]} is not allowed")

    def handle_decl(self, decl: str) -> None:
        """The document type, which has to be the one without an address."""
        if decl.strip().lower() != "doctype html":
            raise Refused(f"<!{decl[:40]}> is not allowed")


def _style(attrs: list[tuple[str, str | None]], where: str) -> str:
    text = ""
    for name, value in attrs:
        if name == "style":
            found = declarations(value or "", PROPERTIES, functions=_FUNCTIONS, own=False)
            text = ";".join(f"{key}:{given}" for key, given in found.items())
        elif name not in ("class", "id", "lang"):
            raise Refused(f"{where} has the attribute {name[:40]}, which is not drawn here")
    return text
