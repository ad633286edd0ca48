"""O513: a step updates a parameter twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.gradient_accumulation import DoubleUpdates
from nbdebug.measurements.parameter_coverage import ParameterEntry, format_names
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.setup.setup import optimized_parameters
from nbdebug.source.location import SourceLine, get_location, get_related_lines

_CONSEQUENCES = ("O501", "G410", "T602", "T604", "T605")
_GroupIndices = tuple[tuple[int, int], ...]


@rule("O513", "error", origin="parameters")
def parameter_in_two_groups(
    parameters: list[ParameterEntry],
    optimizers: tuple[torch.optim.Optimizer, ...],
    loop: LoopSummary | NotChecked,
    *,
    least: int = 3,
    share: float = 0.25,
) -> Iterator[Finding]:
    """The optimizers hold a parameter more than once, so one training step updates it repeatedly.

    ## What it does
    Counts, by identity, the occurrences of each parameter in the groups of all optimizers. Twice in one optimizer is an
    error. Once in each of two optimizers is a note, since these may alternate (two phases, or two networks). In a
    watched loop, follows all optimizers that hold parameters of the model, and counts the steps that update some of
    them a second time with no backward pass in between. The place is the line that creates the optimizer
    with all parameters of the other one and more, or else the later creation in the file.

    ## Why it matters
    The second update uses the same gradient again: the learning rate of that parameter is effectively doubled, and with
    momentum or Adam its moments are updated twice per step. Torch raises an error for one parameter in two groups when
    an optimizer is created, and only warns about a parameter that occurs twice in a group; groups that are changed
    later are not checked.

    ## How it is measured
    Exactly: by the identity of the tensors. Tied parameters that are listed once count once. In a loop, at least
    ``least`` = 3 such steps and a ``share`` of a quarter of all steps are needed; a step inside another step, by an
    optimizer that wraps another one, counts as one with it.

    ## How to fix
    Make the groups disjoint, by name or by identity.

    ## When to ignore
    When two optimizers alternate on the same parameters.

    ## References
    Documentation of torch.optim.Optimizer.add_param_group: some parameters appear in more than one parameter group.
    """
    by_groups: dict[tuple[_GroupIndices, bool], list[ParameterEntry]] = defaultdict(list)
    for entry in parameters:
        if entry.parameter.requires_grad and len(entry.groups) > 1:
            is_same_optimizer = len({optimizer for optimizer, _ in entry.groups}) < len(entry.groups)
            by_groups[entry.groups, is_same_optimizer].append(entry)
    if isinstance(loop, LoopSummary):
        reported = {id(entry.parameter) for entries in by_groups.values() for entry in entries}
        repeated = loop.repeated_parameters - reported
        if entries := [entry for entry in parameters if id(entry.parameter) in repeated]:
            yield _repeated_finding(entries)
    for (groups, is_same_optimizer), entries in by_groups.items():
        yield _finding(entries, groups, is_same_optimizer, optimizers)
    if isinstance(loop, LoopSummary) and loop.double_updates.repeated >= max(least, share * loop.double_updates.steps):
        yield _double_update_finding(
            loop, [entry for entry in parameters if id(entry.parameter) in loop.double_updates.shared_parameters]
        )


def _repeated_finding(entries: list[ParameterEntry]) -> Finding:
    """Report parameters that an optimizer of the loop holds more than once."""
    return Finding(
        message=f"An optimizer of your loop holds {format_names(entries)} more than once, so each step updates them "
        "repeatedly with one gradient; expected each parameter once.",
        where=Location(entries[0].module or None, entries[0].name),
        cause="The parameters were added to its groups again while the loop ran.",
        fix=_DISJOINT_GROUPS_FIX,
        evidence={"parameters": [entry.name for entry in entries]},
        explains=_CONSEQUENCES,
    )


def _double_update_finding(loop: LoopSummary, entries: list[ParameterEntry]) -> Finding:
    first = entries[0] if entries else None
    step = loop.lines.get("repeated step") or loop.lines.get("optimizer")
    overlapping = _overlapping_optimizer_line(loop.double_updates)
    related = get_related_lines((step, "a step here repeats the update")) if overlapping else ()
    return Finding(
        message=f"{loop.double_updates.repeated} of {loop.double_updates.steps} steps updated {format_names(entries)} "
        "a second time with the same gradient: two optimizers hold them, and both step after one backward pass.",
        where=get_location(overlapping or step, *((first.module or None, first.name) if first else ())),
        related=related,
        cause="One optimizer was created from a part that contains all parameters of the other one."
        if _is_nested(loop.double_updates)
        else "Both optimizers were created from the same parameters."
        if len({*map(frozenset, _held_parameters(loop.double_updates))}) == 1
        else "Each optimizer was created from the shared part and its own part.",
        fix="Create this optimizer without the parameters that the other one holds."
        if _is_nested(loop.double_updates) and overlapping
        else "Pass the shared part to only one optimizer, or run a separate backward pass before each step.",
        evidence={
            "steps": loop.double_updates.steps,
            "again": loop.double_updates.repeated,
            "parameters": [entry.name for entry in entries],
        },
        explains=_CONSEQUENCES,
    )


def _held_parameters(updates: DoubleUpdates) -> list[set[int]]:
    return [{id(parameter) for parameter in optimized_parameters(optimizer)} for optimizer in updates.optimizers]


def _is_nested(updates: DoubleUpdates) -> bool:
    """Check whether one of two optimizers holds all parameters of the other one and more."""
    held = _held_parameters(updates)
    return len(held) == 2 and (held[0] > held[1] or held[1] > held[0])


def _overlapping_optimizer_line(updates: DoubleUpdates) -> SourceLine | None:
    """Return the line that creates the optimizer which holds the parameters of the other one, too; None if unknown.

    If both hold parameters of their own, or the same ones, that is the line of the later one.
    """
    if len(updates.creation_lines) != 2:
        return None
    if _is_nested(updates):
        held = _held_parameters(updates)
        return updates.creation_lines[held[1] > held[0]]
    known = [line for line in updates.creation_lines if line]
    is_ordered = len(known) == 2 and len({line.file for line in known}) == 1
    return max(known, key=lambda line: line.number) if is_ordered else None


def _finding(
    entries: list[ParameterEntry],
    groups: _GroupIndices,
    is_same_optimizer: bool,
    optimizers: tuple[torch.optim.Optimizer, ...],
) -> Finding:
    rates = [optimizers[optimizer_index].param_groups[group_index].get("lr") for optimizer_index, group_index in groups]
    group_names = " and ".join(
        f"group {group_index} of optimizer {optimizer_index}" for optimizer_index, group_index in groups
    )
    return Finding(
        message=f"The optimizers hold {format_names(entries)} {len(groups)} times: in {group_names}.",
        where=Location(entries[0].module or None, entries[0].name),
        cause="The parts from which the groups were created contain each other, such as the whole model and its head."
        if is_same_optimizer
        else "Both optimizers were created from a part that contains these parameters.",
        fix=_DISJOINT_GROUPS_FIX
        if is_same_optimizer
        else "If both step in one iteration, pass each parameter to only one of them.",
        evidence={"parameters": [entry.name for entry in entries], "places": list(groups), "rates": rates},
        explains=_CONSEQUENCES if is_same_optimizer else (),
        severity=None if is_same_optimizer else "note",
    )


_DISJOINT_GROUPS_FIX = """\
seen = set()
for group in reversed(optimizer.param_groups):   # the last group of a parameter keeps it
    group["params"] = [p for p in dict.fromkeys(group["params"]) if p not in seen]
    seen.update(group["params"])"""


def bad() -> Setup:
    """A head whose group was added to an optimizer that already holds it."""
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.param_groups.append({**optimizer.param_groups[0], "params": list(model[2].parameters())})
    return minimal_setup(model, *points(), torch.nn.CrossEntropyLoss(), optimizers=(optimizer,))


def good() -> Setup:
    """Each parameter in one group."""
    return classifier()
