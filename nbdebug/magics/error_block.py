"""The short block below the traceback of a cell that torch has ended, and the magic %why."""

from __future__ import annotations

import sys
from dataclasses import replace
from html import escape
from typing import Any

from torch import nn

from nbdebug.crashes.crash_report import CrashReport
from nbdebug.rule_engine import rule_registry
from nbdebug.rule_engine.crash_rules import (
    CRASH_FAMILY,
    CRASH_PACKAGE,
    explain_crash,
    find_last_error,
    prepare_explanations,
    trace_crash,
)

SWITCHES = ("on", "off")
_BLOCK_STYLE = "border-left: 3px solid #c33; padding-left: .7em; white-space: pre-wrap; word-break: normal"
_LINE_STYLE = "padding-left: 9ch; text-indent: -9ch; overflow-wrap: anywhere"  # a long line goes on below its text


class _BlockState:
    """State of the block in this process: the switch, and the report of the last cell that failed.

    ``report`` is kept since variables change later, and since a handler of exceptions may keep no exception; it refers
    to no object of the user. ``error_id`` is the id of its exception, and ``shown_id`` that of the last exception that
    IPython has shown before this cell. ``is_prepared`` is whether torch has loaded what an explanation needs.
    """

    is_on = True
    report: CrashReport | None = None
    error_id: int | None = None
    shown_id: int | None = None
    is_prepared = False


def why(line: str) -> Any:
    """Explain the last exception of torch: cause, line, fix, and the shapes up to the operation that raised.

    %why
    """
    error = find_last_error()
    if _BlockState.report is None and error is None:
        print("no exception has been raised")
        return None
    report = _BlockState.report
    if report is None:
        report = explain_crash(error)
    elif error is not None and id(error) == _BlockState.error_id:
        report = replace(report, trace=trace_crash(error))
    if report.findings or report.trace:
        return report
    print(f"nbdebug knows no cause of this exception{f': {report.subject}' if report.subject else ''}")
    return None


def switch_errors(state: str) -> str:
    """Turn the block on or off, and return what holds now."""
    _BlockState.is_on = state == "on"
    return f"explanations of errors are {state}" + ("; %why still explains the last one" if state == "off" else "")


def _remember_last_error(info: Any) -> None:
    """Remember which exception was the last one before a cell; IPython keeps it, so that its id stays its own."""
    _BlockState.shown_id = id(getattr(sys, "last_value", None))


def _show_block(result: Any) -> None:
    """Display the block if a cell has ended in an exception of torch whose cause is known; never raise."""
    try:
        error = _error_of_cell(result)
        if error is None:
            return _prepare_after_first_model()
        has_report = _BlockState.is_on and isinstance(error, Exception)
        _BlockState.report = explain_crash(error, with_trace=False) if has_report else None
        _BlockState.error_id = id(error)
        text = _BlockState.report.block() if _BlockState.report else ""
        if text:
            _display(f"{text}\n  %why shows the whole explanation.")
    except Exception:  # the user's own error is what matters
        return


def _prepare_after_first_model() -> None:
    """Prepare explanations after the first cell that leaves a model, or a class of one, in the variables."""
    if _BlockState.is_prepared or not _BlockState.is_on:
        return
    from IPython.core.getipython import get_ipython

    ip = get_ipython()
    values = list(ip.user_ns.values()) if ip is not None else []
    if any(isinstance(value, nn.Module) or _is_class_of_model(value) for value in values):
        _BlockState.is_prepared = True
        prepare_explanations()


def _is_class_of_model(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module) and value.__module__ == "__main__"


def _error_of_cell(result: Any) -> BaseException | None:
    """Return the exception that ended a cell, or a script or notebook that the cell has run with %run."""
    error: BaseException | None = getattr(result, "error_in_exec", None)
    shown = getattr(sys, "last_value", None)
    if error is None and id(shown) != _BlockState.shown_id:
        error = shown
    _BlockState.shown_id = id(shown)
    return error


def _display(text: str) -> None:
    from IPython.display import display

    rows = "".join(f'<div style="{_LINE_STYLE}">{escape(line)}</div>' for line in text.splitlines())
    bundle = {"text/plain": text, "text/html": f'<pre style="{_BLOCK_STYLE}">{rows}</pre>'}
    display(bundle, raw=True)  # type: ignore[no-untyped-call]


# The second runs after IPython, or whatever replaces its handler, has shown the traceback.
_CALLBACKS = {"pre_run_cell": _remember_last_error, "post_run_cell": _show_block}


def register_block(ip: Any) -> None:
    """Show the block after each cell that fails; the handlers of exceptions stay as they are."""
    rule_registry.load_family(CRASH_PACKAGE, CRASH_FAMILY)  # so that the first block appears at once
    _remember_last_error(None)
    for event, callback in _CALLBACKS.items():
        ip.events.register(event, callback)


def unregister_block(ip: Any) -> None:
    """Remove the block of any earlier load."""
    _BlockState.report = None
    for event in _CALLBACKS:
        for callback in list(ip.events.callbacks[event]):
            if str(getattr(callback, "__module__", "")) == __name__:
                ip.events.unregister(event, callback)
