"""Optimizers of the healthy programs."""

from __future__ import annotations

import torch
from torch import nn


def adam(model: nn.Module, lr: float = 1e-3) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=lr)
