"""View of a playground: controls, charts and the observation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from nbdebug.formatting import html_paragraph, html_table, to_json_value
from nbdebug.playgrounds.playground import Playground, PlayPicture, Value
from nbdebug.views.page import View


@dataclass
class PlayView(View):
    """A playground with its present settings; without Python the controls show the settings and do not move.

    ``is_hidden`` leaves out the observation, until the user has guessed.
    """

    module: ClassVar[str] = "playgrounds/page.js"
    sheets: ClassVar[tuple[str, ...]] = ("playgrounds",)
    height: ClassVar[int] = 400

    playground: Playground
    settings: Mapping[str, Value]
    picture: PlayPicture
    headline: str
    guess: str = ""
    is_hidden: bool = False

    def state(self) -> dict[str, Any]:
        """Return texts, controls with their positions, and charts; without the observation until the guess."""
        playground = self.playground
        controls = [
            {
                "name": control.name,
                "label": control.label,
                "texts": [str(value) for value in control.values],
                "positions": control.positions(self.settings[control.name]),
                "kind": control.kind,
            }
            for control in playground.controls
        ]
        texts = {"title": playground.title, "question": playground.question, "name": playground.name}
        explanation = "" if self.is_hidden else self.picture.explanation
        observation = {"tone": self._tone, "headline": self.headline, "explanation": explanation}
        guesses = {"guesses": list(playground.guesses), "guess": self.guess}
        charts = [chart.state() for chart in self.picture.charts]
        return {**to_json_value({**texts, **observation, **guesses, "controls": controls}), "charts": charts}

    def html(self) -> str:
        """Return the question, the settings, a table for each chart, and the observation."""
        settings = [(control.label, str(self.settings[control.name])) for control in self.playground.controls]
        top = html_paragraph(self.playground.title) + html_paragraph(self.playground.question) + html_table(settings)
        charts = "".join(chart.html() for chart in self.picture.charts)
        explanation = "" if self.is_hidden else html_paragraph(self.picture.explanation)
        return top + charts + html_paragraph(self.headline) + explanation

    @property
    def _tone(self) -> str:
        return "note" if self.is_hidden else self.picture.tone
