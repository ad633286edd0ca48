"""The hidden widget between the pages of a notebook and their kernel."""

from __future__ import annotations

import anywidget
import traitlets

from nbdebug.views.base import HERE, inline


class Bridge(anywidget.AnyWidget):
    """Is never displayed, and so nothing of it is saved: a front end makes it as soon as the kernel opens it."""

    _esm = traitlets.Unicode().tag(sync=True)

    def __init__(self) -> None:
        """Opens the way."""
        super().__init__(_esm=inline(HERE / "bridge.js"))
