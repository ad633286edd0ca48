"""Rules that explain crashes, and the report of an exception."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import torch
from torch import nn

from nbdebug.crashes import Crash, read_crash
from nbdebug.crashes.cpu_repetition import is_device_assertion, repeat_on_cpu
from nbdebug.crashes.crash_report import CrashReport
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.meta import run_quietly
from nbdebug.crashes.shape_trace import trace_shapes
from nbdebug.crashes.trials import choose_explanation
from nbdebug.exceptions import NotChecked, first_line
from nbdebug.finding import Finding, is_ignored
from nbdebug.report import SkippedRule, rank_findings
from nbdebug.rule_engine import rule_registry
from nbdebug.rule_engine.predictions import CRASH
from nbdebug.views.shape_graph import ShapeTrace

CRASH_FAMILY, CRASH_PACKAGE = "X", "nbdebug.rules.crash"
_ExplainingFunction = Callable[[Crash], "CrashCause | Iterable[CrashCause] | None"]
_Registered = Callable[[Crash | None], Iterator[Finding]]


def crash_rule(code: str, *, explains: tuple[str, ...] = ()) -> Callable[[_ExplainingFunction], _Registered]:
    """Register a function that explains a crash, or returns None, as the rule ``code``.

    Fixes are tried on a copy. A function may return several explanations; the first whose fix runs is reported.
    """

    def register(function: _ExplainingFunction) -> _Registered:
        @functools.wraps(function)
        def explain(crash: Crash | None) -> Iterator[Finding]:
            explanations = function(crash) if crash is not None else None
            if crash is None or explanations is None:
                return
            candidates = [explanations] if isinstance(explanations, CrashCause) else explanations
            if (choice := choose_explanation(crash, candidates)) is not None:
                crash.is_explained = True  # X1099, which the rules run last, explains what no other does
                yield choice[0].to_finding(crash, choice[1], explains)

        return rule_registry.rule(code, "error", prediction=CRASH)(explain)

    return register


def prepare_explanations() -> None:
    """Load the rules, and what torch loads for its first operation without values, so that no crash waits for it."""
    rule_registry.load_family(CRASH_PACKAGE, CRASH_FAMILY)
    run_quietly(nn.LayerNorm(1, device="meta"), [torch.empty(1, 1, 1, device="meta")], {})
    run_quietly(nn.Linear(1, 1, device="meta"), [torch.empty(1, 1, 1, device="meta")], {})


def find_last_error() -> BaseException | None:
    """Return the exception that is being handled, else the last one that nothing handled."""
    handled = sys.exc_info()[1]
    return handled if handled is not None else getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)


def explain_error(error: BaseException | None = None) -> CrashReport:
    """Explain an exception of torch: cause, your line, and the change that makes it run; by default the last one.

    Reads the traceback alone. An exception of another library, and one that is not understood, gives no findings.
    """
    return explain_crash(error if error is not None else find_last_error())


def _read_torch_crash(error: BaseException | None) -> Crash | None:
    """Return the record of an exception of torch, or of the one from which it was raised explicitly."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        try:
            crash = _repeat_device_assertion(error) or read_crash(error)
            if crash is not None and crash.is_from_torch:
                return crash
        except Exception:  # an exception without readable frames
            return None
        error = error.__cause__
    return None


def _repeat_device_assertion(error: BaseException) -> Crash | None:
    """Return the record of the exception that a repetition on the CPU raises; None for other exceptions."""
    crash = read_crash(error) if is_device_assertion(error) else None
    repeated = repeat_on_cpu(crash) if crash is not None else None
    if repeated is None or (crash := read_crash(repeated[0])) is None:
        return None
    crash.repetition = repeated[1]
    return crash


def trace_crash(error: BaseException | None) -> ShapeTrace:
    """Return the calls up to the operation that raised; empty if they are unknown, or the exception is not torch's."""
    crash = _read_torch_crash(error)
    return trace_shapes(crash) if crash is not None else ShapeTrace()


def explain_crash(error: BaseException | None, *, with_trace: bool = True) -> CrashReport:
    """Return the report on an exception, with a finding if its cause is known; nothing is raised, nothing is kept.

    An exception that was raised ``from`` one of torch is explained by that one. ``with_trace=False`` leaves out the
    calls, which take another pass of a copy.
    """
    crash = _read_torch_crash(error)
    if crash is None:
        return CrashReport(subject=f"{type(error).__name__}: {first_line(error)}" if error is not None else "")
    findings: list[Finding] = []
    skipped: list[SkippedRule] = []
    rules = rule_registry.load_family(CRASH_PACKAGE, CRASH_FAMILY)
    for rule in rules:
        try:
            findings += [finding for finding in rule({"crash": crash}) if not is_ignored(finding)]
        except NotChecked as reason:
            skipped.append(SkippedRule(rule.code, rule.name, str(reason)))
        except Exception as failure:
            skipped.append(SkippedRule(rule.code, rule.name, f"the rule itself failed: {first_line(failure)}"))
    step = crash.watched_step
    findings = [replace(finding, where=replace(finding.where, step=step)) for finding in findings]
    return CrashReport(
        findings=rank_findings(findings),
        not_checked=tuple(skipped),
        checked_rules=frozenset(rule.code for rule in rules),
        subject=f"{crash.kind}: {first_line(crash.error)}" + (f" (step {step})" if step is not None else ""),
        trace=trace_shapes(crash) if with_trace else ShapeTrace(),
    )
