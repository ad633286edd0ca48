"""L216: the loss is a sum over the batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.perturbation import compute_loss_value
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import network, regressor
from nbdebug.setup import Setup

_NON_ADAPTIVE = (torch.optim.SGD, torch.optim.ASGD)
_RATIO_TOLERANCE = 0.01


@rule("L216", "warning", origin="loss")
def sum_reduction(
    setup: Setup, first_pass: ForwardPass, output: Any, finite_loss: Tensor, *, most: float = 1.0
) -> Iterator[Finding]:
    """The loss grows with the batch size, and the optimizer step grows with it.

    ## What it does
    Evaluates your loss on the first batch repeated twice. A mean stays the same, a sum doubles.

    ## Why it matters
    The gradient is multiplied by the number of samples: a learning rate that fits one batch size diverges at another,
    and the last, smaller batch of an epoch weighs less.

    ## How it is measured
    On the output of the first batch. Reported as a warning if plain SGD steps by more than ``most`` (learning rate
    times samples, the rate that a mean would need for the same step), otherwise as a note: Adam and its variants divide
    the scale out.

    ## How to fix
    Take the mean, or divide the loss by the number of samples.

    ## When to ignore
    When sum and learning rate were chosen together, as in variational autoencoders.

    ## References
    Goyal et al. 2017, arXiv:1706.02677, section 5.3, remark 3: normalize the loss by the size of the whole batch.
    """
    size, loss_value = first_pass.batch.size, float(finite_loss.detach())
    ratio = _loss_of_doubled_batch(setup, first_pass, output) / loss_value if loss_value else 1.0
    if size < 2 or abs(ratio - 2) > _RATIO_TOLERANCE:
        return
    rates = [
        group["lr"]
        for optimizer in setup.optimizers
        if isinstance(optimizer, _NON_ADAPTIVE)
        for group in optimizer.param_groups
    ]
    rate_times_samples = max(map(float, rates), default=0.0) * size
    yield Finding(
        message=f"The loss is a sum over the {size} samples of a batch: with twice the samples it is {ratio:.2f} "
        "times as large.",
        cause="The loss is summed instead of averaged over the batch.",
        fix="loss = loss / len(target)  # or reduction='mean'",
        evidence={"samples": size, "rate times samples": rate_times_samples, "ratio": ratio},
        explains=("O501", "G404", "G410", "T602", "T604", "T605", "L208"),
        severity=None if rate_times_samples > most else "note",
    )


def _loss_of_doubled_batch(setup: Setup, first_pass: ForwardPass, output: Any) -> float:
    size = first_pass.batch.size
    if setup.loss_fn is None or not isinstance(output, Tensor) or not output.dim() or len(output) != size:
        raise NotChecked("needs a callable loss and an output tensor with a batch axis")
    rows = [*range(size), *range(size)]
    return compute_loss_value(setup, output.detach()[rows], first_pass.batch.take_samples(rows))


def bad() -> Setup:
    """A summed error, and plain SGD with a learning rate that fits a mean."""
    model = network(1)
    setup = regressor(loss_fn=nn.MSELoss(reduction="sum"), optimizers=(torch.optim.SGD(model.parameters(), lr=0.1),))
    setup.model = model
    return setup


def good() -> Setup:
    """The mean error."""
    return regressor()
