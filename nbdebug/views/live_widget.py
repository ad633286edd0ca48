"""The widget that shows any view while a cell runs; apart from ``live``, as it imports the notebook's libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import traitlets

from nbdebug.views.kernel_bridge import PageResponder, get_response
from nbdebug.views.notebook_kernel import receive_while_busy, without_display
from nbdebug.views.page import View, module_source, style_sheets


class LiveWidget(anywidget.AnyWidget):
    """Hosts one view. Its state is built whenever a page asks for it, and so is complete after a reload."""

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    live = traitlets.Bool(True).tag(sync=True)
    state = traitlets.Any().tag(sync=True, to_json=lambda _, widget: widget.build())

    def __init__(self, module: str, css: str, build: Callable[[], dict[str, Any]], live: bool = True) -> None:
        """Create a widget that runs the JavaScript text ``module``; ``build`` returns the current state."""
        self.build = build
        super().__init__(_esm=module, _css=css, live=live)
        receive_while_busy(self.comm)


def widget_bundle(view: View, result: object = None) -> dict[str, Any]:
    """Return a view that does not change as the output of a widget, for a page that runs no scripts of an output.

    Requests of the page are answered by the ``result``, if it has an ``answer``.
    """
    widget = LiveWidget(module_source(view), style_sheets(*view.sheets), view.snapshot, live=False)
    if isinstance(result, PageResponder):
        widget.on_msg(lambda _, request, __: widget.send(_answer(result, request)))
    bundle = widget._repr_mimebundle_()
    return dict((bundle[0] if isinstance(bundle, tuple) else bundle) or {})


def _answer(result: object, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message with the response of a result; its tools display nothing, as there is no running cell."""
    with without_display():
        return {"ask": request.get("ask"), "kind": request.get("kind"), **get_response(result, request)}
