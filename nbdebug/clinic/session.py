"""The open case of a notebook: its complaint, its hints, and the silent recording of its run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nbdebug.clinic.cases import ClinicCase, load_case
from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.views.notebook_kernel import without_display


@dataclass
class _Session:
    """The open case, and the number of hints that were shown."""

    case: ClinicCase
    hints_shown: int = 0


_session: _Session | None = None


def start(name: str) -> None:
    """Open a case by its name, and print its complaint. Raises SetupError for an unknown name."""
    global _session
    case = load_case(name)
    _session = _Session(case)
    print(f"{case.title} ({case.ward} ward)\n{case.complaint}")


def open_case() -> ClinicCase:
    """Return the open case. Raises SetupError if there is none."""
    if _session is None:
        raise SetupError("clinic has no open case; expected one. Run the first cell of its notebook.")
    return _session.case


def hint() -> None:
    """Print the next hint: where to look, then which probe to use, then which line is at fault; the last one again.

    Raises SetupError without an open case.
    """
    hints = open_case().hints
    assert _session is not None
    _session.hints_shown = min(_session.hints_shown + 1, len(hints))
    print(f"Hint {_session.hints_shown} of {len(hints)}: {hints[_session.hints_shown - 1]}")


@contextmanager
def monitor(debugger: Debugger) -> Iterator[None]:
    """Record your loop for ``check()``, as ``watch()`` does, without showing what it finds."""
    with without_display(), debugger.watch(final_tests=False):
        yield
