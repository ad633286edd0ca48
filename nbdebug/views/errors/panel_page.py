"""One panel of the error browser on a page of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nbdebug.views.base import View
from nbdebug.views.markup import paragraph


@dataclass
class PanelView(View):
    """A panel by its name and its state; ``plain`` is the same as escaped HTML."""

    module: ClassVar[str] = "errors/panel_page.js"
    sheets: ClassVar[tuple[str, ...]] = ("errors",)

    name: str
    title: str
    panel: Mapping[str, Any] = field(default_factory=dict)
    plain: str = ""

    def state(self) -> dict[str, Any]:
        """All that the page holds."""
        return {"name": self.name, "title": self.title, "panel": dict(self.panel)}

    def html(self) -> str:
        """Title and content."""
        return paragraph(self.title) + self.plain
