"""R905: a kept copy shares storage with the live model, or misses its buffers."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import nn

from nbdebug.evidence.kept_states import KeptState
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.graph.source import where_of
from nbdebug.loop import Loop
from nbdebug.loop.reloads import Reloads
from nbdebug.loop.shadows import Shadow
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup


@rule("R905", "error")
def aliased_state(kept_states: list[KeptState] | NotChecked, loop: Loop | NotChecked) -> Iterator[Finding]:
    """A kept copy of the weights is not a copy: it lies in the memory of the live model.

    ## What it does
    Looks for states and modules with the names of all parameters of the model: in ``extra_state``, in attributes of
    the model, and among the variables of the notebook. It compares where their tensors lie. In a loop that is watched
    it does so with each state that is loaded into the model or a part of it, and looks at copies of the model among the
    variables of the functions that the loop runs in.

    ## Why it matters
    ``model.state_dict()`` gives the live tensors themselves. Kept as the best weights, or as the start of each fold, it
    changes with every step, and what is restored from it is what is there already. An average or a target network that
    shares memory never differs from the model.

    ## How it is measured
    Exactly: by the address of the memory. A variable of the notebook may be there to be looked at only, so that it
    draws a note; so does a copy that has all parameters and lacks the running statistics. A copy whose weights move
    without gradients while its running statistics all stand still, and those of the model do not, is a warning, but for
    torch's own ``AveragedModel`` and where ``update_bn`` is called.

    ## How to fix
    Copy the tensors when they are kept.

    ## When to ignore
    When the state is only looked at, or written to a file at once.

    ## References
    PyTorch tutorial on saving and loading models: state_dict() returns references, so the best state must be copied.
    """
    shadows = loop.shadows if isinstance(loop, Loop) else ()
    yield from map(average, shadows)
    if isinstance(loop, Loop) and loop.reloads.own:
        yield reloaded(loop.reloads)
    elif not shadows and isinstance(kept_states, NotChecked):
        raise kept_states
    for state in [] if isinstance(kept_states, NotChecked) else kept_states:
        if state.shared:
            yield alias(state)
        elif state.missing:
            yield partial_copy(state)


def reloaded(reloads: Reloads) -> Finding:
    """A state that is loaded into the tensors that it consists of."""
    return Finding(
        message=f"{reloads.own} of {reloads.count} calls to load_state_dict were given the live tensors themselves; "
        "expected 0: what was loaded is what was there already.",
        where=where_of(reloads.line, None, reloads.first),
        cause="state_dict() gives the tensors themselves, not copies; or the copy of the network is the network.",
        fix="best = copy.deepcopy(model.state_dict())   # or target = copy.deepcopy(network)",
        evidence={"loaded": reloads.count, "own": reloads.own},
        explains=("R904",),
    )


def average(shadow: Shadow) -> Finding:
    """An average of the weights with the running statistics of the copy that it began as."""
    first = ", ".join(shadow.statistics[:3])
    return Finding(
        message=f"The weights of {shadow.name}, a copy of the model, move from step to step, and its running "
        f"statistics ({first}) are what they were: in eval mode its weights meet the statistics of other weights.",
        where=Where(parameter=shadow.statistics[0]),
        cause="The average goes through parameters(), which leaves the buffers out.",
        fix=f"for kept, live in zip({shadow.name}.buffers(), model.buffers()):\n"
        "    kept.copy_(live)   # after each update",
        evidence={"copy": shadow.name, "statistics": list(shadow.statistics[:8])},
        severity="warning",
    )


def alias(state: KeptState) -> Finding:
    """A state that is the live one."""
    return Finding(
        message=f"{len(state.shared)} of {state.count} tensors of {state.name} lie in the memory of the live model; "
        "expected 0: every step changes them too.",
        where=Where(parameter=state.shared[0]),
        cause="state_dict() and named_parameters() give the tensors themselves, not copies.",
        fix="best = copy.deepcopy(model.state_dict())",
        evidence={"state": state.name, "shared": list(state.shared[:8])},
        explains=("R904",),
        severity=None if state.given else "note",
    )


def partial_copy(state: KeptState) -> Finding:
    """A state without running statistics."""
    return Finding(
        message=f"{state.name} has all parameters and lacks {len(state.missing)} running statistics; expected 0: "
        "in eval mode its weights meet the statistics of other weights.",
        where=Where(parameter=state.missing[0]),
        cause="It was made of named_parameters(), which leaves the buffers out.",
        fix="best = copy.deepcopy(model.state_dict())   # parameters and buffers",
        evidence={"state": state.name, "missing": list(state.missing[:8])},
        severity="note",
    )


def keeping(deep: bool) -> Setup:
    """A program that keeps its first weights beside the model."""
    model: nn.Module = network(3)
    state = copy.deepcopy(model.state_dict()) if deep else model.state_dict()
    optimizers = (torch.optim.Adam(model.parameters(), lr=1e-2),)
    return program(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers, extra_state=({"best": state},))


def bad() -> Setup:
    """The live state, kept as the best one."""
    return keeping(deep=False)


def good() -> Setup:
    """A deep copy of it."""
    return keeping(deep=True)
