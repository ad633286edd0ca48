"""Tokens and classes that the loss never asks for, since their number also stands for padding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.loss_terms import bind_arguments
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass, get_extra_axes
from nbdebug.measurements.loss_gradient import compute_output_gradients
from nbdebug.measurements.padding import find_trailing_positions
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Setup
from nbdebug.setup.batch import named_inputs
from nbdebug.setup.losses import ignore_index, score_tensor
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.location import SourceLine
from nbdebug.source.search import find_zeroed_entry

_MIN_ROWS = 4


@dataclass(frozen=True)
class UnlearnedToken:
    """A token whose positions all have an ignored label, and those of them that the mask of the model marks as real."""

    token: int
    positions: int
    real: int
    rows: int


@measurement
def unlearned_token(setup: Setup, first_pass: ForwardPass) -> UnlearnedToken | None:
    """The token of a language model whose labels are ignored wherever it occurs, although some of it is no padding."""
    labels = _position_labels(first_pass)
    inputs = [tensor for tensor in named_inputs(first_pass.batch).values() if tensor is not labels]
    sequences = [t.to(labels.device) for t in inputs if t.shape == labels.shape and not t.is_floating_point()]
    is_ignored = labels == ignore_index(setup.loss_fn)
    tokens = next((t for t in sequences if _repeats(t, labels, is_ignored)), None)
    mask = next((t for t in sequences if t is not tokens and bool(((t == 0) | (t == 1)).all())), None)
    if tokens is None or mask is None:
        return None
    token = int(tokens[is_ignored][0])
    is_token = tokens == token
    real = is_token & (mask == 1)
    if not torch.equal(is_token, is_ignored) or int(real.any(1).sum()) < len(labels) / 2:
        return None
    return UnlearnedToken(token, int(is_token.sum()), int(real.sum()), int(real.any(1).sum()))


def _repeats(tokens: Tensor, labels: Tensor, is_ignored: Tensor) -> bool:
    """Return whether labels are the tokens themselves except where they are ignored."""
    return bool(is_ignored.any()) and torch.equal(tokens[~is_ignored], labels[~is_ignored].to(tokens.dtype))


def _position_labels(first_pass: ForwardPass) -> Tensor:
    """Return the targets, if they are one class or token for each position of several rows."""
    labels = first_pass.batch.target_or_label
    if not isinstance(labels, Tensor) or labels.dim() != 2 or labels.is_floating_point() or len(labels) < _MIN_ROWS:
        raise NotChecked("the targets are not one class for each position")
    return labels


@dataclass(frozen=True)
class UnlearnedClass:
    """A class whose number the loss ignores, its positions in the first batch, and those before a label it learns.

    ``line`` is the one of the loss that compares the labels with it, or that sets its class weight to zero.
    """

    label: int
    positions: int
    real: int
    line: SourceLine | None = None


@measurement
def unlearned_class(
    setup: Setup, first_pass: ForwardPass, loss: Tensor, loss_calls: list[TorchCall]
) -> UnlearnedClass | None:
    """The class that labels all padding and is ignored, if half of the rows also have it before a learned label.

    It is ignored if the output has no gradient at any of its positions, and has one at all others. A loss may be meant
    to ignore the ends of rows, or all tokens of a vocabulary that are not masked.
    """
    labels, scores = _position_labels(first_pass), score_tensor(first_pass.output)
    axes = get_extra_axes(scores, labels) if isinstance(scores, Tensor) else []
    (gradient,) = compute_output_gradients(loss, [scores]) if axes else (None,)
    if gradient is None or scores.shape[axes[0]] in _vocabulary_sizes(setup):
        return None
    is_ignored = ~(gradient != 0).any(axes[0]).to(labels.device)
    ignored = labels[is_ignored].unique().tolist()  # type: ignore[no-untyped-call]
    if len(ignored) != 1 or not 0 <= ignored[0] < scores.shape[axes[0]]:
        return None
    if not torch.equal(labels == ignored[0], is_ignored) or bool(is_ignored.all()):
        return None
    precedes_learned = (~is_ignored).flip(1).cumsum(1).flip(1) > 0
    for values in named_inputs(first_pass.batch).values():
        padded = find_trailing_positions(values)
        if padded is None or padded.shape != labels.shape or not bool(is_ignored[padded].all()):
            continue
        real = is_ignored & precedes_learned & ~padded.to(labels.device)
        if int(real.any(1).sum()) >= len(labels) / 2:
            line = _ignoring_line(setup, loss_calls, is_ignored, ignored[0])
            return UnlearnedClass(ignored[0], int(is_ignored.sum()), int(real.sum()), line)
    return None


def _ignoring_line(setup: Setup, loss_calls: list[TorchCall], is_ignored: Tensor, label: int) -> SourceLine | None:
    """Return the line of the loss that marks the ignored positions, or that sets the class weight of a label to 0."""
    for call in loss_calls:
        result = call.outputs[0] if call.outputs else None
        if isinstance(result, Tensor) and result.dtype == torch.bool and result.numel() == is_ignored.numel():
            marks = result.reshape(is_ignored.shape).to(is_ignored.device)
            if torch.equal(marks, is_ignored) or torch.equal(marks, ~is_ignored):
                return call.line
        arguments = bind_arguments(F.cross_entropy, call) if call.name == "cross_entropy" else None
        weight = arguments["weight"] if arguments else None
        if isinstance(weight, Tensor) and label < len(weight) and not bool(weight[label]):
            return find_zeroed_entry(user_written_objects(setup)) or call.line
    return None


def _vocabulary_sizes(setup: Setup) -> set[int]:
    return {module.num_embeddings for module in setup.eager_model.modules() if isinstance(module, nn.Embedding)}
