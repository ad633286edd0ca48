"""A playground as data: its controls, and the function that computes the picture for their values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from nbdebug.validation import argument_error
from nbdebug.views.line_chart import LineChart

Value = str | int | float | tuple[float, ...]
Tone = Literal["good", "warning", "error", "note"]


@dataclass(frozen=True)
class Control:
    """A setting with the values that it may have, in the order of its slider.

    Words are a list to choose from. If the default is a tuple, the control is a drawing: a row of sliders, and its
    setting has one of the values for each.
    """

    name: str
    label: str
    values: tuple[Value, ...]
    default: Value

    @property
    def kind(self) -> Literal["slider", "list", "drawing"]:
        """How the page shows the control."""
        if isinstance(self.default, tuple):
            return "drawing"
        return "list" if all(isinstance(value, str) for value in self.values) else "slider"

    def check(self, value: Any) -> None:
        """Raise SetupError for a value that the control does not have."""
        choices = ", ".join(str(choice) for choice in self.values)
        if not isinstance(self.default, tuple):
            if value not in self.values:
                raise argument_error(self.name, value, f"one of {choices}", "Choose one")
        elif not isinstance(value, tuple) or len(value) != len(self.default) or not set(value) <= set(self.values):
            raise argument_error(
                self.name, value, f"a tuple of {len(self.default)} values, each one of {choices}", "Choose them"
            )

    def positions(self, value: Value) -> list[int]:
        """Return the position of each slider."""
        return [self.values.index(each) for each in (value if isinstance(value, tuple) else (value,))]

    def value_at(self, positions: Any) -> Value:
        """Return the value at the positions of the sliders; raise SetupError for those that do not exist."""
        count, last = len(self.positions(self.default)), len(self.values) - 1
        is_list = isinstance(positions, list) and len(positions) == count
        if not is_list or not all(isinstance(at, int) and 0 <= at <= last for at in positions):
            raise argument_error(
                self.name, positions, f"{count} position{'s'[: count > 1]} from 0 to {last}", "Reload the page"
            )
        values = tuple(self.values[at] for at in positions)
        return values if self.kind == "drawing" else values[0]


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
