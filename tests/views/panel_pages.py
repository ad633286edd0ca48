"""Pages with one panel of the error browser or of an explanation, and predictions for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable
from nbdebug.tools.errors.panels.registry import all_panels
from nbdebug.tools.errors.result import Errors
from nbdebug.tools.explain.panels import contrast, counterfactuals, examples
from nbdebug.tools.explain.result import Explanation
from nbdebug.views.page import View
from nbdebug.views.panel import Panel
from tests.browser import answer_requests

ANIMALS = ("ant", "bee", "cat", "dog", "eel")
EXPLANATION_PANELS: dict[str, Panel[Explanation]] = {
    panel.name: panel for panel in (contrast.PANEL, counterfactuals.PANEL, examples.PANEL)
}


@dataclass
class PanelPage(View):
    """A page with one panel in its first state."""

    panel: Panel[Any]
    panel_state: Mapping[str, Any] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        return {"name": self.panel.name, "state": dict(self.panel_state)}

    def html(self) -> str:
        return self.panel.html(dict(self.panel_state))


class ErrorPanelPage(PanelPage):
    """A page with one panel of the error browser; ``clicks`` in its window lists queries with their labels."""

    module: ClassVar[str] = str(Path(__file__).with_name("error_panel_page.js"))
    sheets: ClassVar[tuple[str, ...]] = ("tools/errors",)


class ExplanationPanelPage(PanelPage):
    """A page with one panel of an explanation."""

    module: ClassVar[str] = str(Path(__file__).with_name("explanation_panel_page.js"))
    sheets: ClassVar[tuple[str, ...]] = ("tools/explain",)


def error_panel_page(errors: Errors, name: str, **options: Any) -> ErrorPanelPage:
    """The page of one panel of the error browser as it opens."""
    panel = next(panel for panel in all_panels() if panel.name == name)
    return ErrorPanelPage(panel, panel.state(errors, **options))


def explanation_panel_page(explanation: Explanation, name: str, **options: Any) -> ExplanationPanelPage:
    """The page of one panel of an explanation as it opens, for the first sample."""
    panel = EXPLANATION_PANELS[name]
    return ExplanationPanelPage(panel, panel.state(explanation, 0, **options))


def serve_errors(page: Any, errors: Errors) -> None:
    """Answer the requests of a page from ``errors``, as a kernel does."""
    _serve(page, errors.answer)


def serve_explanation(page: Any, explanation: Explanation) -> None:
    """Answer the requests of a page from ``explanation``, as a kernel does."""

    def panel_state(request: Mapping[str, Any]) -> dict[str, Any]:
        panel = EXPLANATION_PANELS[request["name"]]
        return {"state": panel.state(explanation, request["row"], **request["options"])}

    _serve(page, panel_state)


def _serve(page: Any, answer: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
    def answer_or_trouble(request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return answer(request)
        except SetupError as error:
            return {"trouble": str(error)}

    answer_requests(page, answer_or_trouble)


def clicked_rows(page: Any, errors: Errors) -> tuple[list[int], str]:
    """The rows that the last click queries, and their label."""
    click = page.evaluate("clicks.at(-1)")
    answer = errors.answer({"kind": "rows", "query": {**click["query"], "count": 100_000}})
    assert answer["total"] == len(answer["cards"])
    return [card["row"] for card in answer["cards"]], click["label"]


def make_errors(
    rows: int = 600, classes: int = 5, seed: int = 0, sharpness: float = 1.0, names: tuple[str, ...] | None = ANIMALS
) -> Errors:
    """Errors of scores that are mostly right; a ``sharpness`` above 1 makes them overconfident."""
    random = np.random.default_rng(seed)
    target = random.integers(0, classes, rows)
    logits = random.normal(size=(rows, classes)).astype(np.float32) * 0.8
    logits[np.arange(rows), target] += 1.6
    class_names = names[:classes] if names and classes <= len(names) else None
    return Errors(ClassificationTable.from_arrays(logits * sharpness, target, class_names=class_names), "headline")
