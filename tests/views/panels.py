"""Pages with one panel of the error browser, and tables for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable
from nbdebug.tools.errors.panels.registry import all_panels
from nbdebug.tools.errors.result import Errors
from nbdebug.views.page import View
from nbdebug.views.panel import Panel

ANIMALS = ("ant", "bee", "cat", "dog", "eel")


@dataclass
class PanelPage(View):
    """A page with one panel on it, which tells where it would go in ``went``."""

    module: ClassVar[str] = str(Path(__file__).with_name("panel_page.js"))
    sheets: ClassVar[tuple[str, ...]] = ("errors",)

    panel: Panel = field(default_factory=lambda: all_panels()[0])
    first: Mapping[str, Any] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        return {"name": self.panel.name, "state": dict(self.first)}

    def html(self) -> str:
        return self.panel.html(dict(self.first))


def page_of(errors: Errors, name: str, **options: Any) -> PanelPage:
    """The page of one panel as it opens."""
    panel = next(one for one in all_panels() if one.name == name)
    return PanelPage(panel=panel, first=panel.state(errors, **options))


def answering(page: Any, errors: Errors) -> None:
    """Puts Python behind a page, as a living kernel is."""

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        try:
            return errors.answer(asked)
        except SetupError as error:
            return {"trouble": str(error)}

    page.expose_function("python", answer)


def went(page: Any, errors: Errors) -> tuple[list[int], str]:
    """The rows to which the last click leads, and their label."""
    last = page.evaluate("went.at(-1)")
    answer = errors.answer({"kind": "rows", "query": {**last["query"], "count": 100_000}})
    assert answer["total"] == len(answer["cards"])
    return [card["row"] for card in answer["cards"]], last["label"]


def made(
    rows: int = 600, classes: int = 5, seed: int = 0, sharp: float = 1.0, names: tuple[str, ...] | None = ANIMALS
) -> Errors:
    """A browser of scores that are right more often than not; ``sharp`` above one makes them too sure."""
    random = np.random.default_rng(seed)
    target = random.integers(0, classes, rows)
    logits = random.normal(size=(rows, classes)).astype(np.float32) * 0.8
    logits[np.arange(rows), target] += 1.6
    given = names[:classes] if names and classes <= len(names) else None
    return Errors(ClassificationTable.from_arrays(logits * sharp, target, class_names=given), "made here")
