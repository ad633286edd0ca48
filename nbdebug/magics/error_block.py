"""The short block below the traceback of a cell that torch has ended, and the magic %why."""

from __future__ import annotations

from html import escape
from typing import Any

from nbdebug.rule_engine import rule_registry
from nbdebug.rule_engine.crash_rules import CRASH_FAMILY, CRASH_PACKAGE, explain_crash, find_last_error

_EVENT = "post_run_cell"  # after IPython, or whatever replaces its handler, has shown the traceback
SWITCHES = ("on", "off")


class _Switch:
    """Whether the block is shown, in this process."""

    is_on = True


def why(line: str) -> Any:
    """Explain the last exception of torch: cause, line, fix, and the shapes up to the operation that raised.

    %why
    """
    error = find_last_error()
    if error is None:
        print("no exception has been raised")
        return None
    report = explain_crash(error)
    if report.findings or report.trace:
        return report
    print(f"{type(error).__name__}: nbdebug knows no cause of this exception")
    return None


def switch_errors(state: str) -> str:
    """Turn the block on or off, and return what holds now."""
    _Switch.is_on = state == "on"
    return f"explanations of errors are {state}" + ("; %why still explains the last one" if state == "off" else "")


def _show_block(result: Any) -> None:
    """Display the block if a cell has ended in an exception of torch whose cause is known; never raise."""
    error = getattr(result, "error_in_exec", None)
    if not _Switch.is_on or not isinstance(error, Exception):
        return
    try:
        text = explain_crash(error).block()
        if text:
            _display(f"{text}\n  %why shows the whole explanation.")
    except Exception:  # the user's own error is what matters
        return


def _display(text: str) -> None:
    from IPython.display import display

    style = "border-left: 3px solid #c33; padding-left: .7em; white-space: pre-wrap"
    bundle = {"text/plain": text, "text/html": f'<pre style="{style}">{escape(text)}</pre>'}
    display(bundle, raw=True)  # type: ignore[no-untyped-call]


def register_block(ip: Any) -> None:
    """Show the block after each cell that fails; the handlers of exceptions stay as they are."""
    rule_registry.load_family(CRASH_PACKAGE, CRASH_FAMILY)  # so that the first block appears at once
    ip.events.register(_EVENT, _show_block)


def unregister_block(ip: Any) -> None:
    """Remove the block of any earlier load."""
    for callback in list(ip.events.callbacks[_EVENT]):
        if str(getattr(callback, "__module__", "")) == __name__:
            ip.events.unregister(_EVENT, callback)
