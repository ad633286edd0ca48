"""Changes of the optimizer: learning rate, schedule, warm-up, clipping, optimizer."""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LinearLR

from nbdebug.tools.compare_optimizers.candidates import OPTIMIZERS, SCHEDULES
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.training.hyperparameters import make_hyperparameter

_START_FACTOR = 0.01  # of the learning rate, where a warm-up starts


def set_rate(treated: TreatedSetup, value: tuple[str, float]) -> bool:
    """Set or multiply the learning rate; groups keep their ratios."""
    rate = make_hyperparameter(treated.optimizers, "lr", "scale")
    kind, number = value
    target = number * rate.initial if kind == "factor" else number
    rate.set(target)
    return target != rate.initial


def use_schedule(treated: TreatedSetup, name: str) -> bool:
    """Step a schedule after each step, over the steps of the trial."""
    treated.schedule = SCHEDULES[name]
    return treated.schedule is not None


def warm_up(treated: TreatedSetup, share: float) -> bool:
    """Increase the learning rate linearly over a share of the steps (Goyal et al. 2017, arXiv:1706.02677)."""

    def schedule(optimizer: Optimizer, steps: int) -> LinearLR:
        return LinearLR(optimizer, _START_FACTOR, total_iters=max(1, round(share * steps)))

    treated.schedule = schedule
    return share > 0


def clip(treated: TreatedSetup, norm: float) -> bool:
    """Clip the norm of the gradient."""
    treated.max_norm = norm
    return norm > 0


def use_optimizer(treated: TreatedSetup, name: str) -> bool:
    """Train with another optimizer: adaptive ones at a rate that fits the weights, others at the present rate."""
    adam = treated.trainable.adam()
    present = next((group["lr"] for item in treated.optimizers for group in item.param_groups if "lr" in group), None)
    optimizer: Any = OPTIMIZERS[name](treated.trainable.trainable, lr=float(adam.param_groups[0]["lr"]))
    if "betas" not in optimizer.param_groups[0] and present is not None:
        for group in optimizer.param_groups:
            group["lr"] = float(present)
    treated.optimizers = [optimizer]
    return True
