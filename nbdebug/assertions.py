"""A checkup as an assertion, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.finding import SEVERITIES
from nbdebug.functional.training import checkup
from nbdebug.options import check_option_names
from nbdebug.report import Report

if TYPE_CHECKING:
    from nbdebug.options import Budget
    from nbdebug.rule_engine.rule_registry import Options

_AllowedSeverity = Literal["note", "warning"]


class Unhealthy(AssertionError):
    """The text of a report with faults; ``report`` holds it as data."""

    def __init__(self, report: Report) -> None:
        super().__init__(f"\n{report}")
        self.report = report


@check_option_names()
def assert_healthy(
    model: nn.Module,
    train_loader: Any,
    val_loader: Any = None,
    *,
    allow: _AllowedSeverity = "note",
    loss_fn: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    scheduler: Any = None,
    task: str | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    forward: Callable[..., Any] | None = None,
    unpack: Callable[[Any], Any] | None = None,
    step_fn: Callable[[Any], Any] | None = None,
    device: torch.device | str | None = None,
    extra_state: Iterable[Any] = (),
    budget: Budget = "standard",
    select: Iterable[str] | None = None,
    ignore: Iterable[str] = (),
    options: Options | None = None,
) -> Report:
    """Run a checkup, and raise Unhealthy (an AssertionError with the report) for a finding worse than ``allow``.

    The other options are those of ``Debugger`` and ``Debugger.checkup``. Returns the report. Raises SetupError for a
    setup that cannot be run.
    """
    arguments = {name: value for name, value in locals().items() if name != "allow"}
    if allow not in ("note", "warning"):
        raise SetupError(f"allow is {allow!r}; expected 'note' or 'warning'. Leave it out for 'note'.")
    report = checkup(**arguments)
    if report.pass_error:
        raise SetupError(report.pass_error)
    worse_severities = SEVERITIES[: SEVERITIES.index(allow)]
    if any(finding.severity in worse_severities for finding in report):
        raise Unhealthy(report)
    return report
