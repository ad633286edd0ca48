"""A playground as data: its controls, and the function that computes the picture for their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nbdebug.views.line_chart import LineChart

Value = str | int | float
Tone = Literal["good", "warning", "error", "note"]


@dataclass(frozen=True)
class Control:
    """A setting with the values that it may have, in the order of its slider; words are a list to choose from."""

    name: str
    label: str
    values: tuple[Value, ...]
    default: Value

    @property
    def is_list(self) -> bool:
        """True if the values are words."""
        return isinstance(self.default, str)


@dataclass(frozen=True)
class PlayPicture:
    """Charts of what was computed, and the observation: its tone, one line, and why it is so."""

    charts: tuple[LineChart, ...]
    tone: Tone
    headline: str
    explanation: str


@dataclass(frozen=True)
class Playground:
    """``compute`` takes the value of each control by name, and runs with a seeded generator.

    With ``guesses``, the observation is hidden until the user guesses; the headline then begins with the right cause.
    """

    name: str
    title: str
    question: str
    controls: tuple[Control, ...]
    compute: Callable[..., PlayPicture]
    guesses: tuple[str, ...] = ()
