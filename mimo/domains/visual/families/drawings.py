"""Families of drawings to train on; coordinates are pixels from the top left corner."""

from __future__ import annotations

import random

from mimo.domains.visual.family import (
    SIZE,
    Case,
    Family,
    circle,
    colours,
    corner_words,
    polygon,
    rect,
)


def stripes(rng: random.Random) -> Case:
    """A flag of equal stripes."""
    number = rng.choice((3, 4))
    side, chosen = SIZE // number, colours(rng, number)
    across = rng.random() < 0.5
    shapes = [
        rect(0, side * n, SIZE, side, colour, may_slip=("fill", "y"))
        if across
        else rect(side * n, 0, side, SIZE, colour, may_slip=("fill", "x"))
        for n, colour in enumerate(chosen)
    ]
    if across:
        words = f"{number} horizontal stripes, each {side} high, from the top {', '.join(chosen)}"
    else:
        words = f"{number} vertical stripes, each {side} wide, from the left {', '.join(chosen)}"
    return Case(words=words, shapes=tuple(shapes))


def rings(rng: random.Random) -> Case:
    """Discs around one centre."""
    radii = rng.choice(((44, 30, 16), (40, 28, 14), (45, 25), (38, 18)))
    chosen = colours(rng, len(radii))
    shapes = [
        circle(48, 48, r, colour, may_slip=("r", "fill")) for r, colour in zip(radii, chosen, strict=True)
    ]
    told = ", on it ".join(f"radius {r} {colour}" for r, colour in zip(radii, chosen, strict=True))
    return Case(words=f"discs around (48, 48): {told}", shapes=tuple(shapes))


def bars(rng: random.Random) -> Case:
    """A bar chart."""
    number, colour = rng.choice((3, 4)), colours(rng, 1)[0]
    heights = [8 * rng.randint(2, 11) for _ in range(number)]
    shapes = [
        rect(4 + 24 * n, SIZE - height, 16, height, colour, may_slip=("x", "y", "width", "fill"))
        for n, height in enumerate(heights)
    ]
    told = ", ".join(f"{height} high at x {4 + 24 * n}" for n, height in enumerate(heights))
    return Case(words=f"{colour} bars on the bottom edge, 16 wide: {told}", shapes=tuple(shapes))


def checker(rng: random.Random) -> Case:
    """Squares of a grid."""
    cells = rng.sample([(column, row) for column in range(1, 5) for row in range(1, 5)], rng.choice((3, 4)))
    chosen = colours(rng, len(cells))
    shapes = [
        rect(24 * (column - 1), 24 * (row - 1), 24, 24, colour, may_slip=("x", "y", "fill"))
        for (column, row), colour in zip(cells, chosen, strict=True)
    ]
    told = ", ".join(
        f"{colour} in column {column} row {row}" for (column, row), colour in zip(cells, chosen, strict=True)
    )
    return Case(words=f"a grid of 4 columns and 4 rows of 24 x 24 squares: {told}", shapes=tuple(shapes))


def signal(rng: random.Random) -> Case:
    """A traffic light."""
    lit, middle, r = rng.randrange(3), rng.choice((24, 48, 72)), rng.choice((9, 11, 13))
    ground = rng.choice(("black", "navy", "brown", "purple"))
    lamps = [
        (y, colour if n == lit else "gray")
        for n, (y, colour) in enumerate(((20, "red"), (48, "gold"), (76, "green")))
    ]
    box = rect(middle - 16, 4, 32, 88, ground, may_slip=("x", "width", "fill"))
    shapes = [circle(middle, y, r, colour, may_slip=("cy", "fill")) for y, colour in lamps]
    told = ", ".join(f"{colour} at y {y}" for y, colour in lamps)
    return Case(
        words=f"a traffic light: a {ground} box, x {middle - 16} to {middle + 16}, y 4 to 92, "
        f"in it discs of radius {r}, x {middle}: {told}",
        shapes=(box, *shapes),
    )


