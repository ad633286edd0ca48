"""A checkup as an assertion, for pytest and for CI."""

from __future__ import annotations

from typing import Any, Literal

from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.finding import SEVERITIES
from nbdebug.one_call import checkup
from nbdebug.report import Report

Allowed = Literal["note", "warning"]


class Unhealthy(AssertionError):
    """What a checkup found, as text; ``report`` has it as data."""

    def __init__(self, report: Report) -> None:
        super().__init__(f"\n{report}")
        self.report = report


def assert_healthy(
    model: nn.Module, train_loader: Any, val_loader: Any = None, *, allow: Allowed = "note", **given: Any
) -> Report:
    """The report of a checkup that found nothing graver than ``allow``; takes what ``checkup`` takes.

    Raises Unhealthy, an AssertionError, with the whole report where something graver was found, and SetupError for a
    set-up that cannot be run.
    """
    if allow not in ("note", "warning"):
        raise SetupError(f"allow is {allow!r}; expected 'note' or 'warning'. Leave it out for 'note'.")
    report = checkup(model, train_loader, val_loader, **given)
    if report.unmet:
        raise SetupError(report.unmet)
    graver = SEVERITIES[: SEVERITIES.index(allow)]
    if any(one.severity in graver for one in report):
        raise Unhealthy(report)
    return report
