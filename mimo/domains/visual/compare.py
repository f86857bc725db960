"""How alike two pictures are: the share of equal pixels, and structural similarity."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from mimo.types import record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]

TOLERANCE = 24
"""Levels of 255 by which a channel may differ where two pixels count as equal: edges are smoothed."""
MAX_PICTURE_BYTES = 1_000_000


class NoPicture(ValueError):
    """Not a picture of the expected kind and size; the message says why."""


@record
class Similarity:
    """Both in [0, 1], rounded to four digits; 1 = the same picture.

    `pixels` is the share of pixels that differ by at most `TOLERANCE` in every channel; `structure` the mean
    structural similarity (SSIM, windows of 7 x 7, over the channels).
    """

    pixels: float
    structure: float


def decoded(data: bytes, *, width: int, height: int) -> Pixels:
    """The picture's pixels, uint8 [height, width, 3], on white.

    Raises:
        NoPicture: no PNG, or of another size; nothing is decoded then.
    """
    import numpy as np  # here: a stage that verifies no picture loads none of this
    from PIL import Image, UnidentifiedImageError
    from PIL.Image import DecompressionBombError

    if len(data) > MAX_PICTURE_BYTES:
        raise NoPicture(f"{len(data)} bytes, more than {MAX_PICTURE_BYTES}")
    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            if image.size != (width, height):
                raise NoPicture(f"{image.width} x {image.height} pixels, not {width} x {height}")
            ground = Image.new("RGBA", image.size, "white")
            ground.alpha_composite(image.convert("RGBA"))
            return np.asarray(ground.convert("RGB"), dtype=np.uint8)
    except (UnidentifiedImageError, DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        if isinstance(error, NoPicture):
            raise
        raise NoPicture(f"no PNG: {str(error)[:120]}") from error


def cropped(data: bytes, *, window: tuple[int, int], width: int, height: int) -> bytes:
    """The PNG of the upper left `width` x `height` pixels of a PNG of `window` (width, height).

    Raises:
        NoPicture: see `decoded`.
    """
    from PIL import Image

    pixels = decoded(data, width=window[0], height=window[1])
    out = io.BytesIO()
    Image.fromarray(pixels[:height, :width].copy()).save(out, format="PNG")
    return out.getvalue()


def similarity(one: Pixels, other: Pixels) -> Similarity:
    """How alike two pictures of the same size are; symmetric.

    Source: Wang et al. 2004 (SSIM), as scikit-image computes it.
    """
    import numpy as np
    from skimage.metrics import structural_similarity

    apart = np.abs(one.astype(np.int16) - other.astype(np.int16)).max(axis=2)
    structure = structural_similarity(one, other, channel_axis=2, data_range=255)
    equal = float((apart <= TOLERANCE).mean())
    return Similarity(pixels=round(equal, 4), structure=round(max(float(structure), 0.0), 4))
