"""What the summary says in words: of the model, of shapes, and of who trains what."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from nbdebug.portrait import Portrait
from nbdebug.tools.summary.rates import Group
from nbdebug.tools.summary.result import Row, Summary
from nbdebug.views.table import percent

MOST_SHAPES = 3
MOST_GROUPS = 4


def subject(result: Summary) -> str:
    """The model in one line."""
    whole = result.whole
    share = f"{percent(whole.share)} trainable" if whole.share is not None else ""
    optimizer = trained(whole, result) if result.optimizers else "no optimizer"
    parts = [whole.name, f"{whole.parameters:,} parameters", share, mode(result), optimizer]
    return " · ".join(filter(None, [*parts, f"batch {result.batch}" if result.batch else ""]))


def mode(result: Summary) -> str:
    """Train mode, eval mode, or how many of the submodules are in train mode."""
    training = sum(row.training for row in result.rows)
    if training in (0, len(result.rows)):
        return f"{'train' if training else 'eval'} mode"
    return f"{training} of {len(result.rows)} modules in train mode"


def stop(result: Summary) -> str:
    """Why the forward pass ended early."""
    if not result.stopped:
        return ""
    raised = next((row.path or row.name for row in result.rows if row.status == "raised"), None)
    return f"The forward pass stopped{f' in {raised}' if raised else ''}: {result.stopped}"


def remark(result: Summary) -> str:
    """What is known of findings beside those in the table."""
    if not result.checked:
        return "No tool has looked for faults yet; dbg.checkup() does, and a summary after it shows what it found."
    if not result.unplaced:
        return ""
    codes = ", ".join(dict.fromkeys(one.code for one in result.unplaced))
    return f"Findings that name no module: {codes}; dbg.findings has them."


def kind_of(row: Row) -> str:
    """The class of a submodule, where it stands elsewhere too, and how often it ran."""
    kind = row.kind if row.path else ""
    same = f"= {row.same_as or 'the model'}" if row.same_as is not None else ""
    often = f"×{row.calls}" if row.calls > 1 and row.same_as is None else ""
    return " ".join(filter(None, [kind, same, often]))


def shapes(portraits: Sequence[Portrait]) -> str:
    """The shapes of some tensors, the first three, or a dash for none."""
    found = [(name, len(list(same))) for name, same in groupby(map(shape, portraits))]
    said = [name if count == 1 else f"{name} ×{count}" for name, count in found]
    rest = len(said) - MOST_SHAPES
    return ", ".join(said[:MOST_SHAPES]) + (f", +{rest}" if rest > 0 else "") or "–"


def shape(one: Portrait) -> str:
    """The shape of a tensor."""
    return "nested" if one.shape is None else str([*one.shape])


def trained(row: Row, result: Summary) -> str:
    """The groups that hold the parameters, and how many are in none."""
    known = spoken(row.groups)
    missing = f"{row.loose:,} in no group" if row.loose and result.optimizers else ""
    return "; ".join(filter(None, [known, missing]))


def spoken(groups: Sequence[Group]) -> str:
    """One group as it is; several of one optimizer together, with the range of their rates."""
    owners = dict.fromkeys(one.owner for one in groups)
    return "; ".join(together([one for one in groups if one.owner == owner]) for owner in owners)


def together(groups: Sequence[Group]) -> str:
    """Some groups of one optimizer, by their numbers where these are few."""
    if len(groups) == 1:
        return str(groups[0])
    numbers = ", ".join(str(one.group) for one in groups) if len(groups) <= MOST_GROUPS else f"{len(groups)} in all"
    rates = sorted({one.rate for one in groups if one.rate is not None})
    ends = " to ".join(f"{rate:.4g}" for rate in dict.fromkeys([*rates[:1], *rates[-1:]]))
    return f"{groups[0].owner}, groups {numbers}" + (f", lr {ends}" if ends else "")
