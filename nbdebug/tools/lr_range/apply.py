"""Sets a value in the user's own optimizers, the only change a range test can make, and writes code to paste."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any

from nbdebug.exceptions import SetupError
from nbdebug.training.hyperparameters import Hyperparameter, rates_code, read_quantity

_LEARNING_RATE_KEYS = ("lr", "initial_lr", "max_lr", "min_lr")
_EXAMPLE_EPOCHS = 10
_ONE_CYCLE_TEMPLATE = (
    "scheduler = torch.optim.lr_scheduler.OneCycleLR("
    "{optimizer}, max_lr={rates}, epochs={epochs}, steps_per_epoch=len(train_loader){options})"
)
_NO_MOMENTUM_OPTION = ", cycle_momentum=False"
_WARMUP_TEMPLATE = """\
{optimizer}.param_groups[0]["lr"] = {rates}
steps = {epochs} * len(train_loader)
warmup = steps // 20 + 1
parts = [
    torch.optim.lr_scheduler.LinearLR({optimizer}, 0.01, total_iters=warmup),
    torch.optim.lr_scheduler.CosineAnnealingLR({optimizer}, steps - warmup),
]
scheduler = torch.optim.lr_scheduler.SequentialLR({optimizer}, parts, milestones=[warmup])"""
_GROUP_RATES_TEMPLATE = """\
for group, rate in zip({optimizer}.param_groups, {rates}, strict=True):
    group["lr"] = rate"""


@dataclass(frozen=True)
class Setter:
    """Sets a value in the optimizers that were swept; ``owned`` says that they are the user's own.

    ``log`` is called with a line for each change.
    """

    hyperparameter: Hyperparameter
    owned: bool = True
    scheduler: Any = None
    log: Callable[[str], None] | None = None

    def group_values(self, value: float) -> list[list[float]]:
        """Return the value of each group of each optimizer at a value of the sweep."""
        return self.hyperparameter.group_values(value)

    def set(self, value: float) -> None:
        """Set the value; with a scheduler, set the highest rate that it reaches and scale all others with it."""
        previous = self.hyperparameter.value
        if self.hyperparameter.quantity == "lr" and self.scheduler is not None:
            self.rescale_schedule(value)
        else:
            self.hyperparameter.set(value)
        names = " and ".join(type(optimizer).__name__ for optimizer in self.hyperparameter.optimizers)
        if self.log is not None:
            self.log(f"{self.hyperparameter.quantity} of {names}: {previous:.3g} → {value:.3g}, at your request")

    def rescale_schedule(self, value: float) -> None:
        """Scale all rates of a schedule so that the highest one equals the value."""
        for optimizer, new_values in zip(
            self.hyperparameter.optimizers, self.hyperparameter.group_values(value), strict=True
        ):
            for group, rate in zip(optimizer.param_groups, new_values, strict=True):
                highest = read_quantity(group, "lr", scheduled=True)
                for name in _LEARNING_RATE_KEYS if highest else ():
                    if name in group:
                        group[name] = group[name] * (rate / highest)
        for scheduler in (self.scheduler, *getattr(self.scheduler, "_schedulers", ())):
            scheduled_optimizer = getattr(scheduler, "optimizer", None)
            if scheduled_optimizer in self.hyperparameter.optimizers and hasattr(scheduler, "base_lrs"):
                scheduler.base_lrs = [
                    float(group.get("initial_lr", group["lr"])) for group in scheduled_optimizer.param_groups
                ]


def apply_value(setter: Setter | None, quantity: str, value: float | None) -> float:
    """Set a value in the user's optimizers; raise SetupError if there is nothing to set."""
    if value is None:
        raise SetupError(f"there is no recommended {quantity}; expected a value. Pass one: apply(0.01).")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value < 0:
        raise SetupError(f"value is {value!r}; expected a number of at least 0. Leave it out for the recommended one.")
    if setter is None or not setter.owned:
        raise SetupError(
            f"the range test used no optimizer of yours; expected one to set. Create yours with {quantity}={value:.2g}."
        )
    setter.set(float(value))
    return float(value)


