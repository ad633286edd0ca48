"""The log-determinant that a normalizing flow returns beside its codes, and the sign with which the loss reads it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd.call_recorders import CallRecorder, TorchCall
from nbdebug.autograd.tracing import ModuleStack
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.loss_inputs import copy_output, output_tensors
from nbdebug.measurements.registry import measurement
from nbdebug.measurements.sign_trials import find_sign_change
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.setup.setup import maximizing_optimizer
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_map, tree_tensors

_SAMPLES, _MAX_WIDTH, _NOISE = 4, 64, 0.05
_MIN_VOLUME, _TOLERANCE = 0.05, 1e-3
_FACTORS = (3.0, 10.0)


@dataclass(frozen=True)
class FlowVolume:
    """Tensors of the output at the positions ``code`` and ``volume``: a map of the input and its log-determinant.

    ``sign`` is -1 if the model returns the negative of the log-determinant. ``slope`` is the mean over the samples of
    the derivative of the loss by the log-determinant, times their number. It is negative for a likelihood. The
    Jacobian was computed for ``samples`` of ``width`` values, and the volume differs from it by at most ``error``.
    ``line`` is where the loss adds the volume to something else, and ``sign_change`` the only change of a sign there
    which turns the slope around and leaves the loss growing with the codes.
    """

    code: int
    volume: int
    sign: int
    samples: int
    width: int
    error: float
    slope: float
    is_reversed: bool
    line: SourceLine | None = None
    sign_change: tuple[Edit, ...] = ()


@measurement
def flow_volume(setup: Setup, first_pass: ForwardPass) -> FlowVolume | None:
    """The log-determinant of a map that the model returns, if the loss of the map grows with its codes.

    The Jacobian is that of a few samples with noise added to the parameters, since flows start as the identity.
    """
    if setup.loss_fn is None or setup.step_fn is not None or maximizing_optimizer(setup) is not None:
        raise NotChecked("the loss is not a function of the output that an optimizer minimizes")
    output, batch = first_pass.output, first_pass.batch
    for code, volume in _find_candidates(output_tensors(output), batch):
        try:
            match = _compare_volume(setup, batch, code, volume)
        except (RuntimeError, ValueError, IndexError) as failure:  # such as a model that takes batches of one size only
            raise NotChecked(f"the model does not take a part of a batch with noise: {failure}") from None
        if match is None or not _grows_with_code(setup, output, batch, code):
            continue
        sign, samples, width, error = match
        slopes, line = _measure_slopes(setup, output, batch, volume)
        is_reversed = bool((sign * slopes > 0).all())

        def is_mended(code: int = code, volume: int = volume, sign: int = sign) -> bool:
            mended, _ = _measure_slopes(setup, output, batch, volume)
            return bool((sign * mended < 0).all()) and _grows_with_code(setup, output, batch, code)

        slope = sign * float(slopes.sum())
        sign_change = find_sign_change(line, is_mended) if is_reversed else ()
        return FlowVolume(code, volume, sign, samples, width, error, slope, is_reversed, line, sign_change)
    return None


def _find_candidates(tensors: Sequence[Tensor], batch: Batch) -> Iterator[tuple[int, int]]:
    """Yield the positions of tensors with as many values for each sample as an input, each with one of one value."""
    inputs = [tensor for tensor in tree_tensors((batch.args, batch.kwargs)) if _is_map(tensor, batch.size)]
    sizes = {tensor.numel() for tensor in inputs}
    codes = [k for k, tensor in enumerate(tensors) if _is_map(tensor, batch.size) and tensor.numel() in sizes]
    for code in codes[:2]:
        for volume, tensor in enumerate(tensors):
            is_number = tensor.is_floating_point() and tensor.numel() == batch.size == len(tensor)
            if volume != code and is_number and tensor.requires_grad:
                yield code, volume


def _is_map(tensor: Tensor, samples: int) -> bool:
    has_samples = tensor.is_floating_point() and tensor.dim() > 0 and len(tensor) == samples > 0
    return has_samples and 1 <= tensor.numel() // samples <= _MAX_WIDTH


def _compare_volume(setup: Setup, batch: Batch, code: int, volume: int) -> tuple[int, int, int, float] | None:
    """Return the sign of the log-determinant that a tensor is, the samples, their width and the largest error."""
    few = batch.take_samples(range(min(_SAMPLES, batch.size)))
    model = setup.eager_model
    with Preserve(model), noise_added(model), in_mode(model, False), torch.enable_grad():
        for source in tree_tensors((few.args, few.kwargs)):
            if not _is_map(source, few.size):
                continue
            leaf = source.detach().clone().requires_grad_()
            args, kwargs = tree_map((few.args, few.kwargs), partial(_exchange, source, leaf))
            seed_all(0)
            tensors = output_tensors(setup.predict(replace(few, args=args, kwargs=kwargs)))
            codes = tensors[code].flatten(1) if tensors[code].dim() > 1 else tensors[code][:, None]
            if codes.numel() != leaf.numel() or not codes.requires_grad:
                continue
            returned = tensors[volume].detach().double().flatten()
            measured = _compute_log_determinants(codes, leaf)
            largest = float(measured.abs().max())
            if not _MIN_VOLUME <= largest < math.inf:  # infinite for a map that is not invertible
                continue
            for sign in (1, -1):
                error = float((sign * returned - measured).abs().max())
                if error <= _TOLERANCE * max(largest, 1.0):
                    return sign, few.size, codes.shape[1], error
    return None


def _exchange(source: Tensor, leaf: Tensor, value: Any) -> Any:
    return leaf if value is source else value


@contextmanager
def noise_added(model: nn.Module) -> Iterator[None]:
    """Add noise to the parameters; the caller restores them."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.add_(torch.randn(parameter.shape, generator=generator).to(parameter), alpha=_NOISE)
    yield


