"""A panel: a part of a page, computed with the page or when it is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from nbdebug.formatting import html_paragraph
from nbdebug.views.page import View

ResultType = TypeVar("ResultType", contravariant=True)


@dataclass(frozen=True)
class Panel(Generic[ResultType]):
    """A panel of a result's page: name, title, applicability, state and plain HTML.

    ``state`` is computed with the page if ``quick``, otherwise when the panel is opened; it may be computed again with
    options of the page. ``follows`` names page controls whose values are passed as options; a change recomputes the
    panel. ``html`` renders the same as plain, escaped HTML.
    """

    name: str
    title: str
    fits: Callable[[ResultType], bool]
    state: Callable[..., dict[str, Any]]
    html: Callable[[dict[str, Any]], str]
    quick: bool = True
    follows: tuple[str, ...] = ()


@dataclass
class PanelView(View):
    """A panel by name and state; ``plain`` is its escaped HTML."""

    module: ClassVar[str] = "tools/errors/panel_page.js"
    sheets: ClassVar[tuple[str, ...]] = ("tools/errors",)

    name: str
    title: str
    panel: Mapping[str, Any] = field(default_factory=dict)
    plain_html: str = ""

    def state(self) -> dict[str, Any]:
        """Return the page state."""
        return {"name": self.name, "title": self.title, "panel": dict(self.panel)}

    def html(self) -> str:
        """Return title and content as HTML."""
        return html_paragraph(self.title) + self.plain_html
