"""Padded positions whose output receives a gradient from the loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.loss_gradient import compute_output_gradients
from nbdebug.measurements.padding import find_trailing_frames, find_trailing_padding, get_declared_padding
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Batch, Setup
from nbdebug.setup.batch import named_inputs
from nbdebug.setup.losses import score_tensor

_MAX_VALUES = 2**24  # of an output whose gradient is computed


@dataclass(frozen=True)
class PaddingGradient:
    """Targets at padded positions of the input that hold one ``value``, as a ``share`` of all targets.

    ``has_gradient`` is True if the loss has a gradient at their outputs. ``is_class`` tells whether the value is a
    class index, ``is_real_target`` whether real positions have this target too.
    """

    share: float
    value: float
    has_gradient: bool
    is_class: bool
    is_real_target: bool


@measurement
def padding_gradient(setup: Setup, first_pass: ForwardPass, output: Any, loss: Tensor) -> PaddingGradient:
    """The gradient of the loss at outputs whose input is padding and whose targets are equal."""
    scores, reason = score_tensor(output), NotChecked("input and target are not two sequences of the same length")
    if not isinstance(scores, Tensor) or scores.numel() > _MAX_VALUES:
        raise NotChecked("the output is no tensor, or too large")
    for padded, is_declared in _find_padding(setup, first_pass.batch):
        for target in _find_targets(first_pass, padded):
            if not is_declared and not _has_one_value(target, padded):
                continue  # a token that stands at the ends of rows, and has targets of its own
            value = target[padded].flatten().mode().values
            is_padding = padded & (target == value).reshape(*padded.shape, -1).all(2)
            gradient = _compute_gradient(loss, scores, is_padding)
            is_class = not target.is_floating_point()
            # The target of the last real position of a language model may be padding.
            is_real = ~padded & ~torch.cat([padded[:, 1:], padded[:, -1:]], 1)
            return PaddingGradient(
                float(is_padding.float().mean()),
                int(value) if is_class else float(value),
                bool(gradient.any()),
                is_class,
                bool((target[is_real] == value).any()),
            )
        reason = NotChecked("no target has one value for each position of the padded input")
    raise reason


def _find_padding(setup: Setup, batch: Batch) -> Iterator[tuple[Tensor, bool]]:
    """Yield the padded positions of inputs, and whether the program says that they are padding.

    It does by masks or lengths, or by the index of an embedding; otherwise the ends of rows are equal.
    """
    inputs = named_inputs(batch)
    for tensor in inputs.values():
        yield from ((padded, True) for padded in get_declared_padding(tensor, list(inputs.values())))
    indices = {m.padding_idx for m in setup.eager_model.modules() if isinstance(m, nn.Embedding)} - {None}
    tokens = [x for x in inputs.values() if x.dim() == 2 and not x.is_floating_point() and x.dtype != torch.bool]
    if len(indices) > 1:
        raise NotChecked("several padding tokens are defined")
    for tensor in tokens:
        is_index = torch.isin(tensor, torch.tensor(sorted(indices), device=tensor.device))
        if bool(is_index.any()):
            yield is_index, True
        elif (trailing_padding := find_trailing_padding(tensor)) is not None:
            yield trailing_padding[1], False
    for tensor in inputs.values():
        if (trailing_frames := find_trailing_frames(tensor)) is not None:
            yield trailing_frames, False


def _has_one_value(target: Tensor, padded: Tensor) -> bool:
    """Return whether the targets at padded positions are equal, except at the first of each row, which may end it."""
    values = target[padded & torch.cat([torch.zeros_like(padded[:, :1]), padded[:, :-1]], 1)]
    return bool((values == values[:1]).all())


def _find_targets(first_pass: ForwardPass, padded: Tensor) -> Iterator[Tensor]:
    """Yield the targets that have one value or row for each position, in the batch or as the loss has saved them."""
    target = first_pass.batch.target_or_label
    if isinstance(target, Tensor) and target.dim() >= 2 and target.shape[:2] == padded.shape:
        yield target
    graph = first_pass.trace.get_graph(first_pass.loss) if first_pass.loss is not None else None
    for node in graph.nodes if graph else ():
        saved = node.get_saved("target")
        if isinstance(saved, Tensor) and saved.numel() == padded.numel():
            yield saved.detach().reshape(padded.shape)


def _compute_gradient(loss: Tensor, scores: Tensor, positions: Tensor) -> Tensor:
    """Return the gradient of the loss at some positions of the output."""
    if scores.shape[:2] != positions.shape and scores.shape[:1] != positions.flatten().shape and scores.dim() < 3:
        raise NotChecked("the output has no axis for the positions of the input")
    (gradient,) = compute_output_gradients(loss, [scores])
    if gradient is None:
        raise NotChecked("the loss does not depend on this output")
    count, length = positions.shape
    if gradient.shape[:2] == (count, length):
        return gradient[positions]
    if gradient.shape[0] == count * length:
        return gradient[positions.flatten()]
    if gradient.shape[0] == count and gradient.shape[-1] == length:
        return gradient.movedim(-1, 1)[positions]
    raise NotChecked("the output has no axis for the positions of the input")
