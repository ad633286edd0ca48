"""A look beyond layers that start at zero, as heads, gates and adapters often do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from nbdebug.preserve import Preserve

SPREAD = 0.02  # the standard deviation that GPT-2 and BERT draw their weights with


@contextmanager
def filled(model: nn.Module) -> Iterator[None]:
    """A block in which no parameter is all zeros: those that are hold small random numbers until it ends."""
    with Preserve(model), torch.no_grad():
        for parameter in model.parameters():
            if not bool(parameter.any()):
                parameter.normal_(0.0, SPREAD)
        yield
