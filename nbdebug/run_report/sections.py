"""The parts of a report: sections of paragraphs, lists, tables, code and pictures, independent of the file format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; ``tone`` is a severity, or "" for plain text."""

    text: str
    tone: str = ""


@dataclass(frozen=True)
class Items:
    """A list of lines."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """Text in a fixed-width font."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows of text under a header."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A PNG, with a description for readers who do not see it."""

    png: bytes = field(repr=False)
    description: str = ""


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


Block = Paragraph | Items | Code | Table | Picture | Heading


@dataclass(frozen=True)
class Section:
    """A title and its blocks."""

    title: str
    blocks: tuple[Block, ...]


def draw_picture(draw: Callable[[Axes], None], description: str) -> Picture | None:
    """Return a chart as a PNG of 700 × 320 pixels on white; None if it cannot be drawn."""
    import io
    import warnings

    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.2), dpi=100, layout="constrained")
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a font without the characters of a name must not warn the user
        try:
            draw(figure.subplots())
            figure.savefig(file, format="png")
        except Exception:  # a report without one chart is worth more than none
            return None
    return Picture(file.getvalue(), description)


def compact(blocks: Sequence[Block | None]) -> tuple[Block, ...]:
    """Return the blocks that exist."""
    return tuple(block for block in blocks if block is not None)
