"""View of a playground: controls, charts and the observation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from nbdebug.formatting import html_paragraph, html_table, to_json_value
from nbdebug.views.page import View

if TYPE_CHECKING:
    from nbdebug.playgrounds.play import Play


@dataclass
class PlayView(View):
    """A playground with its present settings; without Python the controls show the settings and do not move."""

    module: ClassVar[str] = "playgrounds/page.js"
    sheets: ClassVar[tuple[str, ...]] = ("playgrounds",)
    height: ClassVar[int] = 400

    play: Play

    def state(self) -> dict[str, Any]:
        """Return texts, controls with their positions, and charts; without the observation until the guess."""
        play, playground = self.play, self.play.playground
        controls = [
            {
                "name": control.name,
                "label": control.label,
                "texts": [str(value) for value in control.values],
                "position": control.values.index(play.settings[control.name]),
                "is_list": control.is_list,
            }
            for control in playground.controls
        ]
        texts = {"title": playground.title, "question": playground.question, "name": playground.name}
        explanation = "" if play.is_hidden else play.picture.explanation
        observation = {"tone": self._tone, "headline": play.headline, "explanation": explanation}
        guesses = {"guesses": list(playground.guesses), "guess": play.guess}
        charts = [chart.state() for chart in play.picture.charts]
        return {**to_json_value({**texts, **observation, **guesses, "controls": controls}), "charts": charts}

    def html(self) -> str:
        """Return the question, the settings, a table for each chart, and the observation."""
        play = self.play
        settings = [(control.label, str(play.settings[control.name])) for control in play.playground.controls]
        top = html_paragraph(play.playground.title) + html_paragraph(play.playground.question) + html_table(settings)
        charts = "".join(chart.html() for chart in play.picture.charts)
        explanation = "" if play.is_hidden else html_paragraph(play.picture.explanation)
        return top + charts + html_paragraph(play.headline) + explanation

    @property
    def _tone(self) -> str:
        return "note" if self.play.is_hidden else self.play.picture.tone
