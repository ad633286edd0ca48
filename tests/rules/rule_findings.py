"""Findings of a single rule, and builders of setups to check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.report import Report, merge_reports
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup


def rule_findings(setup: Setup, code: str) -> list[Finding]:
    """Return the findings of one rule in a checkup that runs only this rule; no rule may break."""
    report = Debugger.of(setup).checkup(select=[code])
    assert broken_rules(report) == []
    return list(report)


def rule_faults(setup: Setup, code: str) -> list[Finding]:
    """Return the errors and warnings of one rule."""
    return [finding for finding in rule_findings(setup, code) if finding.severity != "note"]


def fault_messages(setup: Setup, code: str) -> list[str]:
    """Return the errors and warnings of one rule as text."""
    return [str(finding) for finding in rule_faults(setup, code)]


def checkup_findings(setup: Setup, code: str) -> list[Finding]:
    """Return the findings of one rule in a checkup that runs all rules; the rule may not break."""
    torch.manual_seed(0)
    debugger = Debugger.of(setup)
    assert code not in broken_rules(debugger.checkup())
    return own_findings(debugger, code)


def own_findings(debugger: Debugger, code: str) -> list[Finding]:
    """Return all findings of one rule as it states them, also beside one that may be their cause."""
    return [finding for finding in merge_reports(debugger.reports.values()) if finding.code == code]


def broken_rules(report: Report) -> list[str]:
    """Return the codes of the rules that raised an unexpected error."""
    return [skipped.code for skipped in report.not_checked if "the rule itself failed" in skipped.why]


def setup_builder(
    model: nn.Module, x: Tensor | None = None, y: Tensor | None = None, loss_fn: Callable[..., Any] | None = None
) -> Callable[[], Setup]:
    """Return a function that builds a setup of ``model``, by default with ``points()`` and cross-entropy."""
    points_x, points_y = points()
    data = points_x if x is None else x, points_y if y is None else y
    return lambda: minimal_setup(model, *data, loss_fn or nn.CrossEntropyLoss())
