"""nbdebug: the debugger for PyTorch training that lives in a notebook."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbdebug.assertion import assert_healthy as assert_healthy
    from nbdebug.debugger import Debugger as Debugger
    from nbdebug.debugger import checkup as checkup
    from nbdebug.debugger import lr_range as lr_range
    from nbdebug.debugger import overfit as overfit
    from nbdebug.debugger import watch as watch
    from nbdebug.errors import SetupError as SetupError
    from nbdebug.finding import Finding as Finding
    from nbdebug.preserve import restore as restore
    from nbdebug.record import load as load
    from nbdebug.report import Report as Report

HOMES = {
    "Debugger": "debugger",
    "Finding": "finding",
    "Report": "report",
    "SetupError": "errors",
    "assert_healthy": "assertion",
    "checkup": "debugger",
    "load": "record",
    "load_ipython_extension": "magics",
    "lr_range": "debugger",
    "overfit": "debugger",
    "restore": "preserve",
    "unload_ipython_extension": "magics",
    "watch": "debugger",
}
__all__ = [
    *("Debugger", "Finding", "Report", "SetupError"),
    *("assert_healthy", "checkup", "load", "lr_range", "overfit", "restore", "watch"),
]

try:
    __version__ = version("nbdebug")
except PackageNotFoundError:
    __version__ = "0"


def __getattr__(name: str) -> Any:
    """A public name from the file that holds it, imported when it is first asked for."""
    if name not in HOMES:
        raise AttributeError(f"module 'nbdebug' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"nbdebug.{HOMES[name]}"), name)


def __dir__() -> list[str]:
    """The public names."""
    return __all__
