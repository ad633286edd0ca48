"""O510: betas, momentum, eps or another setting of a parameter group is invalid."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from math import sqrt
from typing import Any

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.records import Record
from nbdebug.rule_engine.predictions import POOR_TRAINING
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.setup.optimizer_code import setting_fix
from nbdebug.setup.source_lines import option_line
from nbdebug.source.location import get_location
from nbdebug.tensors.sampling import strided_sample

_ALIASES = {"learning_rate": "lr", "rate": "lr", "wd": "weight_decay", "decay": "weight_decay", "beta": "betas"}
_LONG_MOMENTUM = 0.995  # recipes use 0.9 to 0.99
_DOMINATING_FACTOR, _DOMINATED_SHARE, _MAX_SAMPLED_VALUES = 5, 0.9, 1000
_HIGH_ADAPTIVE_RATE = 0.02  # recipes with a large eps raise the rate above this, as Inception does: 0.045
_InvalidSetting = tuple[str, Any, str, str, Any]  # key, value, expected, cause, replacement


@rule("O510", "warning", origin="optimizer", asked_again=True)
def odd_optimizer_setting(
    setup: Setup, optimizers: tuple[torch.optim.Optimizer, ...], record: Record | NotChecked
) -> Iterator[Finding]:
    """An optimizer setting is outside the range that works.

    ## What it does
    Reads the settings of every parameter group. Reported are decay rates of the moments in the wrong order, a momentum
    that never decays or that takes 200 steps and more, an eps that is zero or that the dtype of the weights rounds to
    zero, a learning rate of zero that no scheduler will raise and that the watched loop never raised, and a key that
    the optimizer does not know. After a run that did not learn, also an eps that is far above the gradients.

    ## Why it matters
    Torch accepts these settings silently. A misspelled key leaves the group at the default; moments in the wrong order
    cause steps that do not converge; a momentum of one accumulates all gradients without decay; an eps of zero divides
    zero by zero.

    ## How it is measured
    Exactly, by the parameter groups. Recipes use a momentum of 0.9 to 0.99, as nnU-Net does; it is reported from 0.995
    on, where the velocity reaches 200 times the gradient. The bound for Adam is that of its convergence proof, beta1 <
    sqrt(beta2), which (0.9, 0.999), (0.9, 0.95), (0.5, 0.999) and (0, 0.9) satisfy. A key is a misspelling if it is an
    alias of a known key or close to its name; other keys, such as those that schedulers store in a group, are not
    reported. An eps dominates if it is above the root of the second moment for nine tenths of the sampled values, and
    five times its median: the step is then the gradient times lr / eps, as in plain gradient descent. A rate above
    0.02, as in recipes that choose a large eps, is taken to make up for it.

    ## How to fix
    Set the value that the message names.

    ## When to ignore
    When your own code reads the key, or raises the learning rate later.

    ## References
    Kingma and Ba 2015, arXiv:1412.6980, theorem 4.1; Isensee et al. 2021, Nature Methods 18, on nnU-Net; Reddi et al.
    2018, arXiv:1904.09237, on beta1 < sqrt(beta2).
    """
    for optimizer_index, optimizer in enumerate(optimizers):
        for group_index, group in enumerate(optimizer.param_groups):
            if not any(p.requires_grad for p in group["params"]):
                continue
            has_schedule = setup.scheduler is not None or _had_rate(record)
            for setting in [
                *_invalid_values(group, has_schedule),
                *_misspelled_keys(group, optimizer.defaults),
                *(() if _has_learned(record) else _dominating_eps(optimizer, group)),
            ]:
                yield _finding(setup, setting, optimizer_index, group_index)


def _has_learned(record: Record | NotChecked) -> bool:
    """Return whether a recorded run shows that its settings train the model."""
    return not isinstance(record, NotChecked) and bool(POOR_TRAINING.disproof(record))


def _had_rate(record: Record | NotChecked) -> bool:
    """Return whether a recorded run had a learning rate above zero at any step."""
    return not isinstance(record, NotChecked) and bool((record.series("lr")[1] > 0).any())


def _finding(setup: Setup, setting: _InvalidSetting, optimizer_index: int, group_index: int) -> Finding:
    key, value, expected, cause, replacement = setting
    line = option_line(setup, setup.optimizers[optimizer_index], key, value)
    return Finding(
        where=get_location(line),
        message=f"{key} is {value!r} in group {group_index} of optimizer {optimizer_index}; expected {expected}.",
        cause=cause,
        fix=f"Set {key} of group {group_index} where the optimizer is created: {expected}."
        if replacement is None or len(setup.optimizers) > 1
        else setting_fix(setup, key, replacement, group_index),
        evidence={"setting": key, "value": value, "group": group_index},
        explains=("O501", "O502", "T601", "T602", "T604"),
    )


def _invalid_values(group: dict[str, Any], scheduled: bool) -> Iterator[_InvalidSetting]:
    lr, betas, momentum = float(group.get("lr", 1.0)), group.get("betas"), group.get("momentum")
    if lr < 0:
        yield "lr", lr, "a positive rate", "Steps increase the loss.", -lr
    if lr == 0 and not scheduled and "initial_lr" not in group:
        yield "lr", lr, "a positive rate", "No step changes anything, and no scheduler raises the rate.", None
    if betas is not None and len(betas) == 2 and float(betas[0]) > sqrt(float(betas[1])):
        yield (
            "betas",
            tuple(map(float, betas)),
            "beta1 < sqrt(beta2), such as (0.9, 0.999)",
            "The two values are swapped or mistyped.",
            tuple(sorted(map(float, betas))),
        )
    if momentum is not None and float(momentum) >= 1:
        yield "momentum", float(momentum), "below 1, such as 0.9", "Old gradients never decay.", 0.9
    elif momentum is not None and float(momentum) >= _LONG_MOMENTUM and not group.get("dampening", 0):
        steps = 1 / (1 - float(momentum))
        cause = (
            f"The velocity sums the gradients of about {steps:,.0f} steps, so a step is up to {steps:,.0f} times lr."
        )
        yield "momentum", float(momentum), "at most 0.99, such as 0.9", cause, 0.9
    if momentum and group.get("dampening", 0) >= 1:
        yield "dampening", group["dampening"], "below 1, such as 0", "Only the first gradient enters the momentum.", 0
    yield from _invalid_eps(group)


def _invalid_eps(group: dict[str, Any]) -> Iterator[_InvalidSetting]:
    """An eps that does not prevent a division by zero."""
    eps = group.get("eps")
    if not isinstance(eps, float) or not {"betas", "alpha", "rho"} & group.keys():
        return
    dtypes = {p.dtype for p in group["params"] if p.is_floating_point()}
    if zero_dtypes := [dtype for dtype in dtypes if float(torch.tensor(eps, dtype=dtype)) == 0]:
        name = str(zero_dtypes[0]).removeprefix("torch.")
        yield (
            "eps",
            eps,
            f"above 0 in {name}, such as 1e-4",
            f"It is 0 in {name}: a gradient of zero gives 0 / 0.",
            1e-4,
        )


def _dominating_eps(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> Iterator[_InvalidSetting]:
    """An eps above the root of the second moment in nearly all values of a group that has stepped, most of them far."""
    eps = group.get("eps")
    if max(float(group.get("lr", 0.0)), float(group.get("initial_lr", 0.0))) > _HIGH_ADAPTIVE_RATE:
        return
    roots = [
        root for p in group["params"] if (root := _second_moment_root(optimizer.state.get(p, {}), group)) is not None
    ]
    values = torch.cat(roots) if roots else torch.empty(0)
    values = values[values > 0]
    if not isinstance(eps, float) or not values.numel():
        return
    share, typical = float((values < eps).double().mean()), float(values.median())
    if share >= _DOMINATED_SHARE and eps >= _DOMINATING_FACTOR * typical:
        yield (
            "eps",
            eps,
            f"at most the root of the second moment, typically {typical:.2g} here",
            f"eps is {eps / typical:,.0f} times as large, so the steps are {eps / typical:,.0f} times as small.",
            float(f"{typical / 100:.0e}"),
        )


def _second_moment_root(state: dict[str, Any], group: dict[str, Any]) -> torch.Tensor | None:
    """The root of the second moment of sampled values of a parameter; None if the optimizer has none."""
    moment = state.get("exp_avg_sq", state.get("square_avg"))
    if not isinstance(moment, torch.Tensor) or not moment.numel():
        return None
    steps = float(state.get("step", 0))
    correction = 1 - group["betas"][1] ** steps if "exp_avg_sq" in state and steps and "betas" in group else 1.0
    return (strided_sample(moment, _MAX_SAMPLED_VALUES).float().cpu() / float(correction)).sqrt()


def _misspelled_keys(group: dict[str, Any], defaults: dict[str, Any]) -> Iterator[_InvalidSetting]:
    """The keys of one group that are likely misspelled."""
    for key in sorted(group.keys() - defaults.keys() - {"params", "param_names", "initial_lr", "name"}):
        matches = get_close_matches(key.lower(), defaults, n=1, cutoff=0.8)
        intended = _ALIASES.get(key) or (matches[0] if matches else None)
        if intended in defaults and not key.endswith(f"_{intended}"):  # max_momentum, swa_lr: a scheduler's own
            cause = f"The optimizer ignores {key!r}; {intended} stays at {group[intended]!r}."
            yield key, group[key], f"the key {intended!r}", cause, None


def bad() -> Setup:
    """Adam with its two decay rates swapped."""
    model = network(3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.999, 0.9))
    return minimal_setup(model, *points(), torch.nn.CrossEntropyLoss(), optimizers=(optimizer,))


def good() -> Setup:
    """Adam with its default settings."""
    return classifier()
