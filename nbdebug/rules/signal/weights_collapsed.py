"""G411: the weights of a layer shrink to zero."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.records import Record
from nbdebug.records.layer_signals import describe_values, get_layer_signal, layer_weights, module_of_parameter
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points, train
from nbdebug.setup import Setup


@rule("G411", "warning")
def weights_collapsed(record: Record, setup: Setup | NotChecked, *, share: float = 0.01) -> Iterator[Finding]:
    """The weights of a layer shrink to zero.

    ## What it does
    Follows the norm of the weights of each layer over your run.

    ## Why it matters
    A layer whose weights are zero returns the same output for every input, and passes no gradient to the layers before
    it: the model becomes a constant.

    ## How it is measured
    Reported if the norm of a weight ends at less than ``share`` = 1% of its maximum, and so does the median of its
    last snapshots. Biases, normalization weights and embeddings are excluded.

    ## How to fix
    Use less weight decay (1e-2 for AdamW, 1e-4 for SGD are usual), or a smaller penalty in the loss.

    ## When to ignore
    When a layer is meant to be pruned.

    ## References
    Loshchilov and Hutter 2019, arXiv:1711.05101: the effect of decay on each step, (1 - rate · decay) of the weight.
    The bound of 1% is a choice.
    """
    sizes = get_layer_signal(record, "weight.norm")
    measured = set(sizes.names)
    sizes = sizes.select([name for name in layer_weights(record) if name in measured])
    with np.errstate(all="ignore"):
        remaining, recent = sizes.values[-1] / sizes.largest, sizes[-3:].median / sizes.largest
    collapsed = np.flatnonzero(np.maximum(remaining, recent) < share).tolist()
    if not collapsed:
        return
    names, others = [sizes.names[i] for i in collapsed], np.delete(remaining, collapsed)
    comparison = (
        f"the median of the other layers is {np.median(others):.2g}" if len(others) else "all layers are affected"
    )
    decay = None if isinstance(setup, NotChecked) else _largest_decay(setup, names)
    cause, fix = _OF_PENALTY if decay == 0 else _OF_DECAY
    yield Finding(
        message=f"The weights of {len(collapsed)} of {len(remaining)} layers shrank to almost zero (norm at step "
        f"{sizes.steps[-1]:,}, the last measured one, divided by the largest measured norm): "
        f"{describe_values(names, remaining[collapsed])}; {comparison}.",
        where=Location(module_of_parameter(names[0]), names[0]),
        cause=cause,
        fix=fix,
        evidence={"parameters": names, "left": remaining[collapsed].tolist(), "last step": int(sizes.steps[-1])},
        explains=("G401", "G403", "G410", "G415", "T601", "T606", "T607", "T608", "T610", "O502", "T614"),
    )


_OF_DECAY = (
    "Weight decay, or a penalty in the loss, is stronger than the gradient of the task.",
    "Reduce weight_decay, for AdamW to 0.01, or the weight of the penalty in the loss.",
)
_OF_PENALTY = (
    "The optimizer has no weight decay for them: either a penalty in the loss is stronger than the gradient of the "
    "task, or code outside the optimizer shrinks the weights.",
    "Reduce the weight of the penalty in the loss, or remove the code that shrinks the weights.",
)


def _largest_decay(setup: Setup, names: list[str]) -> float | None:
    """Return the largest weight decay of some parameters; None if the optimizers hold none of them."""
    ids = {id(parameter) for name, parameter in setup.eager_model.named_parameters() if name in names}
    groups = [group for optimizer in setup.optimizers for group in optimizer.param_groups]
    decays = [float(group.get("weight_decay", 0)) for group in groups if any(id(p) in ids for p in group["params"])]
    return max(decays, default=None)


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
