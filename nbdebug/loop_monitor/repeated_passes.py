"""Passes that repeat the input of the previous one in train mode, as Monte Carlo dropout does."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import nn

from nbdebug.tensors.pytree import tree_tensors

_MIN_SHARE = 0.6  # of the passes in train mode; three passes of each batch repeat it in two of three passes


class RepeatedPassCounter:
    """Counts passes over validation data in train mode, without gradients, that repeat the input of the previous pass.

    Inputs are the same if they have the same memory, and no batch was drawn in between. A pass with a normalization
    in train mode does not count: it updates running statistics.
    """

    def __init__(self, modules: Collection[nn.Module]) -> None:
        self.normalizations = [module for module in modules if isinstance(module, nn.modules.batchnorm._NormBase)]
        self.previous: object = None
        self.passes = self.repeated = 0

    def on_batch(self) -> None:
        """Record that a loader has yielded a batch."""
        self.previous = None

    def on_forward_begin(self, split: str, is_training: bool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Record the start of a pass of the whole model."""
        if split != "val" or not is_training:
            self.previous = None
            return
        self.passes += 1
        inputs = tuple([(tensor.data_ptr(), tensor.shape) for tensor in tree_tensors((args, dict(kwargs)))])
        is_sample = not torch.is_grad_enabled() and not any(module.training for module in self.normalizations)
        self.repeated += is_sample and bool(inputs) and inputs == self.previous
        self.previous = inputs

    @property
    def is_sampling(self) -> bool:
        """True if most passes in train mode repeat an input, so that they sample the dropout."""
        return self.repeated > 0 and self.repeated >= _MIN_SHARE * self.passes
