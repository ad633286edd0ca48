"""X1021: a tensor that the backward pass needs has been changed in place."""

from __future__ import annotations

import re

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.loss_graphs import changed_nodes, consumers
from nbdebug.crashes.statements import InPlaceChange, find_carried_state, find_in_place_changes
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.crash.backward_of_many_values import loss_tensor
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup

_PARAMETER_NODES = ("TBackward0", "AsStridedBackward0", "AccumulateGrad", "TransposeBackward0")


@crash_rule("X1021")
def changed_in_place(crash: Crash) -> CrashCause | None:
    """A tensor that the backward pass needs was changed in place after it was saved.

    ## What it does
    Finds the node of the graph whose saved tensor has changed, the operation that took its output next, and the
    statement of the user's code that does this operation in place.

    ## Why it matters
    The backward pass cannot run: the value that the gradient needs no longer exists.

    ## How it is measured
    Exactly, by the versions of the saved tensors in the graph behind the loss. The statement is chosen among the
    in-place changes of the user's code by the operation.

    ## How to fix
    Write the result to a new tensor: ``x = x + 1`` instead of ``x += 1``, or change a ``clone()``. A parameter that
    ``optimizer.step()`` has changed means that a graph of an earlier step is used: detach what the steps share.

    ## When to ignore
    Never: the gradient would be wrong.

    ## References
    Documentation of torch.autograd, in-place correctness checks.
    """
    loss = loss_tensor(crash)
    if not isinstance(loss, Tensor) or "modified by an inplace operation" not in crash.message:
        return None
    changed = changed_nodes(loss)
    names = [type(node).__name__ for node in changed]
    shape = re.search(r"\[torch\.\w+ (\[[^\]]*\])\]", crash.message)
    text = f" of shape {shape[1]}" if shape else ""
    made = re.search(r"output \d+ of (\w+)", crash.message)
    maker = made[1] if made else (names[0] if names else "an operation")
    message = f"A tensor{text}, the output of {maker}, was changed in place after the graph had saved it."
    if maker in _PARAMETER_NODES or made is None:
        state = find_carried_state(crash)
        if state is not None:
            cause = (
                f"optimizer.step() has changed the weights in place, and {state.name} still has the graph of the step "
            )
            cause += "before, which needs the old ones: detach it."
            return CrashCause(message, cause, edits=state.edits, line=state.line)
    used = [name for node in changed for name in (type(node).__name__, *consumers(loss, node))]
    change = _choose(crash, [maker, *used])
    if change is None:
        cause = "A parameter is changed between the forward and the backward pass, or a tensor is written to."
        return CrashCause(message, cause, "x = x + 1  # instead of x += 1, in the code before the loss")
    cause = f"{change.subject} is changed in place in line {change.statement.lineno}: {change.line.text.strip()}"
    return CrashCause(message, cause, edits=change.edits, line=change.line)


def _choose(crash: Crash, operations: list[str]) -> InPlaceChange | None:
    """Return the in-place change that fits the operations of the graph best."""
    candidates = find_in_place_changes(crash)
    own = [change for change in candidates if _is_in_user_function(change)]
    words = " ".join(operations).lower()

    def rank(change: InPlaceChange) -> tuple[bool, bool, int]:
        name = change.operation.lower().replace("_", "")
        is_named = name in words.replace("_", "") or (change.operation == "CopySlices" and "copyslices" in words)
        is_counter = change.subject.split(".")[-1] in (
            "total",
            "running_loss",
            "count",
            "step",
            "correct",
            "epoch_loss",
        )
        return (is_counter, not is_named, change.statement.lineno)

    return min(own, key=rank, default=None)


def _is_in_user_function(change: InPlaceChange) -> bool:
    return not change.subject.startswith(("optimizer", "self.optimizer"))


def bad() -> Setup:
    """A step that changes the output of a sigmoid."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        scores = setup.model(batch[0]).sigmoid()
        scores += 1
        loss = nn.functional.cross_entropy(scores, batch[1])
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step without in-place changes."""
    return classifier()
