"""The direction in which a loss changes the probabilities of actions that it draws from the output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.loss_terms import record_loss_calls
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import seed_all
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_map, tree_tensors

_PRODUCTS = {"mul", "rmul", "multiply"}
_MIN_ACTIONS, _TOLERANCE = 8, 1e-3


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
def policy_gradient(setup: Setup, first_pass: ForwardPass) -> PolicyGradient:
    """The score function estimator of a loss that draws actions from the output (Williams 1992, REINFORCE).

    It is a product of the log-probabilities of the drawn actions, recognized by their values, and of weights that
    differ between the actions and are no function of the output.
    """
    if setup.loss_fn is None or setup.step_fn is not None or first_pass.output is None:
        raise NotChecked("the loss is not a function of the output")
    output = tree_map(first_pass.output, _as_leaf)
    losses = list[Tensor]()
    seed_all(0)
    with torch.enable_grad():
        calls, error = record_loss_calls(lambda: losses.append(setup.loss(output, first_pass.batch)))
    if error is None:
        for logs, weights, call in _products(calls, _drawn_log_probabilities(calls), tree_tensors(output)):
            factor = call.inputs[logs.position]
            (gradient,) = torch.autograd.grad(losses[0], factor, retain_graph=True, allow_unused=True)
            if gradient is not None and (gradient != 0).any():
                towards = -logs.sign * gradient.flatten() * weights.flatten()
                return PolicyGradient(int((towards != 0).sum()), int((towards > 0).sum()), call.line)
    raise NotChecked("the loss draws no actions from the output, or does not weight them")


@dataclass(frozen=True)
class _LogProbabilities:
    """The input of a call that holds log-probabilities (``sign`` 1) or their negatives (-1)."""

    position: int
    sign: int


def _as_leaf(value: object) -> object:
    return value.detach().requires_grad_() if isinstance(value, Tensor) and value.is_floating_point() else value


def _drawn_log_probabilities(calls: Sequence[TorchCall]) -> list[Tensor]:
    """Return the log-probabilities of all actions that calls draw, one vector for each call."""
    vectors = []
    for call in calls:
        if call.name not in ("multinomial", "bernoulli") or not call.inputs or not call.outputs:
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
) -> Iterator[tuple[_LogProbabilities, Tensor, TorchCall]]:
    """Yield the calls that multiply log-probabilities of drawn actions by weights which do not depend on the output."""
    if not drawn:
        return
    dependent = {id(tensor) for tensor in outputs}
    for call in calls:
        if call.name in _PRODUCTS and len(call.inputs) == 2:
            for position in (0, 1):
                weights = call.inputs[1 - position]
                sign = _log_sign(call.inputs[position], drawn)
                if sign and _are_weights(weights, call.inputs[position]) and id(weights) not in dependent:
                    yield _LogProbabilities(position, sign), weights, call
        if call.name not in ("multinomial", "bernoulli") and any(id(tensor) in dependent for tensor in call.inputs):
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
    """Return whether there is one weight for each action, with at least three different values: no mask."""
    is_alike = not weights.requires_grad and weights.numel() == logs.numel()
    return is_alike and len(set(weights.flatten().tolist())) > 2
