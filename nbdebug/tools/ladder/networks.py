"""Reference networks: fully connected ones of growing width and depth, in place of the user's model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.setup import Batch, Setup
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.tools.treatments.treated_setup import TreatedSetup

HIDDEN_SIZES = ((16,), (64,), (256,), (256, 256))
_MIN_SPREAD = 1e-6
_TOLERANCE = 1e-4  # of a sum of probabilities


class _ReferenceNetwork(nn.Module):
    """Standardizes and flattens the inputs, and applies linear layers with ReLU between them.

    ``examples`` are batches from which the means and standard deviations are computed. The output has the shape of
    ``output``, one of the user's, for each sample, and consists of probabilities or their logarithms if that does.
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, hidden: Sequence[int], examples: Sequence[Batch], output: Tensor) -> None:
        super().__init__()
        rows = torch.cat([_flatten(batch.args, batch.kwargs) for batch in examples])
        self.register_buffer("mean", rows.mean(0))
        self.register_buffer("spread", rows.std(0).clamp_min(_MIN_SPREAD))
        self.output_shape, self.final = tuple(output.shape[1:]), _final_function(output)
        sizes = [rows.shape[1], *hidden, prod(self.output_shape)]
        layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
        self.layers = nn.Sequential(*layers[:-1]).to(rows.device)

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return one output of the shape of the user's for each sample."""
        rows = ((_flatten(args, kwargs) - self.mean) / self.spread).clamp(-10, 10)
        output: Tensor = self.layers(rows)
        return self.final(output.reshape(len(rows), *self.output_shape))


def network_obstacle(setup: Setup, batch: Batch) -> str:
    """Return why no reference network can take the place of the model; "" if one can."""
    if setup.step_fn is not None or setup.forward is not None:
        return "your own step or forward function calls the model"
    parts = tree_tensors((batch.args, batch.kwargs))
    if not all(part.is_floating_point() and part.dim() and len(part) == batch.size for part in parts):
        return "the inputs are not numbers of the same size for each sample"
    with torch.no_grad():
        output = setup.predict(batch)
    if not isinstance(output, Tensor) or not output.dim() or len(output) != batch.size:
        return "the output is not one tensor with a row for each sample"
    return ""


def use_network(treated: TreatedSetup, hidden: Sequence[int]) -> bool:
    """Train a reference network instead of the model, by Adam at a rate that fits its weights."""
    with torch.no_grad():
        output = treated.setup.predict(treated.batches[0])
    treated.model = _ReferenceNetwork(hidden, treated.batches, output).train()
    treated.optimizer = treated.trainable.adam()
    return True


def _final_function(output: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the function that gives outputs of the same kind: probabilities, their logarithms or any numbers."""
    if output.dim() > 1 and output.shape[1] > 1:
        if _are_shares(output):
            return partial(torch.softmax, dim=1)
        if _are_shares(output.exp()):
            return partial(torch.log_softmax, dim=1)
    return torch.sigmoid if bool(((output > 0) & (output < 1)).all()) else nn.Identity()


def _are_shares(values: Tensor) -> bool:
    return bool((values >= 0).all()) and bool(((values.sum(1) - 1).abs() < _TOLERANCE).all())


def _flatten(args: Any, kwargs: Any) -> Tensor:
    """Return one row of numbers for each sample."""
    return torch.cat([part.flatten(1) if part.dim() > 1 else part[:, None] for part in tree_tensors((args, kwargs))], 1)
