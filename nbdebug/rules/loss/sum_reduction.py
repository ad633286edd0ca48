"""L216: the loss grows with the size of the batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.trial import loss_on
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import network, regressor
from nbdebug.setup import Setup

PLAIN = (torch.optim.SGD, torch.optim.ASGD)
CLOSE = 0.01


@rule("L216", "warning")
def sum_reduction(
    setup: Setup, first_pass: Pass, output: Any, finite_loss: Tensor, *, most: float = 1.0
) -> Iterator[Finding]:
    """The loss grows with the size of the batch, and with it the step of the optimizer.

    ## What it does
    Gives your loss the first batch twice over. A mean stays as it is, a sum doubles.

    ## Why it matters
    The gradient is as many times larger as the batch has samples: a learning rate that fits one batch size diverges at
    another, and the last, smaller batch of an epoch weighs less.

    ## How it is measured
    On the output of the first batch. It is a warning where plain SGD steps by more than ``most`` (rate times samples,
    the rate that a mean would need for the same step), else a note: Adam and its kin divide the scale out.

    ## How to fix
    Take the mean, or divide the loss by the number of samples.

    ## When to ignore
    When sum and rate were chosen together, as in variational autoencoders.

    ## References
    Goyal et al. 2017, arXiv:1706.02677, section 5.3, remark 3: normalize the loss by the size of the whole batch.
    """
    size, value = first_pass.batch.size, float(finite_loss.detach())
    ratio = doubled(setup, first_pass, output) / value if value else 1.0
    if size < 2 or abs(ratio - 2) > CLOSE:
        return
    rates = [group["lr"] for one in setup.optimizers if isinstance(one, PLAIN) for group in one.param_groups]
    step = max(map(float, rates), default=0.0) * size
    yield Finding(
        message=f"The loss is a sum over the {size} samples of a batch: twice the samples, {ratio:.2f} times the loss.",
        cause="The loss is summed, not averaged, over the batch.",
        fix="loss = loss / len(target)  # or reduction='mean'",
        evidence={"samples": size, "rate times samples": step, "ratio": ratio},
        explains=("O501", "G404", "G410", "T602", "T604", "T605", "L208"),
        severity=None if step > most else "note",
    )


def doubled(setup: Setup, first_pass: Pass, output: Any) -> float:
    """The loss of the first batch given twice."""
    size = first_pass.batch.size
    if setup.loss_fn is None or not isinstance(output, Tensor) or not output.dim() or len(output) != size:
        raise NotChecked("loss and output are not one callable and one tensor with an axis of the samples")
    rows = [*range(size), *range(size)]
    return loss_on(setup, output.detach()[rows], first_pass.batch.take(rows))


def bad() -> Setup:
    """A summed error and plain SGD at a rate for a mean."""
    model = network(1)
    setup = regressor(loss_fn=nn.MSELoss(reduction="sum"), optimizers=(torch.optim.SGD(model.parameters(), lr=0.1),))
    setup.model = model
    return setup


def good() -> Setup:
    """The mean error."""
    return regressor()
