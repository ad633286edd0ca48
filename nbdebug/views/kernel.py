"""The IPython that runs here, if one does."""

from __future__ import annotations

import sys
from typing import Any


def shell() -> Any:
    """The running IPython, or None; never imports it."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def in_kernel() -> bool:
    """Whether a notebook kernel runs this."""
    return getattr(shell(), "kernel", None) is not None
