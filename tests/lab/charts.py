"""Canvases in the outputs of a notebook, and the formats of saved displays."""

from __future__ import annotations

import re
from typing import Any

from tests.lab.lab_page import LabPage

STATIC_FORMATS = [{"text/plain", "image/png", "text/html"}]
IS_DRAWN = """(node, minColors) => {
  const p = node.getContext("2d").getImageData(0, 0, node.width, node.height).data, colors = new Set();
  for (let i = 0; i < p.length; i += 4) if (p[i + 3] > 200) colors.add(`${p[i]},${p[i + 1]},${p[i + 2]}`);
  return colors.size >= (minColors ?? 6);
}"""


def is_drawn(canvas: Any, min_colors: int = 6) -> bool:
    """True if a canvas shows at least so many colors."""
    return bool(canvas.evaluate(IS_DRAWN, min_colors))


def line_chart(lab: LabPage, cell: int) -> Any:
    """The canvas of the line chart in the output of a cell."""
    return lab.output(cell).locator(".nb-plot canvas")


def count_points(lab: LabPage, cell: int, at_least: int = 0) -> int:
    """Wait until a chart has ``at_least`` points, and return their number."""
    canvas = line_chart(lab, cell)

    def points() -> int:
        match = re.search(r"(\d+) points", canvas.get_attribute("aria-label") or "")
        return int(match[1]) if match else -1

    lab.wait_until(lambda: points() >= at_least, timeout=20)
    return points()
