"""Treatments of model and optimizer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from nbdebug.autograd.call_recorders import record_calls
from nbdebug.setup.evaluation_mode import LOW_PRECISION_DTYPES
from nbdebug.setup.setup import optimized_parameters
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.training.hyperparameters import make_hyperparameter
from nbdebug.training.model_copy import initialize_weights

_CLIPPING_NORM = 1.0
_ATTENTION_DROPOUT = 4  # the position of dropout_p in scaled_dot_product_attention
_SATURATING = (nn.Sigmoid, nn.Tanh, nn.Hardtanh, nn.Hardsigmoid, nn.Softsign, nn.ReLU6, nn.ReLU, nn.Softmax)
_WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def use_full_precision(treated: TreatedSetup) -> bool:
    """Compute in single precision."""
    low = [p for p in treated.model.parameters() if p.dtype in LOW_PRECISION_DTYPES]
    treated.model.float()
    treated.change_inputs(lambda tensor, _: tensor.float() if tensor.dtype in LOW_PRECISION_DTYPES else tensor)
    return bool(low)


def train_all_parameters(treated: TreatedSetup) -> bool:
    """Train every parameter: unfreeze them, and add those that are in no optimizer."""
    held = set(map(id, optimized_parameters(*treated.optimizers)))
    frozen = [p for p in treated.model.parameters() if p.is_floating_point() and not p.requires_grad]
    for p in frozen:
        p.requires_grad_(True)
    missing = [p for p in treated.trainable.trainable if id(p) not in held]
    if missing and treated.optimizers:
        settings = treated.optimizers[0].param_groups[0]
        treated.optimizers[0].add_param_group({**settings, "params": missing})
    return bool(frozen or missing)


def use_default_batch_norm(treated: TreatedSetup) -> bool:
    """Set momentum and epsilon of normalization layers to torch's defaults."""
    changed = False
    for module in treated.model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            changed |= module.momentum not in (None, 0.1) or module.eps > 1e-3 or not module.training
            module.momentum, module.eps = 0.1 if module.momentum is not None else None, 1e-5
            module.train()
    return changed


class _WithoutDropout(TorchFunctionMode):
    """Replaces dropout functions by the identity, and lets attention drop nothing."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name, options = getattr(func, "__name__", ""), dict(kwargs or {})
        if name.endswith("dropout") and args and isinstance(args[0], Tensor):
            return args[0]
        if name == "scaled_dot_product_attention" and len(args) > _ATTENTION_DROPOUT:
            args = (*args[:_ATTENTION_DROPOUT], 0.0, *args[_ATTENTION_DROPOUT + 1 :])
        elif name == "scaled_dot_product_attention":
            options["dropout_p"] = 0.0
        return func(*args, **options)


def remove_dropout(treated: TreatedSetup) -> bool:
    """Switch off all dropout."""
    is_changed = _calls_dropout(treated)
    for module in treated.model.modules():
        if isinstance(module, (nn.RNNBase, nn.MultiheadAttention)):
            is_changed, module.dropout = is_changed or module.dropout > 0, 0.0
    _disable_dropout(treated.model, lambda: True)
    return is_changed


def drop_only_in_training(treated: TreatedSetup) -> bool:
    """Switch off the dropout functions of a model in eval mode, as if each received the mode of its module."""
    is_changed, model = _calls_dropout(treated), treated.model
    _disable_dropout(model, lambda: not model.training)
    return is_changed


def _disable_dropout(model: nn.Module, is_off: Callable[[], bool]) -> None:
    """Make the forward pass of a model use no dropout function while ``is_off()``."""
    original_forward = model.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        with _WithoutDropout() if is_off() else nullcontext():
            return original_forward(*args, **kwargs)

    model.forward = forward


def _calls_dropout(treated: TreatedSetup) -> bool:
    """Check whether a pass in train mode calls a dropout function."""
    names: list[str] = []
    with record_calls(treated.model, lambda call: names.append(call.name)), torch.no_grad():
        treated.setup.predict(treated.batches[0])
    return any(name.endswith(("dropout", "scaled_dot_product_attention")) for name in names)


def replace_activations(
    treated: TreatedSetup,
    activation: Callable[[], nn.Module] = nn.GELU,
    replaced: tuple[type[nn.Module], ...] = _SATURATING,
) -> bool:
    """Replace activation layers between weighted layers, by default by GELU, which neither saturates nor dies."""
    layers = [module for module in treated.model.modules() if isinstance(module, (*_WEIGHTED, *replaced))]
    last_weighted = max((i for i, module in enumerate(layers) if isinstance(module, _WEIGHTED)), default=-1)
    hidden = {id(module) for module in layers[:last_weighted] if isinstance(module, replaced)}
    for parent in list(treated.model.modules()):
        for name, child in list(parent.named_children()):
            if id(child) in hidden:
                setattr(parent, name, activation())
    return bool(hidden)


def initialize_again(treated: TreatedSetup) -> bool:
    """Initialize all weights again by torch's defaults."""
    return initialize_weights(treated.model)


def normalize_layers(treated: TreatedSetup) -> bool:
    """Normalize the output of each weighted layer except the last, over its features."""
    layers = [module for module in treated.model.modules() if isinstance(module, _WEIGHTED)]
    for layer in layers[:-1]:
        layer.register_forward_hook(_normalize_output)
    return len(layers) > 2


def _normalize_output(module: nn.Module, _: Any, output: Tensor) -> Tensor:
    shape = output.shape[-1:] if isinstance(module, nn.Linear) else output.shape[1:]
    return F.layer_norm(output, shape) if shape.numel() > 1 else output


def remove_weight_decay(treated: TreatedSetup) -> bool:
    """Set the weight decay to 0."""
    return treated.change_groups(weight_decay=0.0)


def use_default_settings(treated: TreatedSetup) -> bool:
    """Set all settings of the optimizers except learning rate and weight decay to those of their constructors."""
    changed = False
    for optimizer in treated.optimizers:
        parameters = inspect.signature(type(optimizer).__init__).parameters
        for name in optimizer.defaults.keys() - {"lr", "weight_decay", "params", "foreach", "fused", "capturable"}:
            default = parameters[name].default if name in parameters else inspect.Parameter.empty
            for group in optimizer.param_groups if default is not inspect.Parameter.empty else ():
                if name in group and group[name] != default:
                    group[name], changed = default, True
    return changed


def use_equal_rates(treated: TreatedSetup) -> bool:
    """Give every parameter group the highest learning rate of them."""
    rates = [float(g["lr"]) for optimizer in treated.optimizers for g in optimizer.param_groups if "lr" in g]
    return len(set(rates)) > 1 and treated.change_groups(lr=max(rates))


def scale_rate(treated: TreatedSetup, factor: float) -> bool:
    """Multiply all learning rates."""
    if not any("lr" in group for optimizer in treated.optimizers for group in optimizer.param_groups):
        return False
    rate = make_hyperparameter(treated.optimizers, "lr", "scale")
    rate.set(factor * rate.initial)
    return rate.initial > 0


def clip_gradients(treated: TreatedSetup) -> bool:
    """Clip the norm of the gradient at 1."""
    treated.max_norm = _CLIPPING_NORM
    return True


def use_adam(treated: TreatedSetup) -> bool:
    """Train all parameters with Adam, at a learning rate that fits the weights."""
    treated.optimizers = [treated.trainable.adam()]
    return True
