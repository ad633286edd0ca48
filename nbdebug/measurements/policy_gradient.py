"""Losses that weight actions: their direction, and whether they are proportional to signed numbers of the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.loss_terms import record_loss_calls
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import as_leaf, tree_map, tree_tensors

_DRAWS, _PRODUCTS = {"multinomial", "bernoulli"}, {"mul", "rmul", "multiply"}
_MIN_ACTIONS, _TOLERANCE = 8, 1e-3
_EQUAL_LOSSES = 1e-4  # of the larger of both


@dataclass(frozen=True)
class PolicyGradient:
    """Drawn actions with a weight, and how many of them a step against the gradient changes in its direction.

    ``followed`` counts actions whose probability increases for a positive weight and decreases for a negative one;
    ``line`` multiplies the log-probabilities by the weights.
    """

    actions: int
    followed: int
    line: SourceLine | None


@measurement
def policy_gradient(setup: Setup, first_pass: ForwardPass, output: Any) -> PolicyGradient:
    """The score function estimator of a loss that draws actions from the output (Williams 1992, REINFORCE).

    It is a product of the log-probabilities of the drawn actions, recognized by their values, and of weights that
    differ between the actions and are no function of the output.
    """
    if setup.loss_fn is None or setup.step_fn is not None:
        raise NotChecked("the loss is not a function of the output")
    leaves, losses = tree_map(output, as_leaf), list[Tensor]()
    seed_all(0)
    with torch.enable_grad():
        calls, error = record_loss_calls(lambda: losses.append(setup.loss(leaves, first_pass.batch)))
    if error is None:
        for logs, sign, weights, line in _products(calls, _drawn_log_probabilities(calls), tree_tensors(leaves)):
            (gradient,) = torch.autograd.grad(losses[0], logs, retain_graph=True, allow_unused=True)
            if gradient is not None and (gradient != 0).any():
                towards = -sign * gradient.flatten() * weights.flatten()
                return PolicyGradient(int((towards != 0).sum()), int((towards > 0).sum()), line)
    raise NotChecked("the loss draws no actions from the output, or does not weight them")


@measurement
def has_signed_weights(setup: Setup, first_pass: ForwardPass, output: Any) -> bool:
    """Whether one number of each sample has both signs, and the loss is proportional to these numbers.

    It is to the advantages of an update with importance ratios, as in PPO (Schulman et al. 2017, arXiv:1707.06347),
    and to the labels 1 and -1 of a critic of Wasserstein distances. Usual weights of samples are positive.
    """
    if setup.loss_fn is None or setup.step_fn is not None:
        raise NotChecked("the loss is not a function of the output")
    batch = first_pass.batch
    for weights in filter(_is_signed, tree_tensors(batch.targets)):
        if weights.numel() != batch.size:
            continue
        losses = [_loss_value(setup, output, _scale(batch, weights, factor)) for factor in (1, 2)]
        if any(losses) and abs(losses[1] - 2 * losses[0]) <= _EQUAL_LOSSES * max(map(abs, losses)):
            return True
    return False


def _is_signed(values: Tensor) -> bool:
    return values.is_floating_point() and bool(values.numel()) and bool(values.min() < 0 < values.max())


def _scale(batch: Batch, weights: Tensor, factor: float) -> Batch:
    return replace(batch, targets=tree_map(batch.targets, lambda leaf: factor * leaf if leaf is weights else leaf))


def _loss_value(setup: Setup, output: Any, batch: Batch) -> float:
    seed_all(0)
    with torch.no_grad():
        loss: Tensor = setup.loss(output, batch)
    return float(loss)


def _drawn_log_probabilities(calls: Sequence[TorchCall]) -> list[Tensor]:
    """Return the log-probabilities of all actions that calls draw, one vector for each call."""
    vectors = []
    for call in calls:
        if call.name not in _DRAWS or not call.inputs or not call.outputs:
            continue
        probabilities, drawn = call.inputs[0].detach(), call.outputs[0]
        if call.name == "multinomial":
            total = probabilities.sum(-1, keepdim=True)
            vectors.append((probabilities / total).gather(-1, drawn).log().flatten())
        elif drawn.shape == probabilities.shape:
            vectors.append(torch.where(drawn > 0, probabilities, 1 - probabilities).log().flatten())
    return [vector for vector in vectors if len(vector) >= _MIN_ACTIONS]


def _products(
    calls: Sequence[TorchCall], drawn: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Iterator[tuple[Tensor, int, Tensor, SourceLine | None]]:
    """Yield log-probabilities of drawn actions, or their negatives, with the weights that a call multiplies them by.

    The weights do not depend on the output. The sign is 1 for log-probabilities and -1 for their negatives.
    """
    if not drawn:
        return
    dependent = {id(tensor) for tensor in outputs}
    for call in calls:
        if call.name in _PRODUCTS and len(call.inputs) == 2:
            for logs, weights in (call.inputs, call.inputs[::-1]):
                sign = _log_sign(logs, drawn)
                if sign and _are_weights(weights, logs) and id(weights) not in dependent:
                    yield logs, sign, weights, call.line
        if call.name not in _DRAWS and any(id(tensor) in dependent for tensor in call.inputs):
            has_gradient = [tensor for tensor in call.outputs if tensor.requires_grad]  # of several that are broadcast
            dependent |= {id(tensor) for tensor in has_gradient or call.outputs}


def _log_sign(tensor: Tensor, drawn: Sequence[Tensor]) -> int:
    """Return 1 for log-probabilities of drawn actions, -1 for their negatives, and 0 for other values."""
    if not tensor.requires_grad or not tensor.is_floating_point():
        return 0
    values = tensor.detach().flatten()
    for vector in drawn:
        if len(vector) == len(values):
            for sign in (1, -1):
                if torch.allclose(sign * values, vector.to(values.dtype), rtol=_TOLERANCE, atol=_TOLERANCE):
                    return sign
    return 0


def _are_weights(weights: Tensor, logs: Tensor) -> bool:
    """Return whether there is one weight for each action, and the weights are no mask.

    They have at least three different values, or two of unlike sign.
    """
    if weights.requires_grad or weights.numel() != logs.numel():
        return False
    values = set(weights.flatten().tolist())
    return len(values) > 2 or min(values) < 0 < max(values)
