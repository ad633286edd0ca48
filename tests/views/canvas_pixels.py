"""Colors that a page has drawn on a canvas."""

from __future__ import annotations

from typing import Any

_OPAQUE_COLORS = """node => {
  const p = node.getContext("2d").getImageData(0, 0, node.width, node.height).data, colors = new Set();
  for (let i = 0; i < p.length; i += 4) if (p[i + 3] > 200) colors.add(`${p[i]},${p[i + 1]},${p[i + 2]}`);
  return [...colors];
}"""


def canvas_colors(canvas: Any) -> set[str]:
    """The distinct opaque colors of a canvas, as "red,green,blue"."""
    return set(canvas.evaluate(_OPAQUE_COLORS))


def first_line_color(dark: bool = False) -> str:
    """The color of the first line of a chart in a theme."""
    return "90,174,255" if dark else "0,102,179"
