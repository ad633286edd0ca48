"""Run a model in eval mode, eagerly and in full precision, and restore all state afterwards."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from nbdebug.preserve import Preserve

LOW_PRECISION_DTYPES = (torch.float16, torch.bfloat16)


@contextmanager
def in_mode(model: nn.Module, training: bool) -> Iterator[None]:
    """Set the mode of the whole model within the block, then restore the mode of every submodule."""
    modes = {module: module.training for module in model.modules()}
    model.train(training)
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@contextmanager
def fast_attention_disabled() -> Iterator[None]:
    """Disable the fused fast path of Transformer layers, which skips submodules and uses nested tensors."""
    was_enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was_enabled)


@contextmanager
def evaluation_mode(model: Any, owned: tuple[Any, ...] = ()) -> Iterator[None]:
    """Restore everything that a run of the model may change; enables gradients."""
    with ExitStack() as stack:
        stack.enter_context(Preserve(model if isinstance(model, nn.Module) else None, *owned))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        if isinstance(model, nn.Module):
            stack.enter_context(in_mode(model, False))
            stack.enter_context(torch.autocast(model_device(model).type, enabled=False))
            if any(isinstance(module, nn.RNNBase) for module in model.modules()):
                # cuDNN does not compute gradients of recurrent layers in eval mode.
                stack.enter_context(torch.backends.cudnn.flags(enabled=False))
            if any(_is_compiled(module) for module in model.modules()):
                stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


def _is_compiled(module: nn.Module) -> bool:
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None


def model_device(model: nn.Module) -> torch.device:
    """Return the device of the model."""
    first = next(iter(model.parameters()), None)
    return first.device if first is not None else torch.device("cpu")


def differentiable_model(model: nn.Module) -> tuple[nn.Module, str]:
    """Return the model, or a full-precision copy that gradients can flow through, and a note on the copy."""
    parameters = list(model.parameters())
    low_precision = [parameter for parameter in parameters if parameter.dtype in LOW_PRECISION_DTYPES]
    if not low_precision and not any(parameter.is_inference() for parameter in parameters):
        return model, ""
    with torch.inference_mode(False):
        model_copy = copy.deepcopy(model)
        if low_precision:
            return model_copy.float(), "explained on a float32 copy, because the model has lower precision"
    return model_copy, ""
