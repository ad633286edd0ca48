"""Changes of model and optimizer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LinearLR

from nbdebug.exceptions import SetupError
from nbdebug.setup.setup import optimized_parameters
from nbdebug.tools.compare_optimizers.candidates import OPTIMIZERS, SCHEDULES
from nbdebug.tools.treatments.model_changes import (
    initialize_again,
    remove_dropout,
    replace_activations,
    train_all_parameters,
    use_full_precision,
)
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.training.hyperparameters import make_hyperparameter

_START_FACTOR = 0.01  # of the learning rate, where a warm-up starts
_ACTIVATION_TYPES = (
    *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish),
    *(nn.Softplus, nn.Sigmoid, nn.Tanh, nn.Hardtanh, nn.Hardsigmoid, nn.Hardswish, nn.Softsign),
)


def set_dropout(treated: TreatedSetup, rate: float) -> bool:
    """Set the rate of all dropout layers; a rate of 0 switches off dropout functions, too."""
    if rate == 0:
        return remove_dropout(treated)
    layers = [module for module in treated.model.modules() if isinstance(module, nn.modules.dropout._DropoutNd)]
    changed = any(layer.p != rate for layer in layers)
    for layer in layers:
        layer.p = rate
    return changed


def swap_activations(treated: TreatedSetup, name: str) -> bool:
    """Replace the activation layers between weighted layers by those of another kind."""
    kind: type[nn.Module] = getattr(nn, name)
    others = tuple(other for other in _ACTIVATION_TYPES if other is not kind)
    return replace_activations(treated, kind, others)


@torch.no_grad()
def initialize(treated: TreatedSetup, scheme: str) -> bool:
    """Initialize the weights again; the biases get those of torch's default initialization, or zero.

    He et al. 2015, arXiv:1502.01852; Glorot and Bengio 2010; Saxe et al. 2014, arXiv:1312.6120.
    """
    if not initialize_again(treated):
        return False
    for name, p in treated.model.named_parameters() if scheme != "default" else ():
        if p.dim() > 1 and scheme == "kaiming":
            nn.init.kaiming_normal_(p, nonlinearity="relu")
        elif p.dim() > 1:
            (nn.init.xavier_uniform_ if scheme == "xavier" else nn.init.orthogonal_)(p)
        elif name.endswith("bias"):
            nn.init.zeros_(p)
    return True


def freeze(treated: TreatedSetup, path: str) -> bool:
    """Freeze the parameters of a module."""
    parameters = [p for p in _submodule(treated, path).parameters() if p.requires_grad]
    for p in parameters:
        p.requires_grad_(False)
    return bool(parameters)


def unfreeze(treated: TreatedSetup, path: str) -> bool:
    """Train the parameters of a module, or all, that are frozen or in no optimizer."""
    if path == "all":
        return train_all_parameters(treated)
    held = set(map(id, optimized_parameters(*treated.optimizers)))
    parameters = [p for p in _submodule(treated, path).parameters() if not p.requires_grad or id(p) not in held]
    for p in parameters:
        p.requires_grad_(True)
    if missing := [p for p in parameters if id(p) not in held]:
        treated.optimizer.add_param_group({**treated.optimizer.param_groups[0], "params": missing})
    return bool(parameters)


def _submodule(treated: TreatedSetup, path: str) -> nn.Module:
    try:
        return treated.model.get_submodule(path)
    except AttributeError:
        names = ", ".join(name for name, _ in treated.model.named_children())
        raise SetupError(f"module is {path!r}; expected one such as {names}. Write its path in the model.") from None


def use_single_precision(treated: TreatedSetup, _: str) -> bool:
    """Compute in single precision, without a GradScaler."""
    others = tuple(item for item in treated.setup.extra_state if not isinstance(item, torch.amp.GradScaler))
    has_scaler = len(others) < len(treated.setup.extra_state)
    treated.change_setup(extra_state=others)
    return use_full_precision(treated) or has_scaler


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
