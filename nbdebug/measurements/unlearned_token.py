"""A token that pads sequences and also ends them, so that the loss never asks for it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Setup
from nbdebug.setup.batch import named_inputs
from nbdebug.setup.losses import ignore_index

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
    labels = first_pass.batch.target_or_label
    if not isinstance(labels, Tensor) or labels.dim() != 2 or labels.is_floating_point() or len(labels) < _MIN_ROWS:
        raise NotChecked("the targets are not one token for each position")
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
