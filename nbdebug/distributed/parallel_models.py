"""Models that torch runs on several ranks: wrapped by DistributedDataParallel, or sharded by ``fully_shard``.

A pass through either communicates with all other ranks, so that one rank that runs a pass alone would never end it.
Tools therefore run the module inside the wrapper, run no pass through a sharded model, and read only the shards that
this rank holds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only


def unwrap_parallel(model: nn.Module) -> nn.Module:
    """Return the module inside DistributedDataParallel, whose passes do not communicate; others as they are."""
    module = model.module if isinstance(model, DistributedDataParallel) else model
    return module if isinstance(module, nn.Module) else model


def unwrap_model(model: nn.Module) -> nn.Module:
    """Return the module inside all wrappers of DistributedDataParallel and of ``torch.compile``."""
    inner = unwrap_parallel(getattr(model, "_orig_mod", model))
    return model if inner is model or not isinstance(inner, nn.Module) else unwrap_model(inner)


def is_sharded(model: nn.Module) -> bool:
    """Return whether any parameter is a DTensor, of which this rank holds a shard."""
    tensor_type = _distributed_tensor_type()
    return tensor_type is not None and any(isinstance(p, tensor_type) for p in model.parameters())


def shard_access(model: nn.Module) -> Callable[[], AbstractContextManager[Any]]:
    """Return what opens a block in which torch functions read the shard of this rank in place of each DTensor."""
    return _LocalShards if is_sharded(model) else nullcontext


def _distributed_tensor_type() -> type[Any] | None:
    """Return the type DTensor; None while nothing has imported it, so that no tensor has this type."""
    module = sys.modules.get("torch.distributed.tensor")
    return getattr(module, "DTensor", None)


class _LocalShards(TorchFunctionMode):
    """Replaces each DTensor among the arguments of a torch function by its local shard, without communication."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensor_type = _distributed_tensor_type()
        kwargs = kwargs or {}
        if tensor_type is not None and func is not tensor_type.to_local and func not in _PARAMETER_STATE:
            with torch._C.DisableTorchFunction(), torch.no_grad():
                args, kwargs = tree_map_only(tensor_type, lambda shard: shard.to_local(), (args, kwargs))
        return func(*args, **kwargs)


_TENSOR: Any = torch.Tensor
# What autograd stores with the parameter, and not with its shard.
_PARAMETER_STATE = {
    getattr(_TENSOR, name).__get__ for name in ("grad", "requires_grad", "is_leaf", "grad_fn", "_version")
}
