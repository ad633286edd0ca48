"""The one widget class that shows any view while a cell runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets


class Live(anywidget.AnyWidget):
    """Hosts one view. Its state is built whenever a page asks for it, and so is whole after a reload."""

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    live = traitlets.Bool(True).tag(sync=True)
    state = traitlets.Any().tag(sync=True, to_json=lambda _, widget: widget.build())

    def __init__(self, module: str, css: str, build: Callable[[], dict[str, Any]]) -> None:
        """A widget that runs the text ``module``; ``build`` gives the state of this moment."""
        self.build = build
        super().__init__(_esm=module, _css=css)
        _hear_while_busy(self.comm)


def _hear_while_busy(comm: Any) -> None:
    """Leaves messages on the thread that the page asked for; the kernel would route them to the busy one."""
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, default: default
