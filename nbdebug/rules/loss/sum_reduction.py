"""L216: the loss is a sum over the batch."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from nbdebug.finding import Edit, Finding
from nbdebug.loop_monitor.conclusions import LOSS_SUMMED
from nbdebug.measurements.loss_scaling import LossScaling, MixedReductions
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import network, regressor
from nbdebug.setup import Setup
from nbdebug.setup.source_lines import creation_line, find_setup_creation
from nbdebug.source.edits import describe_edits, replace_node, wrap_node
from nbdebug.source.location import get_location
from nbdebug.source.producers import executed_return
from nbdebug.source.scopes import user_function

_NON_ADAPTIVE = (torch.optim.SGD, torch.optim.ASGD)
_RATIO_TOLERANCE = 0.01
_MIN_DAMPING = 0.01  # 1 - momentum
_MIXED_CONSEQUENCES = (
    *("G401", "G404", "G410", "G412", "G415", "L208", "M306", "M307", "O501", "T601", "T602", "T604", "T605", "T606"),
    *("T607", "T609", "T610", "T614", "E709"),
)


@rule("L216", "warning", origin="loss")
def sum_reduction(
    setup: Setup, loss_scaling: LossScaling, *, most: float = 1.0, share: float = 0.1
) -> Iterator[Finding]:
    """The loss, or a term of it, grows with the batch size.

    ## What it does
    Evaluates your loss on the first batch repeated twice. A mean stays the same, a sum doubles. Looks for a term that
    is a sum over the batch beside one that is a mean, or beside one value for each sample.

    ## Why it matters
    The gradient is multiplied by the number of samples: a learning rate that fits one batch size diverges at another,
    and the last, smaller batch of an epoch weighs less. Of two terms, the sum outweighs the mean by the number of
    samples and values: a variational autoencoder then ignores its input.

    ## How it is measured
    On the output of the first batch. A scalar that the model returns is a sum if it doubles when the model takes each
    sample twice, in eval mode; if it is 0, noise is added to the parameters for these passes. Reported as a warning if
    plain SGD steps by more than ``most`` (learning rate times samples, the rate that a mean would need for the same
    step, divided by 1 minus momentum), otherwise as a note: Adam and its variants divide the scale out. Terms are what
    the loss adds up. A sum beside a mean is a warning if it is more than ``share`` of the mean before training,
    otherwise a note, since a factor may make up for it. A sum is not reported if a watched loop divides it by the
    number of samples or targets, or if the loss falls while the gradient has the same norm in at least 90% of
    the inspected steps, as with clipping by norm: the scale of the loss then has no effect on the size of the steps.

    ## How to fix
    Take the mean, or divide the loss by the number of samples. Reduce all terms over the samples in the same way.

    ## When to ignore
    When sum and learning rate were chosen together, as in variational autoencoders whose terms are all sums.

    ## References
    Goyal et al. 2017, arXiv:1706.02677, section 5.3, remark 3: normalize the loss by the size of the whole batch.
    Kingma and Welling 2014, arXiv:1312.6114, equation 10: both terms are sums over the values of a sample.
    """
    size, ratio = loss_scaling.batch_size, loss_scaling.ratio
    if loss_scaling.mixed:
        yield _mixed_finding(loss_scaling.mixed, size, share)
        return
    if abs(ratio - 2) > _RATIO_TOLERANCE:
        return
    rates = [
        float(group["lr"]) / max(1 - float(group.get("momentum") or 0), _MIN_DAMPING)
        for optimizer in setup.optimizers
        if isinstance(optimizer, _NON_ADAPTIVE)
        for group in optimizer.param_groups
    ]
    rate_times_samples = max(rates, default=0.0) * size
    edits = _mean_edits(setup) or _division_edits(setup)
    setting = 'loss_fn.reduction = "mean"' if getattr(setup.loss_fn, "reduction", "") == "sum" else ""
    yield Finding(
        message=f"The loss is a sum over the {size} samples of a batch: with twice the samples it is {ratio:.2f} "
        "times as large.",
        where=get_location(creation_line(setup, _summing_part(setup.loss_fn))),
        cause="The loss is summed instead of averaged over the batch.",
        fix=describe_edits(edits) or setting or "Divide the loss by the number of samples of the batch.",
        setup_fix=setting,
        edits=edits,
        evidence={"samples": size, "rate times samples": rate_times_samples, "ratio": ratio},
        explains=("O501", "G404", "G410", "T602", "T604", "T605", "L208"),
        severity=None if rate_times_samples > most else "note",
        assumes=(LOSS_SUMMED,),
    )


def _mean_edits(setup: Setup) -> tuple[Edit, ...]:
    """Return the change of ``reduction="sum"`` where the loss of torch is created."""
    part = _summing_part(setup.loss_fn)
    creation = find_setup_creation(setup, part)
    option = creation.argument(part, "reduction") if creation and part is not None else None
    return (replace_node(creation.file, option, '"mean"'),) if creation and option is not None else ()


def _division_edits(setup: Setup) -> tuple[Edit, ...]:
    """Return the division of what the user's loss of two arguments returns by the number of its targets."""
    function, owner = user_function(setup.loss_fn) or (None, None)
    returned = executed_return(function, owner) if function is not None else None
    if function is None or returned is None or isinstance(returned.node, (ast.Tuple, ast.Dict)):
        return ()
    names = [*inspect.signature(function).parameters][owner is not None :]
    if len(names) != 2:
        return ()
    is_atom = isinstance(returned.node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    template = f"{{}} / len({names[1]})" if is_atom else f"({{}}) / len({names[1]})"
    return (wrap_node(returned.scope.file, returned.node, template),)


def _summing_part(loss_fn: Any) -> nn.Module | None:
    """Return the part of a user's loss that is a loss of torch with ``reduction="sum"``; None for other losses."""
    parts = [part for part in loss_fn.modules() if part is not loss_fn] if isinstance(loss_fn, nn.Module) else []
    summing = [part for part in parts if getattr(part, "reduction", "") == "sum"]
    return summing[0] if len(summing) == 1 else None


def _mixed_finding(mixed: MixedReductions, size: int, share: float) -> Finding:
    """Report a sum over the samples that is added to a mean, or to one value for each sample."""
    is_large = abs(mixed.sum) > share * abs(mixed.mean)
    return Finding(
        message=_describe_terms(mixed, size),
        where=get_location(mixed.line),
        cause="The weight of the summed term grows with the number of samples and values, so it outweighs the other "
        "term.",
        fix="Sum this term over the values of a sample only, which leaves one value for each sample."
        if mixed.per_sample
        else "Sum each term over the values of a sample, and take the mean over the samples.",
        evidence={"samples": size, "mean": mixed.mean, "sum": mixed.sum},
        explains=_MIXED_CONSEQUENCES,
        severity=None if is_large else "note",
    )


def _describe_terms(mixed: MixedReductions, size: int) -> str:
    """Say which two terms the loss adds up."""
    noise = "With noise on the parameters, without which the sum is 0, the" if mixed.needs_noise else "The"
    if mixed.per_sample:
        return (
            f"{noise} loss adds one value for each of the {size} samples of a batch, on average {mixed.mean:.3g}, and "
            f"a sum over all samples, {mixed.sum:.3g}."
        )
    return (
        f"{noise} loss adds a mean over the {size} samples of a batch, {mixed.mean:.3g}, and a sum over them, "
        f"{mixed.sum:.3g}."
    )


def bad() -> Setup:
    """A summed error, and plain SGD with a learning rate that fits a mean."""
    model = network(1)
    setup = regressor(loss_fn=nn.MSELoss(reduction="sum"), optimizers=(torch.optim.SGD(model.parameters(), lr=0.1),))
    setup.model = model
    return setup


def good() -> Setup:
    """The mean error."""
    return regressor()