def frames(rng: random.Random) -> Case:
    """Squares one on the other."""
    number = rng.choice((2, 3))
    start, step = rng.choice(((4, 12), (8, 14), (2, 15)))
    chosen = colours(rng, number)
    edges = [start + step * n for n in range(number)]
    shapes = [
        rect(edge, edge, SIZE - 2 * edge, SIZE - 2 * edge, colour, may_slip=("x", "width", "fill"))
        for edge, colour in zip(edges, chosen, strict=True)
    ]
    told = ", on it ".join(
        f"{colour} from ({edge}, {edge}) with side {SIZE - 2 * edge}"
        for edge, colour in zip(edges, chosen, strict=True)
    )
    return Case(words=f"squares: {told}", shapes=tuple(shapes))


def steps(rng: random.Random) -> Case:
    """Stairs of two steps over a floor."""
    ground, colour = colours(rng, 2)
    edge, low, high = rng.choice((32, 40, 48, 56)), rng.choice((56, 60, 64)), rng.choice((20, 28, 36))
    points = [(8, 88), (8, low), (edge, low), (edge, high), (88, high), (88, 88)]
    floor = rect(0, 88, SIZE, 8, ground, may_slip=("fill", "y"))
    return Case(
        words=f"a {ground} floor, y 88 to 96 over the whole width; {colour} stairs {corner_words(points)}",
        shapes=(floor, polygon(points, colour)),
    )


def face(rng: random.Random) -> Case:
    """A round face."""
    skin, eyes, mouth = colours(rng, 3)
    high, apart = rng.choice((34, 38)), rng.choice((12, 16))
    mouth_y = rng.choice((62, 68))
    shapes = (
        circle(48, 48, 44, skin, may_slip=("r", "fill")),
        circle(48 - apart, high, 6, eyes, may_slip=("cx", "cy", "fill")),
        circle(48 + apart, high, 6, eyes, may_slip=("cx", "cy", "fill")),
        rect(30, mouth_y, 36, 6, mouth, may_slip=("x", "y", "width", "fill")),
    )
    return Case(
        words=f"a face: a {skin} disc at (48, 48) with radius 44; {eyes} eyes of radius 6 "
        f"at ({48 - apart}, {high}) and ({48 + apart}, {high}); "
        f"a {mouth} mouth, x 30 to 66, y {mouth_y} to {mouth_y + 6}",
        shapes=shapes,
    )


def arrow(rng: random.Random) -> Case:
    """A bar and a head."""
    colour, tip = colours(rng, 2)
    points = [(56, 24), (88, 48), (56, 72)]
    bar = rect(8, 40, 48, 16, colour, may_slip=("x", "height", "fill"))
    bar_words = "x 8 to 56, y 40 to 56"
    if rng.random() < 0.5:
        points = [(24, 40), (48, 8), (72, 40)]
        bar = rect(40, 40, 16, 48, colour, may_slip=("y", "width", "height", "fill"))
        bar_words = "x 40 to 56, y 40 to 88"
    return Case(
        words=f"an arrow: a {colour} bar, {bar_words}, and a {tip} triangle {corner_words(points)}",
        shapes=(bar, polygon(points, tip)),
    )


FAMILIES = (
    Family(name="stripes", split="train", make=stripes, kind="a flag of equal stripes"),
    Family(name="rings", split="train", make=rings, kind="discs around one centre"),
    Family(name="bars", split="train", make=bars, kind="a bar chart"),
    Family(name="checker", split="train", make=checker, kind="squares of a grid"),
    Family(name="signal", split="train", make=signal, kind="a traffic light"),
    Family(name="frames", split="train", make=frames, kind="squares one on the other"),
    Family(name="steps", split="train", make=steps, kind="stairs over a floor"),
    Family(name="face", split="train", make=face, kind="a round face"),
    Family(name="arrow", split="train", make=arrow, kind="a bar and a triangle"),
)
