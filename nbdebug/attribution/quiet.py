"""The block in which a model is asked: in eval mode, eagerly, in full precision, and with nothing changed after it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from nbdebug.preserve import Preserve
from nbdebug.setup.modes import in_mode

SMALL = (torch.float16, torch.bfloat16)


@contextmanager
def quiet(model: Any, owned: tuple[Any, ...] = ()) -> Iterator[None]:
    """Everything that a model's run could change is put back; gradients are on whatever the caller has set."""
    with ExitStack() as stack:
        stack.enter_context(Preserve(model if isinstance(model, nn.Module) else None, *owned))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        if isinstance(model, nn.Module):
            stack.enter_context(in_mode(model, False))
            stack.enter_context(torch.autocast(home(model).type, enabled=False))
            if any(isinstance(one, nn.RNNBase) for one in model.modules()):
                # cuDNN gives no gradients of a recurrent layer in eval mode.
                stack.enter_context(torch.backends.cudnn.flags(enabled=False))
            if any(is_compiled(one) for one in model.modules()):
                stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


def is_compiled(module: nn.Module) -> bool:
    """Whether torch.compile stands between a call and its Python code."""
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None


def home(model: nn.Module) -> torch.device:
    """Where the model's numbers are."""
    first = next(iter(model.parameters()), None)
    return first.device if first is not None else torch.device("cpu")


def usable(model: nn.Module) -> tuple[nn.Module, str]:
    """The model, or a copy of it that gradients can go through in full precision, with what was done about it."""
    parameters = list(model.parameters())
    small = [one for one in parameters if one.dtype in SMALL]
    if not small and not any(one.is_inference() for one in parameters):
        return model, ""
    with torch.inference_mode(False):
        twin = copy.deepcopy(model)
        if small:
            return twin.float(), "explained in float32, on a copy: the model has lower precision"
    return twin, ""
