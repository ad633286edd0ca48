"""Small PNG images, and bar charts."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def png_data_uri(image: Any, max_bytes: int) -> str:
    """Return a ``data:`` URI of a uint8 image of shape (H, W) or (H, W, 3), in about ``max_bytes``.

    Skips rows and columns of an image that is too large.
    """
    pixels = np.asarray(image, dtype=np.uint8)
    stride = max(1, ceil(sqrt(pixels.size / max(1, max_bytes))))
    return "data:image/png;base64," + b64encode(_encode_png(pixels[::stride, ::stride])).decode()


def _encode_png(pixels: np.ndarray[Any, Any]) -> bytes:
    height, width = pixels.shape[:2]
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    color = 2 if pixels.ndim == 3 else 0
    header = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(name, data) for name, data in parts)


def _png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def named_bars(ax: Axes, names: Sequence[str], values: Any, **style: Any) -> None:
    """Draw a horizontal bar for each name, the first on top; ``style`` is passed to ``Axes.barh``."""
    ax.barh(range(len(names)), values, **style)
    ax.set_yticks(range(len(names)), names)
    ax.yaxis.set_inverted(True)
