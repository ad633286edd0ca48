"""O509: weight decay exceeds the gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import sqrt
from typing import Any

import torch
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.measurements.decay_balance import DecayBalance, is_decoupled
from nbdebug.measurements.gradients import GradientNorm
from nbdebug.measurements.parameter_coverage import ParameterEntry, format_names
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.setup.optimizer_code import setting_fix
from nbdebug.setup.source_lines import option_line
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.search import call_name, find_unique_line

_CONSEQUENCES = (
    *("G403", "G409", "G410", "G411", "G415"),
    *("T601", "T606", "T607", "T608", "T610", "T614", "E702", "E706", "E709", "M307"),
)


@rule("O509", "warning", origin="optimizer")
def weight_decay_too_strong(
    setup: Setup,
    parameters: list[ParameterEntry],
    gradient_norms: dict[str, GradientNorm] | NotChecked,
    optimizers: tuple[torch.optim.Optimizer, ...],
    loop: LoopSummary | NotChecked,
    decay_balance: DecayBalance | NotChecked,
    *,
    times: float = 3.0,
    shrink: float = 0.05,
    least: int = 5,
    better: float = 0.2,
) -> Iterator[Finding]:
    """Weight decay exceeds the gradient of the loss, or keeps the model from learning.

    ## What it does
    Compares, for each parameter group, the gradient of the first batch with the term that weight decay adds to it. In
    your loop, looks for weights whose gradient is set to zero, as to freeze them, and that change nevertheless. After a
    run that learned little, looks at the decay again, and trains a copy without it.

    ## Why it matters
    The optimizer then mostly follows the decay: weights shrink to zero regardless of the data, and the output with
    them.

    ## How it is measured
    By the norms over the whole group, at the initial weights, where gradients are largest. Reported if the decay term
    is more than ``times`` = 3 times the gradient. Under SGD, and with decoupled decay as in AdamW, a weight shrinks by
    rate times decay per step (divided by 1 minus momentum); the limit for this is ``shrink`` = 5%, which halves a
    weight in 14 steps. In your loop, exactly: a decayed parameter changed, and in ``least`` = 5 or more inspected steps
    its gradient was nonzero after the backward pass and all zeros when the optimizer stepped.

    After a run that ends with more than 30% of the loss of a constant prediction, two copies are compared: one goes on
    for 100 steps with the decay, the other without it. Both start from new initial weights if the run ends with more
    than 90%, since the decay may have left weights that are too small to learn from. This is done if the decay term of
    a weight matrix is at least a quarter of its mean gradient over eight batches. It is also done, after a run that
    ends with more than 10%, if decoupled decay alone would shrink the weights by a factor of e in the run. Reported if
    the loss of a validation batch is lower without it by ``better`` = 20%.

    ## How to fix
    Use a decay of 1e-4 to 1e-2 (up to 0.1 for AdamW). Freeze weights by ``requires_grad_(False)``, and pass the others
    to the optimizer.

    ## When to ignore
    When the loss was divided by a large number and the decay was chosen for it.

    ## References
    Loshchilov and Hutter 2019, arXiv:1711.05101: decay as part of the gradient, and decoupled decay.
    """
    if isinstance(loop, LoopSummary) and loop.cleared_gradients.decay_steps >= least:
        yield from _zeroed_gradient_findings(setup, loop, parameters)
    if isinstance(decay_balance, DecayBalance):
        trials = decay_balance.trials
        if trials.changed_loss < (1 - better) * trials.loss:
            yield _balance_finding(setup, parameters, optimizers, decay_balance)
            return
    if isinstance(gradient_norms, NotChecked):
        return
    for optimizer_index, optimizer in enumerate(optimizers):
        for group_index, group in enumerate(optimizer.param_groups):
            entries = [
                entry
                for entry in parameters
                if (optimizer_index, group_index) in entry.groups and entry.name in gradient_norms
            ]
            if not group.get("weight_decay") or not entries:
                continue
            if effect := _excessive_effect(optimizer, group, entries, gradient_norms, shrink, times):
                line = option_line(setup, optimizer, "weight_decay", group["weight_decay"])
                yield _finding(setup, line, optimizer, group_index, *effect)


def _balance_finding(
    setup: Setup,
    parameters: list[ParameterEntry],
    optimizers: tuple[torch.optim.Optimizer, ...],
    balance: DecayBalance,
) -> Finding:
    """Report a decay that keeps the model from learning."""
    ((position, index), *_) = next(entry.groups for entry in parameters if entry.name == balance.parameter)
    optimizer, trials = optimizers[position], balance.trials
    decay = optimizer.param_groups[index]["weight_decay"]
    if balance.ratio is None:
        effect = f"each step removes {balance.shrinkage:.2g} of {balance.parameter}"
        cause = "The weights shrink faster than the gradient lets them grow, so they stay too small."
    else:
        effect = (
            f"at the end of the run, the decay that it adds to the gradient of {balance.parameter} is "
            f"{balance.ratio:.2g} times as large as that gradient"
        )
        cause = (
            "The optimizer adds the decay to the gradient and follows both, so the weights stay too small. AdamW "
            "applies the same number without changing the gradient."
        )
    training = (
        f"{trials.steps} steps of two copies of the model from new initial weights"
        if balance.from_new_weights
        else f"{trials.steps} more steps of two copies of the model"
    )
    return Finding(
        message=f"weight_decay is {decay:g} in group {index}: {effect}. After {training}, the loss of held-out samples "
        f"is {trials.loss:.3g} with the decay and {trials.changed_loss:.3g} without it.",
        where=get_location(option_line(setup, optimizer, "weight_decay", decay)),
        cause=cause,
        fix=setting_fix(setup, "weight_decay", 1e-4, index),
        evidence={
            "weight_decay": decay,
            "parameter": balance.parameter,
            "ratio": balance.ratio,
            "shrinkage": balance.shrinkage,
            "steps": trials.steps,
            "from_new_weights": balance.from_new_weights,
            "losses": [trials.loss, trials.changed_loss],
        },
        explains=_CONSEQUENCES,
    )


def _zeroed_gradient_findings(setup: Setup, loop: LoopSummary, parameters: list[ParameterEntry]) -> Iterator[Finding]:
    """Report weights whose gradient is set to zero, so that only the decay changes them."""
    cleared = loop.cleared_gradients
    entries = [entry for entry in parameters if entry.name in cleared.decay_only and entry.name in loop.changed]
    if not entries:
        return
    yield Finding(
        message=f"The gradients of {len(entries)} parameters were set to zero before each of {cleared.decay_steps} "
        f"inspected steps, and weight decay changed the parameters ({format_names(entries)}).",
        where=get_location(find_unique_line(_writes_gradient, user_written_objects(setup))),
        cause="A gradient of zeros does not freeze weights: the optimizer still applies the decay, which shrinks them.",
        fix="for p in module.parameters():   # the part to freeze, before the optimizer is created\n"
        "    p.requires_grad_(False)",
        evidence={"parameters": [entry.name for entry in entries], "steps": cleared.decay_steps},
        explains=("G415", "G416", "T601", "T606", "T609", "T610", "E709"),
    )


def _writes_gradient(node: ast.AST) -> bool:
    """Check whether an expression writes to a gradient, as in ``p.grad.zero_()`` or ``p.grad *= 0``."""
    if isinstance(node, ast.Attribute):
        return node.attr == "grad" and isinstance(node.ctx, ast.Store)
    owner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    return call_name(node) in ("zero_", "fill_", "mul_") and getattr(owner, "attr", "") == "grad"


def _excessive_effect(
    optimizer: torch.optim.Optimizer,
    group: dict[str, Any],
    entries: list[ParameterEntry],
    gradient_norms: dict[str, GradientNorm],
    max_shrinkage: float,
    max_ratio: float,
) -> tuple[str, float] | None:
    """What a decay that is too strong does, and the number that shows it; None for one that is not."""
    if (shrinkage := _shrinkage_per_step(optimizer, group)) > max_shrinkage:
        return f"removes {shrinkage:.2g} of each weight per step", shrinkage
    if is_decoupled(optimizer, group):
        return None
    ratio = _decay_to_gradient_ratio(gradient_norms, entries, float(group["weight_decay"]))
    size = f"{ratio:.3g} times as large as the gradient of the first batch (limit {max_ratio:g})"
    effect = f"adds decay to the gradient, {size}"
    return (effect, ratio) if ratio > max_ratio else None


def _shrinkage_per_step(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> float:
    """The share of a weight that one step removes; 0 if the size of a step does not depend on the decay."""
    if not is_decoupled(optimizer, group) and not isinstance(optimizer, torch.optim.SGD):
        return 0.0
    return float(group["lr"]) * float(group["weight_decay"]) / max(1 - float(group.get("momentum") or 0), 1e-3)


def _decay_to_gradient_ratio(gradients: dict[str, GradientNorm], entries: list[ParameterEntry], decay: float) -> float:
    """The ratio of the decay term to the gradient of some parameters; 0 without a gradient."""
    squared_weights = sum(float(entry.parameter.detach().float().norm()) ** 2 for entry in entries)
    squared_gradient = sum(gradients[entry.name].norm ** 2 for entry in entries)
    return decay * sqrt(squared_weights / squared_gradient) if squared_gradient else 0.0


def _finding(
    setup: Setup, line: SourceLine | None, optimizer: torch.optim.Optimizer, group_index: int, effect: str, share: float
) -> Finding:
    group = optimizer.param_groups[group_index]
    decay = group["weight_decay"]
    return Finding(
        message=f"weight_decay is {decay:g} in group {group_index}: it {effect}.",
        where=get_location(line),
        cause="The optimizer follows the decay instead of the data, so the weights go to zero.",
        fix=setting_fix(setup, "weight_decay", 1e-4, group_index),
        evidence={"weight_decay": decay, "group": group_index, "lr": group["lr"], "effect": share},
        explains=_CONSEQUENCES,
    )


def _decayed_setup(decay: float) -> Setup:
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=decay)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))


def bad() -> Setup:
    """A decay of five."""
    return _decayed_setup(5.0)


def good() -> Setup:
    """A usual decay."""
    return _decayed_setup(5e-4)
