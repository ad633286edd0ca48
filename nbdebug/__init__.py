"""nbdebug: the debugger for PyTorch training that lives in a notebook."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbdebug.assertion import assert_healthy as assert_healthy
    from nbdebug.debugger import Debugger as Debugger
    from nbdebug.exceptions import SetupError as SetupError
    from nbdebug.finding import Finding as Finding
    from nbdebug.one_call import batch_size as batch_size
    from nbdebug.one_call import checkup as checkup
    from nbdebug.one_call import compare_optimizers as compare_optimizers
    from nbdebug.one_call import errors as errors
    from nbdebug.one_call import explain as explain
    from nbdebug.one_call import importance as importance
    from nbdebug.one_call import lr_range as lr_range
    from nbdebug.one_call import overfit as overfit
    from nbdebug.one_call import watch as watch
    from nbdebug.preserve import restore as restore
    from nbdebug.record import load as load
    from nbdebug.report import Report as Report
    from nbdebug.tools.importance import drift as drift

HOMES = {
    "Debugger": "debugger",
    "Finding": "finding",
    "Report": "report",
    "SetupError": "exceptions",
    "assert_healthy": "assertion",
    "batch_size": "one_call",
    "checkup": "one_call",
    "compare_optimizers": "one_call",
    "drift": "tools.importance",
    "errors": "one_call",
    "explain": "one_call",
    "importance": "one_call",
    "load": "record",
    "load_ipython_extension": "magics",
    "lr_range": "one_call",
    "overfit": "one_call",
    "restore": "preserve",
    "unload_ipython_extension": "magics",
    "watch": "one_call",
}
__all__ = [
    *("Debugger", "Finding", "Report", "SetupError"),
    *("assert_healthy", "batch_size", "checkup", "compare_optimizers", "drift", "errors", "explain"),
    *("importance", "load", "lr_range", "overfit", "restore", "watch"),
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
