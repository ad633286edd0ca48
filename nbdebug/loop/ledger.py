"""The ledger of parameters: which have a gradient, and which have moved."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor, nn

from nbdebug.loop.interval import pulls

MOST = 2000  # parameters that are followed


class Ledger:
    """What became of each trainable parameter of a model since this was made."""

    def __init__(self, model: nn.Module) -> None:
        named = ((name, p) for name, p in model.named_parameters() if p.requires_grad)
        self.parameters = dict(list(named)[:MOST])
        self.before = {name: fingerprint(one) for name, one in self.parameters.items()}
        self.pulled: Counter[str] = Counter()
        self.changed: set[str] = set()
        self.looks = 0

    def look_at_gradients(self) -> None:
        """Notes which parameters have a gradient that is not zero."""
        self.looks += 1
        self.pulled.update(name for name, one in self.parameters.items() if pulls(one))

    def look_at_values(self) -> None:
        """Notes which parameters are not what they were."""
        left = {name: one for name, one in self.parameters.items() if name not in self.changed}
        self.changed |= {name for name, one in left.items() if fingerprint(one) != self.before[name]}

    @property
    def always_pulled(self) -> frozenset[str]:
        """The parameters that had a gradient at every look."""
        return frozenset(name for name, count in self.pulled.items() if count == self.looks)


@torch.no_grad()
def fingerprint(parameter: Tensor) -> tuple[float, ...]:
    """Sum and sum of squares in double precision, which no change of the values leaves both as they were."""
    values = parameter.detach()
    values = torch.view_as_real(values) if values.is_complex() else values
    values = values.to_dense() if values.layout is not torch.strided else values
    exact = values.double().flatten()
    return float(exact.sum()), float(exact @ exact)
