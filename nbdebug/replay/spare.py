"""A copy of the weights that the device itself stops renewing at the first loss that is not finite."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Spare:
    """The weights of the step at which a loss was first not finite, or of the last step; nobody waits for the device.

    It takes as much memory as the weights, and one pass over them a step.
    """

    def __init__(self, tensors: Sequence[Tensor], device: torch.device) -> None:
        self.held = list(tensors)
        self.copies = [one.detach().clone() for one in self.held]
        self.fine = self.fine_now = torch.ones((), dtype=torch.bool, device=device)

    def seen(self, losses: Sequence[Tensor], scaled: bool = False) -> None:
        """Losses of the step that is under way; of one that a GradScaler ``scaled`` only NaN counts."""
        for one in losses:
            fine = one.detach().isnan().logical_not() if scaled else one.detach().isfinite()
            self.fine_now = self.fine_now & fine.reshape(()).to(self.fine.device)

    @torch.no_grad()
    def keep(self, finite: bool | Tensor = True) -> None:
        """The weights are about to be moved by gradients that are finite, or not."""
        for copy, one in zip(self.copies, self.held, strict=True):
            copy.copy_(torch.where(self.fine.to(one.device), one, copy))
        self.fine_now = self.fine = self.fine & self.fine_now & finite
