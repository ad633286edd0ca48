"""Recommendations of a report: what to change first, by the gain to expect and the cost of the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nbdebug.finding import SEVERITIES, Finding, cause_indices, is_code
from nbdebug.result import Result

_EXPERIMENTS = (
    "try_fix",
    "label_effect",
    "ablation",
    "treatments",
    "lr_range",
    "compare_optimizers",
    "batch_size",
    "tune",
)
_COSTS = ("an edit of one place", "some lines of code", "a decision about data or model")


@dataclass(frozen=True)
class _RankedChange:
    """One change: what to do, why, the gain that was measured or is expected, and its cost."""

    action: str
    reason: str
    gain: str
    cost: str


def recommend(findings: Sequence[Finding], results: Mapping[str, Result]) -> list[_RankedChange]:
    """Return recommendations, those with a measured gain first, then by severity, then by cost.

    Findings that are consequences of another one are left out, since its fix removes them.
    """
    causes = cause_indices([finding.to_dict() for finding in findings])
    roots = [finding for finding, above in zip(findings, causes, strict=True) if above is None and finding.fix]
    ranked = sorted(roots, key=_rank)
    of_results = [advice for name in _EXPERIMENTS if name in results and (advice := _of_result(name, results[name]))]
    return [*of_results, *map(_of_finding, ranked)]


def _rank(finding: Finding) -> tuple[int, int, int]:
    return SEVERITIES.index(finding.severity or "note"), not finding.trial, _COSTS.index(_cost(finding))


def _cost(finding: Finding) -> str:
    """Return the cost of a fix by its form: changed lines, code, or a sentence."""
    if finding.changes:
        return _COSTS[0]
    return _COSTS[1] if is_code(finding.fix) else _COSTS[2]


def _of_finding(finding: Finding) -> _RankedChange:
    expected = {"error": "large", "warning": "moderate", "note": "small"}[finding.severity or "note"]
    gain = f"measured, {finding.trial}" if finding.trial else f"{expected} (expected)"
    return _RankedChange(finding.fix, f"{finding.code} {finding.name}: {finding.message}", gain, _cost(finding))


def _of_result(name: str, result: Result) -> _RankedChange | None:
    """Return what an experiment recommends: its code, if it has one, and its headline, which states the gain.

    A trial of a change also has ``helps``, which is whether the interval of its gain excludes zero.
    """
    code = str(getattr(result, "code", "") or "")
    if not code or not getattr(result, "helps", True):
        return None
    headline = str(getattr(result, "headline", "") or result.to_text().partition("\n")[0])
    return _RankedChange(code, f"{name}: {headline}", "measured", _COSTS[1])
