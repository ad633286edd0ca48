"""The settings that a change consists of, and their assignment to the user's own optimizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.tools.treatments.treated_setup import TreatedSetup

_RATE_KEYS = ("lr", "initial_lr", "max_lr", "min_lr")


@dataclass(frozen=True)
class GroupSetting:
    """A setting of one parameter group of one optimizer, by their numbers, before and after a change."""

    optimizer: int
    group: int
    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        """Return text such as ``lr of group 0: 0.1 → 0.01``."""
        optimizer = f" of optimizer {self.optimizer}" if self.optimizer else ""
        return f"{self.name} of group {self.group}{optimizer}: {_text(self.before)} → {_text(self.after)}"


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class _CopyState:
    """What a change can alter in a copy: the settings of the optimizers, and everything else."""

    groups: list[list[dict[str, Any]]]
    others: list[Any]
    kept: tuple[Any, ...]  # the objects whose ids are compared, so that none is used again


def copy_state(treated: TreatedSetup) -> _CopyState:
    """Return the state of a copy."""
    groups = [
        [{name: _plain(value) for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
        for optimizer in treated.optimizers
    ]
    parts = ("model", "loss_fn", "train_loader", "val_loader", "forward", "unpack", "extra_state")
    others: list[Any] = [id(getattr(treated.setup, name)) for name in parts]
    others += [treated.max_norm, treated.schedule, treated.samples_per_step]
    others += [(type(item), [[id(p) for p in g["params"]] for g in item.param_groups]) for item in treated.optimizers]
    model = treated.model
    others += [
        (name, id(tensor), tensor._version, tensor.requires_grad)
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]
    ]
    others += [(name, type(module), module.training, module.extra_repr()) for name, module in model.named_modules()]
    return _CopyState(groups, others, (treated.setup, *model.parameters(), *model.buffers()))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def changed_settings(before: _CopyState, after: _CopyState) -> tuple[GroupSetting, ...]:
    """Return the settings that differ; none if anything else differs, too."""
    if before.others != after.others:
        return ()
    return tuple(
        GroupSetting(number, index, name, old[name], value)
        for number, (olds, news) in enumerate(zip(before.groups, after.groups, strict=True))
        for index, (old, new) in enumerate(zip(olds, news, strict=True))
        for name, value in new.items()
        if name in old and old[name] != value
    )


def assign_settings(setup: Setup, settings: Sequence[GroupSetting], log: Callable[[str], None]) -> None:
    """Assign settings to the user's optimizers; the rates of a schedule are scaled with the learning rate.

    Raises SetupError if the setup has no optimizer of its own.
    """
    if not setup.optimizers:
        raise SetupError("the setup has no optimizer; expected one to set. Create it with the setting.")
    for setting in settings:
        optimizer = setup.optimizers[setting.optimizer]
        group = optimizer.param_groups[setting.group]
        if setting.name == "lr":
            _scale_rates(setup, optimizer, setting)
        elif isinstance(present := group[setting.name], Tensor):
            present.fill_(setting.after)
        else:
            group[setting.name] = setting.after
        log(f"{type(optimizer).__name__}: {setting}, at your request")


def _scale_rates(setup: Setup, optimizer: Optimizer, setting: GroupSetting) -> None:
    """Set the learning rate of a group, and scale what a schedule has stored for it."""
    group = optimizer.param_groups[setting.group]
    factor = setting.after / setting.before if setting.before else None
    for key in _RATE_KEYS:
        if key in group and (key == "lr" or setup.scheduler is not None):
            value = setting.after if factor is None else factor * _plain(group[key])
            if isinstance(group[key], Tensor):
                group[key].fill_(value)
            else:
                group[key] = value
    for scheduler in setup.schedulers:
        for own in (scheduler, *getattr(scheduler, "_schedulers", ())):
            if getattr(own, "optimizer", None) is optimizer and hasattr(own, "base_lrs") and factor is not None:
                own.base_lrs[setting.group] *= factor
