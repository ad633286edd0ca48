"""T603: the loss of a running loop is NaN or Inf."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.replay import Replay
from nbdebug.rules.loops import train
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup

SPAN = 20  # losses before the first that was not finite, which are told
SLOWER = "optimizer.param_groups[0]['lr'] /= 10   # or clip_grad_norm_(model.parameters(), 1.0) before the step"
CHECK = "# the gradient of the step before was finite: look at the optimizer's rate and eps, and at what writes weights"
AGAIN = "# watch it again with no budget=: of the step in which it began only the loss was kept"
ASK = "assert loss.isfinite(), 'stop before the step'   # before backward(), to keep the weights"


@rule("T603", "error")
def non_finite_loss(record: Record, incident: Replay | NotChecked | None, *, growth: float = 1e3) -> Iterator[Finding]:
    """The loss is NaN or Inf, since when, and what began it.

    ## What it does
    Looks for steps of your loop whose loss was NaN or Inf. Where the pass of the first one could be kept, it was run
    again from the same batch, weights and random state; the operation and the line that this names are told.

    ## Why it matters
    The step that follows makes every weight that the gradient reaches NaN. Nothing is learned from then on, however
    long the run goes on.

    ## How it is measured
    On the loss of every step. A step that a GradScaler left out is none. If the loss had grown by a factor of
    ``growth`` = 1,000 before, or the largest weight had, the run had diverged, and the operation that overflowed at
    last is not to blame.

    ## How to fix
    Mend the operation that is named. After a divergence: a lower learning rate, a warm-up, or a limit on the norm of
    the gradient. Then start from a checkpoint of before that step, since the weights are lost.

    ## When to ignore
    A single Inf of a loss that is masked out afterwards, if the gradient is known to be finite.

    ## References
    IEEE 754; I. Goodfellow, Y. Bengio and A. Courville, Deep Learning (2016), section 8.2.4, on exploding gradients.
    """
    steps, losses = record.series("loss")
    wrong = np.isinf(losses) & ~np.isin(steps, left_out(record))
    if not len(steps):
        raise NotChecked("no loss was recorded")
    if not wrong.any():
        return
    begin = int(wrong.argmax())
    first, past = int(steps[begin]), np.abs(losses[:begin][np.isfinite(losses[:begin])])
    seen = incident if isinstance(incident, Replay) and incident.step <= first else None
    grown = len(past) > 0 and bool(past[-1] > min(growth * past[0], max(past[0], growth * np.median(past))))
    cause, fix = told(seen, grown, past)
    bad, after = int(wrong[begin:].sum()), len(wrong) - begin
    of = f"{'every one' if bad == after else bad} of the {after} steps"
    blamed = seen.finding if seen and not grown else None
    yield Finding(
        message=f"The loss is not finite since step {first}: NaN or Inf at {of} from there on."
        if wrong[-1]
        else f"The loss was NaN or Inf at {of} from step {first} on, and was finite again afterwards.",
        where=replace(blamed.where, step=first) if blamed else Where(step=first),
        cause=cause,
        fix=fix,
        evidence={
            "step": first,
            "steps": int(wrong.sum()),
            "loss before": [float(one) for one in past[-SPAN:]],
            "replayed step": seen.step if seen else None,
            "operation": seen.operation if seen else None,
            "largest weight": list(seen.largest) if seen else None,
        },
        explains=("T601", "T602", "T604", "T605", "T606", "T607", "T608", "T609", "T610", "M307", "E706", "E709"),
        severity=None if wrong[-1] else "warning",
    )


def left_out(record: Record) -> NDArray[np.int64]:
    """The steps that a GradScaler left out."""
    steps, skipped = record.series("skipped")
    return steps[skipped > 0]


def told(seen: Replay | None, grown: bool, past: NDArray[np.float32]) -> tuple[str, str]:
    """What began it, and what to do."""
    if grown or (seen and seen.diverged):
        course = f"the loss had grown from {past[0]:.3g} to {past[-1]:.3g}" if grown else "the weights had grown"
        weight = f", the largest weight from {seen.largest[0]:.3g} to {seen.largest[1]:.3g}" if seen else ""
        return f"The run had diverged: {course}{weight}, until the numbers overflowed.", SLOWER
    if seen and seen.finding:
        return seen.finding.cause, seen.finding.fix
    if seen:
        gone = seen.unheard and (seen.ruined or seen.again is None)
        return seen.verdict, AGAIN if gone else CHECK if seen.ruined else ASK
    return "One step with such a loss makes every weight that its gradient reaches NaN.", ASK


def bad() -> Setup:
    """Squared error, at a rate at which each step overshoots further."""
    model = network(1)
    return program(model, *squares(), nn.MSELoss(), optimizers=(torch.optim.SGD(model.parameters(), lr=50.0),))


def good() -> Setup:
    """The same at a rate that fits."""
    model = network(1)
    return program(model, *squares(), nn.MSELoss(), optimizers=(torch.optim.SGD(model.parameters(), lr=0.05),))


def squares() -> tuple[Tensor, Tensor]:
    """Points, and a number for each."""
    x, _ = points()
    return x, x.sum(1, keepdim=True) / 2


def loop(setup: Setup) -> None:
    """Forward, backward, step, in three epochs."""
    train(setup, 3)


bad_loop = good_loop = loop