def _compute_log_determinants(codes: Tensor, leaf: Tensor) -> Tensor:
    """Return the log of the absolute determinant of the Jacobian of each sample's code by its input."""
    rows = []
    for column in range(codes.shape[1]):
        (gradient,) = torch.autograd.grad(codes[:, column].sum(), leaf, retain_graph=True, allow_unused=True)
        rows.append(torch.zeros_like(leaf) if gradient is None else gradient)
    jacobian = torch.stack([row.reshape(len(leaf), -1) for row in rows], 1).detach()
    log_determinants: Tensor = torch.linalg.slogdet(jacobian.double().cpu()).logabsdet
    return log_determinants.to(leaf.device)


def _grows_with_code(setup: Setup, output: Any, batch: Batch, code: int) -> bool:
    """Return whether the loss grows as the codes do, as it does for codes that should be likely."""
    losses = []
    for factor in (1.0, *_FACTORS):
        seed_all(0)
        with torch.no_grad():
            losses.append(float(setup.loss(copy_output(output, {code: partial(torch.mul, factor)}), batch)))
    return losses[0] < losses[1] < losses[2]


def _measure_slopes(setup: Setup, output: Any, batch: Batch, volume: int) -> tuple[Tensor, SourceLine | None]:
    """Return the gradient of the loss by a tensor of the output, and the line that joins it with something else."""
    leaves, calls = list[Tensor](), list[TorchCall]()

    def track(copy: Tensor) -> Tensor:
        leaves.append(copy.requires_grad_())
        return copy

    seed_all(0)
    with torch.enable_grad():
        tracked = copy_output(output, {volume: track})
        with CallRecorder(ModuleStack(), calls.append):
            loss = setup.loss(tracked, batch)
        (slopes,) = torch.autograd.grad(loss, leaves, allow_unused=True)
    return (torch.zeros(1) if slopes is None else slopes.detach()), _joining_line(leaves[0], calls)


def _joining_line(leaf: Tensor, calls: Sequence[TorchCall]) -> SourceLine | None:
    """Return the line of the first call that takes a tensor, or what follows from it alone, with another tensor."""
    own, line = [leaf], None
    for call in calls:
        if not any(tensor is other for tensor in call.inputs for other in own):
            continue
        line = call.line or line
        if len(call.inputs) > 1:
            return line
        own += call.outputs
    return line
