"""Optimizers and schedules by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, OneCycleLR, SequentialLR, StepLR

from nbdebug.exceptions import SetupError

Make = Callable[..., Optimizer]
Schedule = Callable[[Optimizer, int], Any]

NAMED: dict[str, Make] = {
    "SGD": torch.optim.SGD,
    "SGD+momentum": partial(torch.optim.SGD, momentum=0.9),
    "Nesterov": partial(torch.optim.SGD, momentum=0.9, nesterov=True),
    "Adam": torch.optim.Adam,
    "AdamW": torch.optim.AdamW,
    "NAdam": torch.optim.NAdam,
    "RAdam": torch.optim.RAdam,
    "Adamax": torch.optim.Adamax,
    "RMSprop": torch.optim.RMSprop,
    "Adagrad": torch.optim.Adagrad,
    "LBFGS": torch.optim.LBFGS,
}
USUAL = ("SGD", "SGD+momentum", "Adam", "AdamW")
YOURS = "yours"
WARM = 10  # a tenth of the steps, at least one, rises to the rate


def one_cycle(optimizer: Optimizer, steps: int) -> LRScheduler:
    """Up to the rate and down again, with momentum the other way (Smith and Topin 2017, arXiv:1708.07120)."""
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    return OneCycleLR(optimizer, rates, total_steps=max(2, steps), cycle_momentum=has_momentum(optimizer))


def has_momentum(optimizer: Optimizer) -> bool:
    """Whether an optimizer has momentum; one cycle would give it to plain SGD as well."""
    return all("betas" in group or group.get("momentum") for group in optimizer.param_groups)


def cosine(optimizer: Optimizer, steps: int) -> LRScheduler:
    """A linear warm-up, then a cosine down to nothing (Loshchilov and Hutter 2017, arXiv:1608.03983)."""
    warm = max(1, steps // WARM)
    parts = [LinearLR(optimizer, 0.01, total_iters=warm), CosineAnnealingLR(optimizer, max(1, steps - warm))]
    return SequentialLR(optimizer, parts, [warm])


def steps_down(optimizer: Optimizer, steps: int) -> LRScheduler:
    """A tenth of the rate after each third of the steps."""
    return StepLR(optimizer, max(1, steps // 3), 0.1)


def linear(optimizer: Optimizer, steps: int) -> LRScheduler:
    """A straight line down to nothing."""
    return LinearLR(optimizer, 1.0, 1e-3, total_iters=steps)


SCHEDULES: dict[str, Schedule | None] = {
    "constant": None,
    "one-cycle": one_cycle,
    "cosine": cosine,
    "step": steps_down,
    "linear": linear,
}
COSINE = """\
warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=steps // 10)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - steps // 10)
scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], [steps // 10])"""
LINES = {
    "one-cycle": "scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr={rates}, total_steps=steps{plain})",
    "cosine": COSINE,
    "step": "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, steps // 3, 0.1)",
    "linear": "scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1e-3, total_iters=steps)",
}


def named(name: str) -> tuple[str, Make]:
    """An optimizer by its name, however it is capitalized; raises SetupError for an unknown one."""
    found = {one.lower(): one for one in NAMED}.get(name.lower())
    if found is None:
        choices = ", ".join((YOURS, *NAMED))
        raise SetupError(f"optimizer is {name!r}; expected one of {choices}. Or pass a class, or what makes one.")
    return found, NAMED[found]


def scheduled(given: Any) -> dict[str, Schedule | None]:
    """Schedules by name, from names, what makes one of an optimizer and a number of steps, or both by name."""
    if given is None:
        return {"constant": None}
    if given == "all" or (isinstance(given, (list, tuple)) and "all" in given):
        return dict(SCHEDULES)
    several = given if isinstance(given, (list, tuple, Mapping)) else (given,)
    pairs = several.items() if isinstance(several, Mapping) else ((None, one) for one in several)
    found = dict(schedule(name, one) for name, one in pairs)
    if not found:
        raise SetupError("schedules has 0 entries; expected at least one. Leave it out for a constant rate.")
    return found


def schedule(name: Any, given: Any) -> tuple[str, Schedule | None]:
    """One schedule with its name."""
    if isinstance(given, str):
        if given not in SCHEDULES:
            choices = ", ".join(("all", *SCHEDULES))
            raise SetupError(f"schedule is {given!r}; expected one of {choices}. Or pass what makes one.")
        return name or given, SCHEDULES[given]
    if given is not None and not callable(given):
        said = f"schedule is a {type(given).__name__}; expected a name or a function of optimizer and steps"
        raise SetupError(f"{said}. Pass lambda optimizer, steps: StepLR(optimizer, steps // 3).")
    return name or str(getattr(given, "__name__", "schedule")), given
