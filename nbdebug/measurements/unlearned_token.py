"""Tokens and classes that the loss never asks for, since their number also stands for padding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.padding import find_trailing_positions
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Setup
from nbdebug.setup.batch import named_inputs
from nbdebug.setup.losses import ignore_index, score_tensor

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
    """A class whose number the loss ignores, its positions in the first batch, and those before a label it learns."""

    label: int
    positions: int
    real: int


@measurement
def unlearned_class(setup: Setup, first_pass: ForwardPass, class_axis: int) -> UnlearnedClass | None:
    """The class that labels all padding and is ignored, if half of the rows also have it before a learned label.

    A loss may be meant to ignore the ends of rows, or all tokens of a vocabulary that are not masked.
    """
    labels, ignored = _position_labels(first_pass), ignore_index(setup.loss_fn)
    classes = score_tensor(first_pass.output).shape[class_axis]
    if not 0 <= ignored < classes or classes in _vocabulary_sizes(setup):
        return None
    is_ignored = labels == ignored
    precedes_learned = (~is_ignored).flip(1).cumsum(1).flip(1) > 0
    for values in named_inputs(first_pass.batch).values():
        padded = find_trailing_positions(values)
        if padded is None or padded.shape != labels.shape or not bool(is_ignored[padded].all()):
            continue
        real = is_ignored & precedes_learned & ~padded.to(labels.device)
        if int(real.any(1).sum()) >= len(labels) / 2:
            return UnlearnedClass(ignored, int(is_ignored.sum()), int(real.sum()))
    return None


def _vocabulary_sizes(setup: Setup) -> set[int]:
    return {module.num_embeddings for module in setup.eager_model.modules() if isinstance(module, nn.Embedding)}
