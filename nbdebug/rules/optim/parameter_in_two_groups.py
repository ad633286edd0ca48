"""O513: a parameter that each step updates twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import torch

from nbdebug.evidence.parameters import Entry, listed
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.graph.source import where_of
from nbdebug.loop import Loop
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup

Places = tuple[tuple[int, int], ...]


@rule("O513", "error")
def parameter_in_two_groups(
    parameters: list[Entry],
    optimizers: tuple[torch.optim.Optimizer, ...],
    loop: Loop | NotChecked,
    *,
    least: int = 3,
    share: float = 0.25,
) -> Iterator[Finding]:
    """A parameter is held more than once, so one step of training updates it more than once.

    ## What it does
    Counts, by identity, the places of each parameter in the groups of all optimizers. Twice in one optimizer is an
    error. Once in each of two optimizers is a note, since these may take turns (two phases, or two players). In a loop
    that is watched it follows all optimizers that hold parameters of the model, and counts the steps that move some a
    second time with no backward pass in between.

    ## Why it matters
    The second update uses the same gradient again: the rate of that parameter is twice what it seems, and with momentum
    or Adam its moments are advanced twice a step. Torch refuses one parameter in two groups when an optimizer is made,
    and only warns of one that stands twice in a group; groups that are changed later are not looked at.

    ## How it is measured
    Exactly: by the identity of the tensors. Tied parameters that are listed once count once. In a loop it takes
    ``least`` = 3 such steps and a ``share`` of a quarter of all; a step that is made inside another one, as by an
    optimizer that wraps another, counts as one with it.

    ## How to fix
    Make the groups disjoint, by name or by identity.

    ## When to ignore
    When two optimizers take turns on the same parameters.

    ## References
    Documentation of torch.optim.Optimizer.add_param_group: some parameters appear in more than one parameter group.
    """
    several: dict[tuple[Places, bool], list[Entry]] = defaultdict(list)
    for one in parameters:
        if one.parameter.requires_grad and len(one.groups) > 1:
            within = len({optimizer for optimizer, _ in one.groups}) < len(one.groups)
            several[one.groups, within].append(one)
    for (places, within), entries in several.items():
        yield finding(entries, places, within, optimizers)
    if isinstance(loop, Loop) and loop.twice.again >= max(least, share * loop.twice.steps):
        yield stepped_twice(loop, [one for one in parameters if id(one.parameter) in loop.twice.shared])


def stepped_twice(loop: Loop, entries: list[Entry]) -> Finding:
    """Parameters that two optimizers of a loop move by one gradient."""
    first = entries[0] if entries else None
    return Finding(
        message=f"{loop.twice.again} of {loop.twice.steps} steps moved {listed(entries)} a second time by the same "
        "gradient; expected 0: two optimizers hold them, and both step after one backward pass.",
        where=where_of(loop.lines.get("optimizer"), *((first.module or None, first.name) if first else ())),
        cause="Each optimizer was made from the shared part and a part of its own.",
        fix="# give the shared part to one optimizer only, or run a backward pass of its own before each step",
        evidence={"steps": loop.twice.steps, "again": loop.twice.again, "parameters": [one.name for one in entries]},
        explains=("O501", "G410", "T602", "T604", "T605"),
    )


def finding(
    entries: list[Entry], places: Places, within: bool, optimizers: tuple[torch.optim.Optimizer, ...]
) -> Finding:
    """Parameters that stand in the same several places."""
    rates = [optimizers[i].param_groups[j].get("lr") for i, j in places]
    said = " and ".join(f"group {j} of optimizer {i}" for i, j in places)
    return Finding(
        message=f"Held {len(places)} times, expected once: {listed(entries)}, in {said}.",
        where=Where(entries[0].module or None, entries[0].name),
        cause="The groups overlap." if within else "Two optimizers hold the same parameters.",
        fix=DISJOINT if within else "# if both step in one iteration, give each parameter to one of them only",
        evidence={"parameters": [one.name for one in entries], "places": list(places), "rates": rates},
        explains=("O501", "G410", "T602", "T604", "T605") if within else (),
        severity=None if within else "note",
    )


DISJOINT = """\
head = set(model.head.parameters())
groups = [{"params": [p for p in model.parameters() if p not in head]}, {"params": list(head), "lr": 1e-3}]"""


def bad() -> Setup:
    """A head whose group was added to an optimizer that holds it already."""
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.param_groups.append({**optimizer.param_groups[0], "params": list(model[2].parameters())})
    return program(model, *points(), torch.nn.CrossEntropyLoss(), optimizers=(optimizer,))


def good() -> Setup:
    """Each parameter in one group."""
    return classifier()
