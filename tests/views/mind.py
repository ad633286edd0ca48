"""Pages with one panel of an explanation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from nbdebug.exceptions import SetupError
from nbdebug.tools.explain.panels.contrast import PANEL as DIFFERENCE
from nbdebug.tools.explain.panels.counterfactuals import PANEL as COUNTERFACTUAL
from nbdebug.tools.explain.panels.examples import PANEL as EXAMPLES
from nbdebug.tools.explain.result import Explanation
from nbdebug.views.page import View
from nbdebug.views.panel import Panel

PANELS: dict[str, Panel[Explanation]] = {one.name: one for one in (DIFFERENCE, COUNTERFACTUAL, EXAMPLES)}


@dataclass
class MindPage(View):
    """A page with one panel on it."""

    module: ClassVar[str] = str(Path(__file__).with_name("mind_page.js"))
    sheets: ClassVar[tuple[str, ...]] = ("tools/explain",)

    panel: Panel[Explanation] = DIFFERENCE
    first: Mapping[str, Any] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        return {"name": self.panel.name, "state": dict(self.first)}

    def html(self) -> str:
        return self.panel.html(dict(self.first))


def mind_page(explanation: Explanation, name: str, **options: Any) -> MindPage:
    """The page of one panel as it opens, for the first sample."""
    return MindPage(panel=PANELS[name], first=PANELS[name].state(explanation, 0, **options))


def answering(page: Any, explanation: Explanation) -> None:
    """Puts Python behind a page, as a living kernel is."""

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"state": PANELS[asked["name"]].state(explanation, asked["row"], **asked["options"])}
        except SetupError as error:
            return {"trouble": str(error)}

    page.expose_function("python", answer)
