"""How large weight decay is beside the gradient after a run, and what the model learns without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.loss_curves.run_summary import get_run_summary
from nbdebug.measurements.perturbation import compute_loss
from nbdebug.measurements.registry import measurement
from nbdebug.measurements.short_trials import TrialPair, run_trials
from nbdebug.preserve import Preserve, seed_all
from nbdebug.records import Record
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.training.model_copy import peak_rate

_DECOUPLED_NAMES = ("AdamW", "Adafactor", "Muon")  # the later ones are not in every supported version of torch
_DECOUPLED = tuple(getattr(torch.optim, name) for name in _DECOUPLED_NAMES if hasattr(torch.optim, name))
_GRADIENT_BATCHES, _TRIAL_BATCHES, _STEPS = 8, 32, 100
_MIN_SHARE = 0.3  # of the loss of a constant prediction: a model below it has learned
_MIN_SHRUNK_SHARE = 0.1  # the same for weights that the decay alone would have shrunk during the run
_COLLAPSED_SHARE = 0.9  # above it, the decay may have left weights too small to learn from in a short trial
_MIN_RATIO = 0.25  # of the decay term to the gradient, of the weights where it is largest
_MIN_EXPONENT = 1.0  # of the factor exp(-x) by which decoupled decay alone would shrink the weights during the run


@dataclass(frozen=True)
class DecayBalance:
    """The weights that decay affects most, and trials with the decay and without it.

    ``ratio`` is the size of the decay term relative to the gradient, None for decoupled decay, of which ``shrinkage``
    is the share of a weight that each step removes. The trials go on from the weights of the model, or start
    ``from_new_weights`` where the run has learned nothing.
    """

    parameter: str
    ratio: float | None
    shrinkage: float
    trials: TrialPair
    from_new_weights: bool


@measurement
def decay_balance(setup: Setup, record: Record) -> DecayBalance:
    """Weight decay at the end of a run that learned little, beside the gradient or over the run; trials train copies.

    The losses of the trials are those of a validation batch if there is one, else of a batch that they do not train on.
    """
    run = get_run_summary(record)
    if run.remaining_share is None or run.remaining_share < _MIN_SHRUNK_SHARE:
        raise NotChecked("needs a run that ended far from a good model")
    decayed = _decayed_weights(setup)
    added = {n: w.decay for n, w in decayed.items() if w.is_added and run.remaining_share >= _MIN_SHARE}
    ratios = _ratios(setup, [*setup.batches(_GRADIENT_BATCHES)], added)
    shrinkages = {name: weight.shrinkage for name, weight in decayed.items() if not weight.is_added}
    effects = {
        **{name: ratio / _MIN_RATIO for name, ratio in ratios.items()},
        **{name: share * float(run.steps[-1]) / _MIN_EXPONENT for name, share in shrinkages.items()},
    }
    name = max(effects, key=lambda name: effects[name], default="")
    if not name or effects[name] < 1:
        raise NotChecked("the decay is small beside the gradient, or for the length of the run")
    held_out = [*setup.batches(1, "val")] if setup.val_loader is not None else []
    batches = [*setup.batches(_TRIAL_BATCHES), *held_out]
    from_new_weights = run.remaining_share > _COLLAPSED_SHARE
    trials = run_trials(
        setup,
        batches,
        _STEPS,
        "standard",
        changed_settings={"weight_decay": 0.0},
        held_out=True,
        from_new_weights=from_new_weights,
    )
    return DecayBalance(name, ratios.get(name), shrinkages.get(name, 0.0), trials, from_new_weights)


@dataclass(frozen=True)
class _DecayedWeight:
    """The decay of a weight; it is added to the gradient, or each step removes a share of the weight."""

    decay: float
    is_added: bool
    shrinkage: float


def is_decoupled(optimizer: torch.optim.Optimizer, group: Mapping[str, Any]) -> bool:
    """Return whether an optimizer shrinks the weights apart from the gradient, as AdamW does."""
    return bool(group.get("decoupled_weight_decay")) or isinstance(optimizer, _DECOUPLED)


def _decayed_weights(setup: Setup) -> dict[str, _DecayedWeight]:
    """Return the weight matrices that decay, by name."""
    names = {id(parameter): name for name, parameter in setup.eager_model.named_parameters()}
    weights = {
        names[id(parameter)]: _DecayedWeight(
            float(group["weight_decay"]),
            not is_decoupled(optimizer, group),
            peak_rate(group) * float(group["weight_decay"]) if "lr" in group else 0.0,
        )
        for optimizer in setup.optimizers
        for group in optimizer.param_groups
        if group.get("weight_decay")
        for parameter in group["params"]
        if id(parameter) in names and parameter.requires_grad and parameter.dim() > 1
    }
    if not weights:
        raise NotChecked("no weight decay acts on a weight matrix")
    return weights


def _ratios(setup: Setup, batches: list[Batch], decays: dict[str, float]) -> dict[str, float]:
    """Return the size of each decay term beside that of the mean gradient of some batches in train mode."""
    if not decays:
        return {}
    parameters = dict(setup.eager_model.named_parameters())
    weights = [parameters[name] for name in decays]
    totals = [torch.zeros_like(weight) for weight in weights]
    with Preserve(*setup.mutable_objects), torch.enable_grad(), in_mode(setup.eager_model, True):
        seed_all(0)
        for batch in batches:
            loss = compute_loss(setup, setup.predict(batch), batch)
            gradients = torch.autograd.grad(loss, weights, allow_unused=True)
            for total, gradient in zip(totals, gradients, strict=True):
                total += gradient / len(batches) if gradient is not None else 0.0
    sizes = [
        (float(weight.detach().norm()), float(total.norm())) for weight, total in zip(weights, totals, strict=True)
    ]
    return {
        name: decays[name] * weight / gradient if gradient else 0.0
        for name, (weight, gradient) in zip(decays, sizes, strict=True)
    }
