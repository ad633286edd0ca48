"""The picture and the text of an output, for readers that run no scripts, such as GitHub."""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nbdebug.formatting import truncate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LINES = 10
MAX_PICTURE_BYTES = 40_000
_MAX_LINE_LENGTH = 240
_WIDTH, _LINE_HEIGHT, _CHART_HEIGHT, _AXIS_LABELS_HEIGHT, _MARGIN = 8.0, 0.17, 2.6, 0.9, 0.12  # inches
_CHARACTERS_PER_LINE = 112
_RESOLUTIONS = (100, 70, 50)  # pixels per inch
_MAX_COLORS, _TEXT_COLORS = 24, 4  # black on white, with two grays at the edges


def first_lines(text: str) -> list[str]:
    """Return at most ten nonempty lines of a text; the last one counts those that were left out."""
    lines = [truncate(line.rstrip(), _MAX_LINE_LENGTH) for line in text.splitlines() if line.strip()]
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[: MAX_LINES - 1], f"… {len(lines) - MAX_LINES + 1} more lines; print() shows all of them."]


def markdown(text: str, image: str) -> str:
    """Return Markdown: the first line as a heading, the others verbatim, and an image from a path or URL, if any."""
    headline, _, rest = text.partition("\n")
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", rest))])
    body = rest.strip("\n")
    parts = [f"## {headline}", f"{fence}text\n{body}\n{fence}" if body else "", f"![chart]({image})" if image else ""]
    return "\n\n".join(filter(None, parts)) + "\n"


def picture(lines: Sequence[str], draw: Callable[[Axes], None] | None) -> str:
    """Return a PNG of at most 40 kB, in base64: the lines of text, and below them a chart if there is one."""
    import matplotlib as mpl

    with warnings.catch_warnings(), mpl.rc_context({"text.usetex": False, "text.hinting": "default"}):
        warnings.simplefilter("ignore")  # a font without the characters of a name must not warn the user
        try:
            return _encode(_figure(lines, draw), _MAX_COLORS if draw else _TEXT_COLORS)
        except Exception:  # for example a name that matplotlib reads as a formula
            return _encode(_figure(lines, None), _TEXT_COLORS)


def _figure(lines: Sequence[str], draw: Callable[[Axes], None] | None) -> Figure:
    from matplotlib.figure import Figure

    wrapped = [part for line in lines for part in _wrap(line)]
    text_height = _LINE_HEIGHT * len(wrapped) + 2 * _MARGIN
    height = text_height + (_CHART_HEIGHT if draw else 0.0)
    figure = Figure(figsize=(_WIDTH, height))
    for index, line in enumerate(wrapped):
        weight = "bold" if index == 0 else "normal"
        top = 1 - (_MARGIN + _LINE_HEIGHT * index) / height
        style: dict[str, Any] = {"family": "monospace", "size": 8, "weight": weight, "parse_math": False}
        figure.text(_MARGIN / _WIDTH, top, line, va="top", **style)
    if draw:
        figure.set_layout_engine("constrained", rect=(0, 0, 1, _CHART_HEIGHT / height))
        from nbdebug.views.chart_layout import fit_chart

        axes = figure.subplots()
        draw(axes)
        fit_chart(axes, _WIDTH, _CHART_HEIGHT - _AXIS_LABELS_HEIGHT)
    return figure


def _wrap(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, _CHARACTERS_PER_LINE, subsequent_indent=indent, drop_whitespace=True)


def _encode(figure: Figure, colors: int) -> str:
    """Return the figure as a PNG with few colors, at the highest resolution that fits."""
    from PIL import Image

    data = b""
    for dots_per_inch in _RESOLUTIONS:
        file, small_file = io.BytesIO(), io.BytesIO()
        figure.savefig(file, format="png", dpi=dots_per_inch)
        Image.open(file).convert("RGB").quantize(colors).save(small_file, "png", optimize=True)
        data = small_file.getvalue()
        if len(data) <= MAX_PICTURE_BYTES:
            break
    return b64encode(data).decode()
