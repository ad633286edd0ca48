"""A page with one panel of the internals of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from nbdebug.tools.explain.panels import attention, features, path
from nbdebug.views.page import View

PANELS = {module.PANEL.name: module.PANEL for module in (attention, features, path)}


@dataclass
class InternalsPage(View):
    """A page that shows one panel in its first state."""

    module: ClassVar[str] = str(Path(__file__).with_name("internals_page.js"))
    sheets: ClassVar[tuple[str, ...]] = ("explain",)

    name: str = ""
    first: Mapping[str, Any] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        return {"name": self.name, "state": dict(self.first)}

    def html(self) -> str:
        return PANELS[self.name].html(dict(self.first))
