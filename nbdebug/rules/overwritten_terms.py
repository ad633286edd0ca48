"""Terms of several layers of which a loop keeps only the last one."""

from __future__ import annotations

from dataclasses import replace

from nbdebug.finding import Finding
from nbdebug.measurements.overwritten_outputs import OverwrittenOutputs
from nbdebug.source.location import get_location

_CONSEQUENCES = ("G403", "G409", "G415", "T609", "T614")


def overwritten_finding(overwritten: OverwrittenOutputs) -> Finding:
    """Report terms of layers that never reach the loss."""
    return Finding(
        message=_describe(overwritten),
        where=get_location(overwritten.line),
        cause=_CAUSE,
        fix=_fix(overwritten),
        evidence=_evidence(overwritten),
        explains=_CONSEQUENCES,
        severity="warning",
        aspect="layers",
    )


def with_overwritten_cause(finding: Finding, overwritten: OverwrittenOutputs | None) -> Finding:
    """Return the finding on a loss without a bound with the terms that it lacks as its cause, if there are any."""
    if overwritten is None:
        return finding
    return replace(
        finding,
        message=f"{finding.message} {_describe(overwritten)}",
        where=replace(get_location(overwritten.line), step=finding.where.step),
        cause=_CAUSE,
        fix=_fix(overwritten),
        edits=(),
        evidence={**finding.evidence, **_evidence(overwritten)},
        explains=(*finding.explains, "L214:layers"),
    )


_CAUSE = "Each layer overwrites the term of the layer before, so that the loss contains only the last one."


def _describe(overwritten: OverwrittenOutputs) -> str:
    name = f" ({overwritten.variable})" if overwritten.variable else ""
    return (
        f"Output {overwritten.position + 1} of {overwritten.kind}{name} reaches the loss from the last of "
        f"{overwritten.calls} calls only. The loss does not depend on those of the other {overwritten.calls - 1}."
    )


def _fix(overwritten: OverwrittenOutputs) -> str:
    return f"total = total + {overwritten.variable or 'term'}   # after each layer, from total = 0.0 before the first"


def _evidence(overwritten: OverwrittenOutputs) -> dict[str, object]:
    return {
        "calls": overwritten.calls,
        "output": overwritten.position + 1,
        "lost": overwritten.calls - 1,
        "slope": overwritten.slope,
    }
