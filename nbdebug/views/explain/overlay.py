"""A heat map over its picture as one small picture, for readers that run no scripts."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from html import escape
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.samples import encode

WIDE = 224
PALE = 0.4  # of the picture under the colors
UP, DOWN = (209, 82, 10), (0, 102, 179)  # orange and blue, which all eyes tell apart


def overlaid(shown: Mapping[str, Any], words: str) -> str:
    """An ``<img>`` of a picture in gray with orange for what raises the score and blue for what lowers it."""
    picture = blended(under(shown), colors(shown))
    size = f'width="{WIDE}" height="{round(WIDE * picture.height / picture.width)}"'
    return f'<img src="{encode.address(picture)}" {size} style="image-rendering:pixelated" alt="{escape(words)}">'


def under(shown: Mapping[str, Any]) -> Any:
    """The picture in gray, no larger than it is shown; white where there is none."""
    from PIL import Image

    head, _, packed = str(shown.get("src", "")).partition(",")
    if not head.startswith("data:image/"):
        return Image.new("L", (shown["columns"], shown["rows"]), 255)
    return encode.smaller(Image.open(BytesIO(b64decode(packed))).convert("L"), WIDE)


def colors(shown: Mapping[str, Any]) -> NDArray[np.uint8]:
    """The map as rows × columns × 4 bytes; what is strong is not clear."""
    steps = np.frombuffer(b64decode(shown["heat"]), np.int8).reshape(shown["rows"], shown["columns"])
    strength = np.clip(np.abs(steps.astype(float)) * shown["top"] / shown["strong"] / 127, 0, 1)
    found = np.where((steps > 0)[..., None], UP, DOWN)
    return np.dstack([found, np.rint(255 * strength)]).astype(np.uint8)


def blended(gray: Any, painted: NDArray[np.uint8]) -> Any:
    """The colors over the picture, as large as it."""
    from PIL import Image

    paper = Image.blend(Image.new("L", gray.size, 255), gray, PALE).convert("RGBA")
    over = Image.fromarray(painted).resize(gray.size, Image.Resampling.NEAREST)
    return Image.alpha_composite(paper, over).convert("RGB")
