"""O511: gradients of several batches accumulate for each step, and the loss is not divided by their number."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.accumulated_losses import GradientAccumulation
from nbdebug.rule_engine.loop_edits import divide_loss
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine, get_location

_MIN_DIVISOR = 3  # one half twice is also the usual factor of a squared error, divided once
_FACTOR_TOLERANCE = 0.02
_CONSEQUENCES = (
    *("O501", "O508:limit", "G401", "G402", "G404", "G410", "G415", "M306", "M307"),
    *("T601", "T602", "T604", "T605", "T606", "T607", "T608", "T610", "E709"),
)


@rule("O511", "warning")
def accumulation_unscaled(loop: LoopSummary, *, least: int = 3, share: float = 0.5) -> Iterator[Finding]:
    """Gradients of several batches accumulate for each step, and no loss is divided by their number.

    ## What it does
    Counts the backward passes that reach the parameters of an optimizer between two of its steps, and measures the
    weight with which each loss enters its backward pass.

    ## Why it matters
    The sum over k batches is k times the gradient of one large batch: the effective learning rate is k times the
    configured one, gradient clipping acts k times as strongly, and a run that was tuned without accumulation diverges.

    ## How it is measured
    Exactly, in the inspected steps: at least ``least`` = 3, of which more than a ``share`` of one half took two or more
    backward passes of the same line, each with its own batch from the training loader or with other rows of one, of
    losses that nothing divided and that are not sums over samples. Gradients that the loop divides afterwards do not
    count. Optimizers that are invariant to a constant factor, such as Adam, give a note,
    unless the gradient norm is clipped. If the losses of three or more batches each enter with one over the square of
    their number, or with one over their number and the gradients are then divided by it again, they are divided twice.

    ## How to fix
    ``(loss / k).backward()``.

    ## When to ignore
    When the learning rate was chosen for the sum.

    ## References
    Goyal et al. 2017, arXiv:1706.02677, section 3: computing the loss of a batch in parts, and its normalization.
    """
    sums = loop.accumulation
    if sums.checked_steps < least:
        raise NotChecked(f"only {sums.checked_steps} steps of your loop were inspected; at least {least} are needed")
    if _is_divided_twice(loop, least, share):
        yield _divided_twice_finding(sums)
        return
    if sums.undivided_steps < least or sums.undivided_steps <= share * sums.checked_steps:
        return
    if _are_gradients_divided(loop, sums.passes, least):
        return
    summed, whole = ("parts of a batch", "the whole") if sums.are_parts else ("batches", "one large")
    is_affected = not sums.adaptive or loop.clipping.calls > 0
    yield Finding(
        message=f"In {sums.undivided_steps} of {sums.checked_steps} inspected steps, the gradients of {sums.passes} "
        f"{summed} accumulate without dividing the loss: "
        f"each step uses {sums.passes} times the gradient of {whole} batch.",
        where=get_location(_loss_line(loop)),
        cause="backward() adds to the gradients instead of averaging them.",
        fix=f"(loss / {sums.passes}).backward()",
        edits=divide_loss(sums.line, sums.passes),
        evidence={"looked at": sums.checked_steps, "summed up": sums.undivided_steps, "batches": sums.passes},
        explains=_CONSEQUENCES,
        severity=None if is_affected else "note",
    )


def _loss_line(loop: LoopSummary) -> SourceLine | None:
    """Return the line of the backward pass, or that of the loss that its function receives."""
    line = loop.accumulation.line
    return (loop.lines.get("received root") if line == loop.lines.get("backward") else None) or line


def _is_divided_twice(loop: LoopSummary, min_steps: int, share: float) -> bool:
    """Check whether the loss is divided twice by the number of batches, or the loss and the gradients are."""
    sums = loop.accumulation
    if sums.divided_passes < _MIN_DIVISOR:
        return False
    if sums.twice_divided_steps >= max(min_steps, share * sums.checked_steps):
        return True
    is_common = _are_gradients_divided(loop, sums.divided_passes, min_steps)
    return is_common and sums.divided_steps >= max(min_steps, share * sums.checked_steps)


def _are_gradients_divided(loop: LoopSummary, divisor: int, min_steps: int) -> bool:
    """Check whether the loop divides all gradients by a number before the step."""
    pairs = zip(loop.gradient_changes.norms_before, loop.gradient_changes.norms_after, strict=True)
    factors = [after / before * divisor for before, after in pairs if before > 0]
    return len(factors) >= min_steps and all(abs(factor - 1) < _FACTOR_TOLERANCE for factor in factors)


def _divided_twice_finding(sums: GradientAccumulation) -> Finding:
    count, passes = sums.twice_divided_steps or sums.divided_steps, sums.divided_passes
    return Finding(
        message=f"In {count} of {sums.checked_steps} inspected steps, the gradients of {passes} batches are divided "
        f"twice by {passes}: each step uses 1/{passes} of the gradient of one large batch; expected the whole.",
        where=get_location(sums.line),
        cause="The loss is divided twice, or the loss and then the gradients.",
        fix=f"(loss / {passes}).backward()   # once, and no division of the gradients",
        evidence={"looked at": sums.checked_steps, "divided twice": count, "batches": passes},
        explains=("O502", "G409", "T601", "T606", "T614"),
        severity="note" if sums.adaptive else None,
    )


def bad() -> Setup:
    """Three classes and plain SGD."""
    model = network(3)
    optimizers = (torch.optim.SGD(model.parameters(), lr=0.1),)
    return minimal_setup(model, *points(), torch.nn.CrossEntropyLoss(), optimizers=optimizers)


def bad_loop(setup: Setup, divisor: int = 1) -> None:
    """Step after every second batch."""
    for _ in range(4):
        for index, (x, y) in enumerate(setup.train_loader):
            loss = setup.loss_fn(setup.model(x), y)  # type: ignore[misc]
            (loss / divisor if divisor > 1 else loss).backward()
            if index % 2:
                setup.optimizers[0].step()
                setup.optimizers[0].zero_grad()


def good() -> Setup:
    """The same setup."""
    return bad()


def good_loop(setup: Setup) -> None:
    """Step after every second batch, with half of each loss."""
    bad_loop(setup, divisor=2)
