"""The widget that shows any view while a cell runs; apart from ``live``, as it imports the notebook's libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from nbdebug.views.notebook_kernel import receive_while_busy


class LiveWidget(anywidget.AnyWidget):
    """Hosts one view. Its state is built whenever a page asks for it, and so is complete after a reload."""

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    live = traitlets.Bool(True).tag(sync=True)
    state = traitlets.Any().tag(sync=True, to_json=lambda _, widget: widget.build())

    def __init__(self, module: str, css: str, build: Callable[[], dict[str, Any]]) -> None:
        """Create a widget that runs the JavaScript text ``module``; ``build`` returns the current state."""
        self.build = build
        super().__init__(_esm=module, _css=css)
        receive_while_busy(self.comm)
