"""A panel: a part of a page, computed with the page or when it is opened; handlers of a page's requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar

from nbdebug.exceptions import SetupError
from nbdebug.formatting import html_paragraph
from nbdebug.views.page import View

ResultType = TypeVar("ResultType", contravariant=True)
HandlerType = TypeVar("HandlerType")


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


def load_panels(package: str, names: tuple[str, ...]) -> tuple[Panel[Any], ...]:
    """Return the ``PANEL`` of each of some modules of a package, in page order."""
    return tuple(import_module(f"{package}.{name}").PANEL for name in names)


def find_panel(panels: list[Panel[ResultType]], name: object) -> Panel[ResultType]:
    """Return a panel by its name; raise SetupError if the page has none of that name."""
    for panel in panels:
        if panel.name == name:
            return panel
    raise SetupError(f"panel is {name!r}; expected one of this page. Reload the page.")


def find_handler(handlers: Mapping[str, HandlerType], request: Mapping[str, Any]) -> HandlerType:
    """Return the handler of a page request by its kind; raise SetupError for an unknown kind."""
    kind = request.get("kind")
    if not isinstance(kind, str) or kind not in handlers:
        raise SetupError(f"request is {kind!r}; expected one of {', '.join(handlers)}. Reload the page.")
    return handlers[kind]


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