def recommended_code(quantity: str, value: float | None, setter: Setter | None) -> str:
    """Return a one-cycle schedule for each optimizer, or the option to set for other quantities; empty without a value.

    Smith 2018, arXiv:1803.09820: one cycle up to the highest rate of the range test. Call ``step()`` at every step.
    """
    if value is None:
        return ""
    if quantity != "lr":
        return _option_code(quantity, value, setter)
    return "\n".join(
        _ONE_CYCLE_TEMPLATE.format(optimizer=name, rates=rates, epochs=_EXAMPLE_EPOCHS, options=options)
        for (name, rates), options in zip(_rates_by_optimizer(value, setter), _one_cycle_options(setter), strict=True)
    )


def _one_cycle_options(setter: Setter | None) -> list[str]:
    """Return the options that each optimizer needs: OneCycleLR raises an error for one without momentum."""
    if setter is None:
        return [""]
    return [
        "" if any(read_quantity(group, "momentum", False) for group in optimizer.param_groups) else _NO_MOMENTUM_OPTION
        for optimizer in setter.hyperparameter.optimizers
    ]


def _option_code(quantity: str, value: float, setter: Setter | None) -> str:
    """Return the optimizer option; the momentum of an Adam-like optimizer is its first beta."""
    group = setter.hyperparameter.optimizers[0].param_groups[0] if setter is not None else {}
    if quantity == "momentum" and "momentum" not in group and "betas" in group:
        return f"betas=({value:.2g}, {float(group['betas'][1]):g})"
    return f"{quantity}={value:.2g}"


def warmup_code(quantity: str, value: float | None, setter: Setter | None) -> str:
    """Return a linear warm-up over 1/20 of the steps, then a cosine; empty without a recommended learning rate.

    Loshchilov and Hutter 2017, arXiv:1608.03983, for the cosine; Goyal et al. 2017, arXiv:1706.02677, for the warm-up.
    """
    if value is None or quantity != "lr":
        return ""
    blocks = []
    for name, rates in _rates_by_optimizer(value, setter):
        text = _WARMUP_TEMPLATE.format(optimizer=name, rates=rates, epochs=_EXAMPLE_EPOCHS)
        if rates.startswith("["):
            text = "\n".join([_GROUP_RATES_TEMPLATE.format(optimizer=name, rates=rates), *text.split("\n")[1:]])
        blocks.append(text)
    return "\n".join(blocks)


def setting_code(quantity: str, setter: Setter | None) -> str:
    """Return a line that sets VALUE in every group as a sweep does, or only the option without an optimizer."""
    if setter is None or not setter.owned:
        return f"{quantity}=VALUE"
    groups = "optimizer.param_groups"
    if len(setter.hyperparameter.optimizers) > 1:
        groups = "[group for optimizer in optimizers for group in optimizer.param_groups]"
    if quantity == "momentum" and "momentum" not in setter.hyperparameter.optimizers[0].param_groups[0]:
        return f'for group in {groups}: group["betas"] = (VALUE, group["betas"][1])'
    assignment = "= VALUE" if setter.hyperparameter.is_uniform else f"*= VALUE / {setter.hyperparameter.initial:.6g}"
    return f'for group in {groups}: group["{quantity}"] {assignment}'


def _rates_by_optimizer(value: float, setter: Setter | None) -> list[tuple[str, str]]:
    """Return the name and the rates of each optimizer, a list if its groups differ."""
    group_values = setter.group_values(value) if setter is not None else [[value]]
    names = ["optimizer"] if len(group_values) == 1 else [f"optimizers[{i}]" for i in range(len(group_values))]
    return [(name, rates_code(rates)) for name, rates in zip(names, group_values, strict=True)]
