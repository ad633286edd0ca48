"""A debugger for PyTorch training in notebooks."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbdebug.assertions import assert_healthy as assert_healthy
    from nbdebug.comparison import compare as compare
    from nbdebug.comparison import data_parallel as data_parallel
    from nbdebug.comparison import snapshot as snapshot
    from nbdebug.debugger import Debugger as Debugger
    from nbdebug.exceptions import SetupError as SetupError
    from nbdebug.finding import Finding as Finding
    from nbdebug.functional.analysis import data as data
    from nbdebug.functional.analysis import errors as errors
    from nbdebug.functional.analysis import explain as explain
    from nbdebug.functional.analysis import guide as guide
    from nbdebug.functional.analysis import importance as importance
    from nbdebug.functional.training import batch_size as batch_size
    from nbdebug.functional.training import checkup as checkup
    from nbdebug.functional.training import compare_optimizers as compare_optimizers
    from nbdebug.functional.training import lr_range as lr_range
    from nbdebug.functional.training import overfit as overfit
    from nbdebug.functional.training import profile as profile
    from nbdebug.functional.training import treatments as treatments
    from nbdebug.functional.training import watch as watch
    from nbdebug.history import diagnose as diagnose
    from nbdebug.playgrounds import play as play
    from nbdebug.preserve import restore as restore
    from nbdebug.records import load as load
    from nbdebug.report import Report as Report
    from nbdebug.rule_engine.crash_rules import explain_error as explain_error
    from nbdebug.seeding import seed as seed
    from nbdebug.tools.data import compare_pipelines as compare_pipelines
    from nbdebug.tools.importance import drift as drift
    from nbdebug.watching.attached_run import attach as attach

PUBLIC_MODULES = {
    "Debugger": "debugger",
    "Finding": "finding",
    "Report": "report",
    "SetupError": "exceptions",
    "assert_healthy": "assertions",
    "attach": "watching.attached_run",
    "batch_size": "functional.training",
    "checkup": "functional.training",
    "compare": "comparison",
    "compare_optimizers": "functional.training",
    "compare_pipelines": "tools.data",
    "data": "functional.analysis",
    "data_parallel": "comparison",
    "diagnose": "history",
    "drift": "tools.importance",
    "errors": "functional.analysis",
    "explain": "functional.analysis",
    "explain_error": "rule_engine.crash_rules",
    "guide": "functional.analysis",
    "importance": "functional.analysis",
    "load": "records",
    "load_ipython_extension": "magics",
    "lr_range": "functional.training",
    "overfit": "functional.training",
    "play": "playgrounds",
    "profile": "functional.training",
    "restore": "preserve",
    "seed": "seeding",
    "snapshot": "comparison",
    "treatments": "functional.training",
    "unload_ipython_extension": "magics",
    "watch": "functional.training",
}
__all__ = [
    *("Debugger", "Finding", "Report", "SetupError"),
    *("assert_healthy", "attach", "batch_size", "checkup", "compare", "compare_optimizers", "compare_pipelines"),
    *("data", "data_parallel", "diagnose", "drift", "errors", "explain", "explain_error", "guide", "importance"),
    *("load", "lr_range", "overfit", "play", "profile", "restore", "seed", "snapshot", "treatments", "watch"),
]
try:
    __version__ = version("nbdebug-torch")
except PackageNotFoundError:
    __version__ = "0"


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first access."""
    if name == "clinic":  # a package of functions, as its first import would overwrite a function of that name
        return import_module("nbdebug.clinic")
    if name not in PUBLIC_MODULES:
        raise AttributeError(f"module 'nbdebug' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"nbdebug.{PUBLIC_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
