"""Which values of weights in few bits a step should move, and does."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nbdebug.loop.interval import Stepper

FULL, SAMPLES = 4, 4096  # bytes of a float32; values of a weight that are followed


@dataclass(frozen=True)
class Moved:
    """One step of one weight: its rate, how many sampled values had a gradient, and how many of those moved."""

    rate: float
    asked: int
    moved: int


class Lost:
    """Compares samples of weights in fewer than 32 bits before and after a step that is looked at."""

    def __init__(self, model: nn.Module) -> None:
        self.names = {
            id(p): name
            for name, p in model.named_parameters()
            if p.requires_grad and p.is_floating_point() and p.element_size() < FULL and p.dim() > 1
        }
        self.before: list[tuple[str, float, Tensor, Tensor, Tensor]] = []
        self.seen: defaultdict[str, list[Moved]] = defaultdict(list)

    def begins(self, stepper: Stepper) -> None:
        """A step is about to be made; optimizers from outside torch may keep what is rounded off, and are left out."""
        self.before.clear()
        optimizer = stepper.optimizer
        if not type(optimizer).__module__.startswith("torch.optim") or isinstance(optimizer, torch.optim.LBFGS):
            return
        for group in optimizer.param_groups:
            for p in group["params"]:
                if id(p) in self.names and p.grad is not None and not p.grad.is_sparse:
                    values, gradient = sampled(p), sampled(p.grad) != 0
                    self.before.append((self.names[id(p)], float(group["lr"]), p, values.clone(), gradient))

    def done(self) -> None:
        """The step was made; waits for the device."""
        for name, rate, p, values, asked in self.before:
            moved = asked & (sampled(p) != values)
            self.seen[name].append(Moved(rate, int(asked.sum()), int(moved.sum())))
        self.before.clear()


def sampled(tensor: Tensor) -> Tensor:
    """Values at fixed places, an odd stride apart so that no column is favored."""
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // SAMPLES) | 1]
