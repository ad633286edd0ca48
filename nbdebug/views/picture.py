"""Small pictures as PNG inside a page."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from math import ceil, sqrt
from typing import Any

import numpy as np


def data_address(image: Any, most_bytes: int) -> str:
    """A ``data:`` address of ``image``, uint8 of shape (H, W) or (H, W, 3), in about ``most_bytes``.

    Rows and columns are left out where the picture is too large.
    """
    pixels = np.asarray(image, dtype=np.uint8)
    every = max(1, ceil(sqrt(pixels.size / max(1, most_bytes))))
    return "data:image/png;base64," + b64encode(_png(pixels[::every, ::every])).decode()


def _png(pixels: np.ndarray[Any, Any]) -> bytes:
    height, width = pixels.shape[:2]
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    color = 2 if pixels.ndim == 3 else 0
    header = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in parts)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
