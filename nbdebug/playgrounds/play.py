"""Play: a playground with the present values of its controls, and the picture for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from nbdebug.playgrounds.playground import Playground, PlayPicture, Value
from nbdebug.preserve import Preserve, seed_all
from nbdebug.result import Result
from nbdebug.validation import validate_choice
from nbdebug.views.line_chart import sparkline
from nbdebug.views.panel import find_handler

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View


@dataclass(eq=False)
class Play(Result):
    """A playground in use. ``settings`` are the values of its controls, ``guess`` what the user takes for the cause."""

    has_chart: ClassVar[bool] = True

    playground: Playground
    settings: dict[str, Value] = field(default_factory=dict)
    guess: str = ""
    _pictures: dict[tuple[Value, ...], PlayPicture] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.settings = {control.name: control.default for control in self.playground.controls} | self.settings

    @property
    def picture(self) -> PlayPicture:
        """What the settings lead to; computed once for each combination."""
        key = tuple(self.settings.values())
        if key not in self._pictures:
            with Preserve(), torch.enable_grad():
                seed_all(0)
                self._pictures[key] = self.playground.compute(**self.settings)
        return self._pictures[key]

    @property
    def headline(self) -> str:
        """The observation in one line; before the guess, what to do."""
        if self.is_hidden:
            return f"Guess the cause: {', '.join(self.playground.guesses)}."
        if not self.guess:
            return self.picture.headline
        is_right = self.picture.headline.startswith(self.guess)
        return f"{'Right' if is_right else f'Not {self.guess}'}. {self.picture.headline}"

    @property
    def is_hidden(self) -> bool:
        """True until the user has guessed, in a playground with guesses."""
        return bool(self.playground.guesses) and not self.guess

    def set(self, settings: Mapping[str, Value]) -> Play:
        """Set some controls by name, and return this playground.

        Raises SetupError for an unknown control, and for a value that it does not have.
        """
        controls = {control.name: control for control in self.playground.controls}
        for name, value in settings.items():
            validate_choice("control", name, controls)
            controls[name].check(value)
        self.settings, self.guess = {**self.settings, **settings}, ""
        return self

    def take_guess(self, cause: str) -> Play:
        """Guess the cause of the picture, which shows the right one. Raises SetupError for an unknown cause."""
        self.guess = validate_choice("cause", cause, self.playground.guesses)
        return self

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Handle a move of a slider or a guess, and return the new state."""
        find_handler(_HANDLERS, request)(self, request)
        return {"state": self.view().state()}

    def view(self) -> View:
        """Return the page: controls, charts and the observation."""
        from nbdebug.playgrounds.view import PlayView

        return PlayView(
            self.playground, self.settings, self.picture, self.headline, guess=self.guess, is_hidden=self.is_hidden
        )

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per point: chart, line, x, y."""
        import pandas as pd

        rows = [
            (chart.title, name, x, y)
            for chart in self.picture.charts
            for name, points in chart.series.items()
            for x, y in points
        ]
        return pd.DataFrame(rows, columns=["chart", "line", "x", "y"])

    def draw(self, ax: Axes) -> None:
        """Draw the first chart."""
        chart = self.picture.charts[0]
        for name, points in chart.series.items():
            ax.plot(*zip(*points, strict=True), label=name)
        ax.set(title=chart.title, xlabel=chart.x_label, yscale="log" if chart.log else "linear")
        ax.set_xscale("log" if chart.log_x else "linear")
        ax.legend()

    def to_text(self) -> str:
        """Return the settings, the shape of each line, and the observation."""
        lines = [f"nbdebug play {self.playground.name}: {self.headline}", self.playground.question, ""]
        lines += [f"{control.label}: {self.settings[control.name]}" for control in self.playground.controls]
        for chart in self.picture.charts:
            shapes = {name: [y for _, y in points if y is not None] for name, points in chart.series.items()}
            lines += ["", chart.title, *(f"  {name}: {_line_text(values)}" for name, values in shapes.items())]
        return "\n".join([*lines, *([] if self.is_hidden else ["", self.picture.explanation])])


def _line_text(values: list[float]) -> str:
    return f"{values[0]:.3g} {sparkline(values)} {values[-1]:.3g}" if values else "no value"


def _set_by_index(play: Play, request: Mapping[str, Any]) -> None:
    """Set the controls to the positions of the sliders of the page."""
    positions = dict(request.get("positions", {}))
    moved = [control for control in play.playground.controls if control.name in positions]
    play.set({control.name: control.value_at(positions[control.name]) for control in moved})


_HANDLERS: dict[str, Callable[[Play, Mapping[str, Any]], object]] = {
    "state": lambda play, request: None,
    "set": _set_by_index,
    "guess": lambda play, request: play.take_guess(request.get("cause", "")),
}
