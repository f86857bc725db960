"""Families that need more than the others: a browser to render them, or a policy that sees."""

from __future__ import annotations

import random

from mimo.domains.visual.family import SIZE, Case, Family, Shape, circle, colours, rect

_BLOCK = (
    '<div style="position:absolute;left:{left}px;top:{top}px;width:{width}px;height:{height}px;'
    'background:{colour}"></div>'
)


def columns(rng: random.Random) -> Case:
    """A page of coloured blocks side by side under a head."""
    head, number = rng.choice((16, 24)), rng.choice((2, 3))
    side, chosen = SIZE // number, colours(rng, number + 1)
    boxes = [(0, 0, SIZE, head), *((side * n, head, side, SIZE - head) for n in range(number))]
    shapes = [
        Shape(
            form=_BLOCK,
            values={"left": left, "top": top, "width": width, "height": height, "colour": colour},
            may_slip=("colour", "top"),
        )
        for (left, top, width, height), colour in zip(boxes, chosen, strict=True)
    ]
    return Case(
        words=f"a {chosen[0]} head over the whole width, {head} high, and below it, to the bottom, "
        f"{number} columns of the same width, from the left {', '.join(chosen[1:])}",
        shapes=tuple(shapes),
    )


def seen(rng: random.Random) -> Case:
    """A disc and a block that only the image tells of."""
    block, disc = colours(rng, 2)
    wide, high = 8 * rng.randint(3, 5), 8 * rng.randint(3, 6)
    shapes = (
        rect(8 * rng.randint(0, 1), 8 * rng.randint(0, 5), wide, high, block, may_slip=("x", "y", "fill")),
        circle(8 * rng.randint(8, 10), 8 * rng.randint(3, 9), rng.choice((12, 16)), disc),
    )
    return Case(words="", shapes=shapes)


FAMILIES = (
    Family(name="page-columns", split="train", make=columns, kind="a page of blocks", renderer="chromium"),
    Family(name="seen-shapes", split="train", make=seen, kind="what the image shows", seen=True),
)
