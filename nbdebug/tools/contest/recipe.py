"""The lines of code that make a candidate, ready to paste."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from nbdebug.tools.contest.candidates import Candidate
from nbdebug.tools.contest.kinds import LINES, has_momentum

PARTS = '[{"params": group["params"]} for group in optimizer.param_groups]'
RATED = '[{{"params": group["params"], "lr": rate}} for group, rate in zip(optimizer.param_groups, {rates})]'


def code(one: Candidate) -> str:
    """The optimizer as it ran, and its schedule over ``steps`` steps, to be stepped after every batch."""
    built = one.optimizers()
    lines = [made(each, f"optimizer{i if len(built) > 1 else ''}") for i, each in enumerate(built)]
    if one.origin == "yours":
        lines = ["# your optimizer as it is"] if len(built) == 1 else ["# your optimizers as they are"]
    if one.schedule is None:
        return "\n".join(lines)
    text = LINES.get(one.scheduled, f"# and your schedule {one.scheduled!r}")
    plain = "" if all(map(has_momentum, built)) else ", cycle_momentum=False"
    return "\n".join([*lines, text.format(rates=written(rates(built[0])), plain=plain)])


def made(optimizer: Optimizer, name: str) -> str:
    """An optimizer with all settings that are not its defaults."""
    kind = type(optimizer)
    place = "torch.optim" if getattr(torch.optim, kind.__name__, None) is kind else kind.__module__
    parts = [parameters(optimizer), *settings(optimizer)]
    return f"{name} = {place}.{kind.__name__}({', '.join(parts)})"


def parameters(optimizer: Optimizer) -> str:
    """What an optimizer is made of: all parameters, else the user's groups with their own rates."""
    if len(optimizer.param_groups) == 1:
        return "model.parameters()"
    return PARTS if len(set(rates(optimizer))) == 1 else RATED.format(rates=written(rates(optimizer)))


def settings(optimizer: Optimizer) -> list[str]:
    """The rate, and what else differs from the defaults of the class."""
    known = inspect.signature(type(optimizer).__init__).parameters
    now: dict[str, Any] = {**optimizer.defaults, **{"lr": rates(optimizer)[0]}}
    said = {name: value for name, value in now.items() if name in known and differs(value, known[name].default)}
    return [f"{name}={value:.2g}" if name == "lr" else f"{name}={value!r}" for name, value in said.items()]


def differs(value: Any, default: Any) -> bool:
    """Whether a setting is to be written down."""
    return isinstance(value, (bool, int, float, str, tuple)) and value != default


def rates(optimizer: Optimizer) -> list[float]:
    """The rate of each group."""
    return [float(group.get("lr", 0.0)) for group in optimizer.param_groups]


def written(values: Sequence[float]) -> str:
    """One rate, or a list where the groups differ."""
    texts = [f"{value:.2g}" for value in values]
    return texts[0] if len(set(texts)) == 1 else f"[{', '.join(texts)}]"
