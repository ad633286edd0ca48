"""Whether the latent variables of a variational model carry anything of its input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.autograd.loss_terms import record_loss_calls
from nbdebug.autograd.tracing import DetachPoint, trace_forward
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_tensors

_DRAWS = {"randn_like", "randn", "normal"}
_FACTORS, _SUMS = {"mul", "rmul", "multiply"}, {"add", "radd", "iadd"}
_MIN_SAMPLES = 16


@dataclass(frozen=True)
class _Average:
    """A term of a loss that averages ``values`` values of each sample."""

    values: int
    line: SourceLine | None


@dataclass(frozen=True)
class LatentActivity:
    """The share of the variance of each latent variable that is due to the input, the rest being drawn at random.

    ``where`` is the sum of mean and noise, ``line`` the line of the loss that reduces a term of the mean, if any.
    ``average`` is the average of a comparison with the data over the values of each sample, if the loss has one.
    ``cut`` is the call through which no gradient flows back from the latent variables to their means, if any.
    """

    shares: tuple[float, ...]
    where: Location
    line: SourceLine | None
    average: _Average | None = None
    cut: DetachPoint | None = None


@slow_measurement
def latent_activity(setup: Setup, first_pass: ForwardPass, output: Any) -> LatentActivity:
    """The variance of the means of the latent variables over the samples, relative to that with their noise.

    A latent variable is the sum of a tensor with one row for each sample and of normal noise times another such tensor
    (Kingma and Welling 2014, arXiv:1312.6114, section 2.4), in train mode.
    """
    batch, calls = first_pass.batch, list[TorchCall]()
    with Preserve(setup.eager_model), in_mode(setup.eager_model, True):
        seed_all(0)
        with record_calls(setup.eager_model, calls.append), trace_forward(setup.eager_model) as trace:
            output = setup.predict(batch)
        with torch.no_grad():
            loss_calls, _ = record_loss_calls(lambda: setup.raw_loss(output, batch))
    latent = _find_latent(calls, batch.size or 0)
    if latent is None:
        raise NotChecked("the model draws no latent variables around means of its own")
    call, mean, noise = latent
    cut = next((cut for cut in trace.detach_points if _cuts(cut, call.outputs[0], mean)), None)
    of_input, of_noise = mean.detach().double().var(0).flatten(), noise.detach().double().square().mean(0).flatten()
    shares = of_input / (of_input + of_noise).clamp_min(1e-30)
    data = tree_tensors((batch.args, batch.kwargs, batch.targets))
    return LatentActivity(
        tuple(shares.tolist()), call.where, _reducing_line(loss_calls, mean), _find_average(loss_calls, data), cut
    )


def _cuts(cut: DetachPoint, latent: Tensor, mean: Tensor) -> bool:
    """Check whether a call detaches latent variables from their means, or the means from the layers that make them."""
    return cut.output is latent or cut.output is mean or any(part is latent.grad_fn for part in cut.detached if part)


def _find_latent(calls: Sequence[TorchCall], size: int) -> tuple[TorchCall, Tensor, Tensor] | None:
    """Return the sum that makes latent variables, their means, and the scaled noise; None if there is none."""
    drawn, scaled = set[int](), set[int]()
    for call in calls:
        noisy = [tensor for tensor in call.inputs if id(tensor) in drawn | scaled]
        others = [tensor for tensor in call.inputs if id(tensor) not in drawn | scaled and tensor.dim()]
        if call.name in _DRAWS:
            drawn |= {id(tensor) for tensor in call.outputs}
        elif call.name == "addcmul" and len(others) == 2 and len(noisy) == 1 and _has_rows(others[0], size):
            return call, others[0], others[1] * noisy[0]
        elif call.name in _FACTORS and len(noisy) == len(others) == 1 and _has_rows(others[0], size):
            scaled |= {id(tensor) for tensor in call.outputs}
        elif call.name in _SUMS and [id(t) in scaled for t in noisy] == [True] and _are_alike(others, noisy[0], size):
            return call, others[0], noisy[0]
    return None


def _are_alike(means: list[Tensor], noise: Tensor, size: int) -> bool:
    """Return whether there is one tensor of means, of the shape of the noise, with one row for each sample."""
    return len(means) == 1 and means[0].shape == noise.shape and _has_rows(means[0], size)


def _has_rows(tensor: Tensor, size: int) -> bool:
    return tensor.is_floating_point() and tensor.dim() > 1 and len(tensor) == size >= _MIN_SAMPLES


def _reducing_line(calls: Sequence[TorchCall], mean: Tensor) -> SourceLine | None:
    """Return the line of the first call that reduces values of the means to fewer."""
    dependent = {id(mean)}
    for call in calls:
        sources = [tensor for tensor in call.inputs if id(tensor) in dependent]
        if sources and any(output.numel() < min(t.numel() for t in sources) for output in call.outputs):
            return call.line
        dependent |= {id(tensor) for tensor in call.outputs} if sources else set()
    return None


def _find_average(calls: Sequence[TorchCall], data: Sequence[Tensor]) -> _Average | None:
    """Return the average that reduces a comparison of the output with data; None if it is a sum for each sample."""
    of_data, compared = {id(tensor) for tensor in data}, set[int]()
    for call in calls:
        is_of_data = [id(tensor) in of_data for tensor in call.inputs]
        if is_of_data and all(is_of_data):
            of_data |= {id(tensor) for tensor in call.outputs}
        elif call.outputs and (any(is_of_data) or not compared.isdisjoint(map(id, call.inputs))):
            values, result = _elementwise(call), call.outputs[0]
            if result.numel() < values.numel():
                count = values.numel() // max(len(values), result.numel())
                is_average = count > 1 and torch.allclose(result.mean(), values.mean(), rtol=1e-3)
                return _Average(values.numel() // len(values), call.line) if is_average else None
            compared |= {id(tensor) for tensor in call.outputs}
    return None


def _elementwise(call: TorchCall) -> Tensor:
    """Return the values that a call reduces: for a loss function of torch, its values before its reduction."""
    try:
        values: Tensor = getattr(F, call.name)(*call.args, **{**call.kwargs, "reduction": "none"})
    except (AttributeError, TypeError):
        return max(call.inputs, key=Tensor.numel)
    return values
