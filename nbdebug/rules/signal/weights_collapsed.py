"""G411: the weights of a layer shrink to zero."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.loss_curves.run_summary import get_run_summary
from nbdebug.records import Record
from nbdebug.records.layer_signals import describe_values, module_of_parameter
from nbdebug.records.shrunk_weights import SHRUNK_SHARE, find_shrunk_weights, lost_gradient_first
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points, train
from nbdebug.setup import Setup
from nbdebug.setup.optimizer_code import largest_weight_decay


@rule("G411", "warning")
def weights_collapsed(
    record: Record,
    setup: Setup | NotChecked,
    *,
    share: float = SHRUNK_SHARE,
    common: float = 0.2,
    near: float = 0.95,
) -> Iterator[Finding]:
    """The weights of a layer shrink to zero.

    ## What it does
    Follows the norm of the weights of each layer over your run.

    ## Why it matters
    A layer whose weights are zero returns the same output for every input, and passes no gradient to the layers before
    it: the model becomes a constant.

    ## How it is measured
    Reported if the norm of a weight ends at less than ``share`` = 1% of its maximum, and so does the median of its
    last snapshots. Biases, normalization weights and embeddings are excluded.

    If all layers shrink, less is enough: reported if every norm ends at less than ``common`` = 20% of its maximum, and
    the loss of fixed training samples, without terms that the loop adds, is at least ``near`` = 95% of the loss of a
    constant prediction.

    It is a consequence of a vanishing
    gradient (G403) if, before the weights shrank, the median ratio of gradient to weight was below the weight decay.
    The ratio of another layer must be above it and 16 times as large.

    ## How to fix
    Use less weight decay (1e-2 for AdamW, 1e-4 for SGD are usual), or a smaller penalty in the loss.

    ## When to ignore
    When a layer is meant to be pruned.

    ## References
    Loshchilov and Hutter 2019, arXiv:1711.05101: the effect of decay on each step, (1 - rate · decay) of the weight.
    The bound of 1% is a choice.
    """
    shrunk = find_shrunk_weights(record, share)
    if not shrunk.names:
        yield from _common_shrinkage_findings(record, setup, common, near)
        return
    names, others = list(shrunk.names), shrunk.others
    comparison = (
        f"the median of the other layers is {np.median(others):.2g}" if len(others) else "all layers are affected"
    )
    decay = None if isinstance(setup, NotChecked) else largest_weight_decay(setup, names)
    cause, fix = _OF_PENALTY if decay == 0 else _OF_DECAY
    is_consequence = lost_gradient_first(record, names, decay)  # of G403, which then explains this finding
    yield Finding(
        message=f"The weights of {len(names)} of {len(names) + len(others)} layers shrank to almost zero. At step "
        f"{shrunk.last_step:,}, the last measured step, the ratio of the weight norm to the largest measured norm is "
        f"{describe_values(names, shrunk.remaining)}; {comparison}.",
        where=Location(module_of_parameter(names[0]), names[0]),
        cause=cause,
        fix=fix,
        evidence={"parameters": names, "left": shrunk.remaining.tolist(), "last step": shrunk.last_step},
        explains=_CONSEQUENCES if is_consequence else (*_CONSEQUENCES, "G403"),
    )


def _common_shrinkage_findings(
    record: Record, setup: Setup | NotChecked, share: float, near: float
) -> Iterator[Finding]:
    """Report that all layers shrank in a run that learned nothing."""
    chance, shrunk = float(record.about.get("chance") or 0.0), find_shrunk_weights(record, share)
    if chance <= 0 or not shrunk.names or len(shrunk.others):
        return
    losses = get_run_summary(record).train.loss
    loss = float(losses[-1]) if len(losses) else 0.0
    if not near * chance <= loss:
        return
    names = list(shrunk.names)
    decay = None if isinstance(setup, NotChecked) else largest_weight_decay(setup, names)
    cause, fix = _OF_PENALTY if decay == 0 else _OF_ANY_CAUSE
    yield Finding(
        message=f"The weights of all {len(names)} layers shrank, and the loss shows no clear learning. At step "
        f"{shrunk.last_step:,}, the last measured step, the ratio of the weight norm to the largest measured norm is "
        f"{describe_values(names, shrunk.remaining)}. The loss of fixed training samples is {loss:.4g}; that of a "
        f"constant prediction is {chance:.4g}.",
        where=Location(module_of_parameter(names[0]), names[0]),
        cause=cause,
        fix=fix,
        evidence={
            "parameters": names,
            "left": shrunk.remaining.tolist(),
            "last step": shrunk.last_step,
            "loss": loss,
            "constant": chance,
        },
        explains=(*_CONSEQUENCES, "G403", "G413", "M307", "E702", "E706", "E709"),
    )


_CONSEQUENCES = ("G401", "G410", "G415", "T601", "T606", "T607", "T608", "T610", "O502", "T614")
_OF_DECAY = (
    "Weight decay, or a penalty in the loss, is stronger than the gradient of the task.",
    "Reduce weight_decay, for AdamW to 0.01, or the weight of the penalty in the loss.",
)
_OF_PENALTY = (
    "The optimizer has no weight decay for them: either a penalty in the loss is stronger than the gradient of the "
    "task, or code outside the optimizer shrinks the weights.",
    "Reduce the weight of the penalty in the loss, or remove the code that shrinks the weights.",
)

_OF_ANY_CAUSE = (
    "The weights alone do not show the cause. Possible causes are weight decay, a penalty in the loss, and code "
    "outside the optimizer that shrinks the weights, such as a clamp.",
    "Reduce weight_decay or the weight of the penalty in the loss, or remove the code that shrinks the weights.",
)


def _decayed_setup(decay: float) -> Setup:
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=decay)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))


def _train_loop(setup: Setup) -> None:
    train(setup, 20)


def bad() -> Setup:
    """A decay that removes a fifth of the weights at each step."""
    return _decayed_setup(2.0)


def good() -> Setup:
    """A decay that removes a hundred-thousandth of the weights at each step."""
    return _decayed_setup(1e-4)


bad_loop = good_loop = _train_loop
