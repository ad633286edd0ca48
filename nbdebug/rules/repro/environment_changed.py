"""R903: versions, hardware, settings or data differ from an earlier run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.tools.provenance import ProgramSnapshot, SnapshotChanges

_MATTER = ("data", "config", "versions", "hardware", "settings")  # in the order in which they are listed
_MAX_LISTED = 4


@rule("R903", "warning", affects_learning=False)
def environment_changed(changes: SnapshotChanges) -> Iterator[Finding]:
    """Versions, hardware, settings, configuration or data differ from the run with which this one is compared.

    ## What it does
    Reads the result of ``dbg.changes_since(before)``: the facts in which two snapshots differ. Code that was changed is
    part of that result, but no fault.

    ## Why it matters
    A difference between two runs is put down to the idea that was tried. If another version, another number of threads
    or other data came with it, that may be the cause.

    ## How it is measured
    Exactly: each fact of the snapshot taken now is compared with that of the earlier one. The fingerprint of the data
    is a sum of hashes of samples, so their order does not count. Packages that only one environment has do not count.

    ## How to fix
    Install the versions of the earlier run, restore its settings and its data, or run the earlier program again here.

    ## When to ignore
    When the change is the subject of the comparison.

    ## References
    Pineau et al. 2021, Improving reproducibility in machine learning research, arXiv:2003.12206.
    """
    relevant = [c for c in changes.changes if c.section in _MATTER and not (c.section == "versions" and c.is_one_sided)]
    relevant.sort(key=lambda change: _MATTER.index(change.section))
    if not relevant:
        return
    listed = [f"{c.name} ({c.section}): {c.before[:80]} → {c.after[:80]}" for c in relevant[:_MAX_LISTED]]
    more = f", and {len(relevant) - _MAX_LISTED} more" if len(relevant) > _MAX_LISTED else ""
    packages = [f"{c.name}=={c.before}" for c in relevant if c.section == "versions" and c.name != "python"]
    yield Finding(
        message=f"These facts differ from the earlier run: {'; '.join(listed)}{more}.",
        cause="The two runs do not differ in the code alone, so a difference of their results may come from here.",
        fix=f"Install the earlier versions: {' '.join(packages[:6])}."
        if packages
        else "Restore the earlier values, or run the earlier program again in this environment.",
        evidence={"changes": [vars(change) for change in relevant[:20]]},
    )


def older(snapshot: ProgramSnapshot) -> ProgramSnapshot:
    """Return a snapshot as an earlier one with another version of torch."""
    return replace(snapshot, versions={**snapshot.versions, "torch": "2.0.0"})


def bad() -> Setup:
    """A program that is compared with an ``older`` snapshot."""
    return classifier()


def good() -> Setup:
    """A program that is compared with a snapshot of itself."""
    return classifier()
