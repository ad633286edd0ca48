"""Decoding of the images on a page."""

from __future__ import annotations

from base64 import b64decode
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image


def decode_pixels(card: dict[str, Any]) -> np.ndarray:
    """Return the pixels of an image card."""
    assert card["kind"] == "image", card
    pixels = np.asarray(Image.open(BytesIO(b64decode(card["src"].partition(",")[2]))))
    assert pixels.shape[:2] == (card["height"], card["width"])
    return pixels
