"""Run the rules of outputs, losses and labels once for each head of a setup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.finding import Finding
from nbdebug.formatting import join_names
from nbdebug.measurements.heads import HeadMeasurements, HeadSetup
from nbdebug.measurements.registry import Measurements
from nbdebug.rule_engine.rule_registry import Rule
from nbdebug.source.location import SourceLine, add_line

# Rules that judge an output, its loss and its target, whatever else the model returns.
HEAD_RULES = frozenset(
    {
        *("L201", "L202", "L203", "L204", "L205", "L206", "L207", "L208", "L209"),
        *("L210", "L211", "L213", "L214", "L215", "L216", "L217"),
        *("D101", "D102", "D105", "D106", "D110", "D115", "D116", "D119", "D122", "D126", "M307"),
    }
)
# Rules that judge a model by the outputs for changed inputs, whatever the loss and the data.
CALL_RULES = frozenset(
    {
        *("M304", "M305", "M306", "M307", "M309", "M310", "M311"),
        *("M320", "M321", "M322", "M323", "M324", "M326"),
    }
)
# Rules that compare the arguments of a call with the target of its loss.
TARGET_CALL_RULES = frozenset({"D126"})
# A head may have labels for a part of the samples only: one of two domains, or one of several tasks.
_OPTIONS_OF_SEVERAL_HEADS: Mapping[str, Mapping[str, Any]] = {"L214": {"share": 0.8}}


class HeadRules:
    """Runs rules on each head of a setup; a setup with a single output and a single target has no heads."""

    def __init__(self, measurements: Measurements) -> None:
        self._measurements = measurements
        self._heads: list[tuple[HeadSetup, HeadMeasurements]] | None = None

    def check(self, rule: Rule, options: Mapping[str, Any]) -> list[Finding] | None:
        """Return the findings of a rule on all heads; None if it could be checked on none."""
        findings: list[tuple[Finding, HeadSetup]] = []
        is_checked = False
        for head, measurements in self._get_heads() if rule.code in HEAD_RULES else ():
            own_options = {**_OPTIONS_OF_SEVERAL_HEADS.get(rule.code, {}), **options} if head.head else options
            try:
                findings += [(finding, head) for finding in rule(measurements, **own_options)]
                is_checked = True
            except (NotChecked, SetupError):
                continue
        return _name_heads(findings) if is_checked else None

    def _get_heads(self) -> list[tuple[HeadSetup, HeadMeasurements]]:
        if self._heads is None:
            try:
                setups = self._measurements["heads"]
            except (NotChecked, SetupError):
                setups = []
            self._heads = [(head, HeadMeasurements(self._measurements, head)) for head in setups]
        return self._heads


def _name_heads(findings: list[tuple[Finding, HeadSetup]]) -> list[Finding]:
    """Return findings that name their heads. One that several share, as of the loop, is reported once."""
    groups: dict[tuple[object, ...], list[tuple[Finding, HeadSetup]]] = {}
    for finding, head in findings:
        line = head.line if finding.code.startswith("L") else None
        key = (finding.message, finding.where, finding.cause, finding.fix, line)
        groups.setdefault(key, []).append((finding, head))
    return [_name_group(group) for group in groups.values()]


def _name_group(group: list[tuple[Finding, HeadSetup]]) -> Finding:
    """Return the finding of one head, or of several that share it."""
    finding, first = group[0]
    named = name_head(finding, first.head, first.line)
    heads = list(dict.fromkeys(head.head for _, head in group))
    if len(heads) == 1:
        return named
    names = join_names(heads)
    return replace(named, message=f"Heads {names}: {finding.message}", evidence={**named.evidence, "head": names})


def name_head(finding: Finding, name: str, line: SourceLine | None) -> Finding:
    """Return a finding that names its head, with the line of the head's loss if it judges a loss and has no line."""
    if finding.where.line is None and line is not None and finding.code.startswith("L"):
        finding = replace(finding, where=add_line(finding.where, line))
    if not name:
        return finding
    return replace(finding, message=f"Head {name}: {finding.message}", evidence={**finding.evidence, "head": name})
