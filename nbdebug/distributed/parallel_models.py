"""Models that torch runs on several ranks: wrapped, sharded, tensor-parallel, or divided into stages of a pipeline.

A pass through a wrapper or a sharded model communicates with all other ranks, so that one rank that runs a pass alone
would never end it. A stage of a pipeline takes what another rank computes. Tools therefore run the module inside the
wrapper, run no pass of a model of which this rank holds a part, and read only that part.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import Any
from weakref import WeakSet

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

_stage_modules: WeakSet[nn.Module] = WeakSet()


class ModelPart(Enum):
    """What one rank holds of a model, as a text that follows the word "model"; the whole model has none."""

    WHOLE = ""
    FULLY_SHARDED = "is sharded over ranks"
    TENSOR_PARALLEL = "is tensor-parallel over ranks"
    PIPELINE_STAGE = "is a stage of a pipeline over ranks"

    @property
    def is_replica(self) -> bool:
        """True if the ranks read different samples for the same parameters, so that they can be compared."""
        return self in (ModelPart.WHOLE, ModelPart.FULLY_SHARDED)

    @property
    def unmeasured(self) -> str:
        """A sentence on what a watch leaves out since no rank can run the model alone; "" for the whole model."""
        if self is ModelPart.WHOLE:
            return ""
        share = "its stage" if self is ModelPart.PIPELINE_STAGE else "its shards"
        comparisons = "" if self.is_replica else ", and comparisons between ranks"
        reason = f"since the model {self.value}, and each rank observes {share} only"
        return f"fixed samples, replays by passes, tests of the trained model{comparisons}, {reason}"


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
    return bool(_sharded_parameters(model))


def get_model_part(model: nn.Module) -> ModelPart:
    """Return what this rank holds of a model; stages of a pipeline are those that ``find_pipeline_stages`` has found.

    ``fully_shard`` divides each parameter over the first dimension of its mesh, or over the second one if it
    replicates it over the first. Any other DTensor is that of a tensor-parallel layer.
    """
    stage_parameters = {id(p) for stage in _stage_modules for p in stage.parameters()}
    if stage_parameters and any(id(p) in stage_parameters for p in model.parameters()):
        return ModelPart.PIPELINE_STAGE
    shards = _sharded_parameters(model)
    if not shards:
        return ModelPart.WHOLE
    module_type = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    is_fully_sharded = module_type is not None and any(isinstance(module, module_type) for module in model.modules())
    is_divided_twice = any(len(p.placements) > 1 and not p.placements[0].is_replicate() for p in shards)
    return ModelPart.FULLY_SHARDED if is_fully_sharded and not is_divided_twice else ModelPart.TENSOR_PARALLEL


def find_pipeline_stages() -> None:
    """Find the modules of all stages of pipelines in this process, which no module knows of itself."""
    stage_type = getattr(sys.modules.get("torch.distributed.pipelining.stage"), "_PipelineStageBase", None)
    if stage_type is None:
        return
    for item in gc.get_objects():
        if issubclass(type(item), stage_type) and isinstance(module := getattr(item, "submod", None), nn.Module):
            _stage_modules.add(module)


def has_disjoint_shards(model: nn.Module) -> bool:
    """Return whether the shards of all ranks together are each trainable parameter once."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    shards = [p for p in _sharded_parameters(model) if p.requires_grad]
    return bool(shards) and len(shards) == len(trainable) and all(map(_is_divided_by_all_ranks, shards))


def _sharded_parameters(model: nn.Module) -> list[Any]:
    tensor_type = _distributed_tensor_type()
    return [] if tensor_type is None else [p for p in model.parameters() if isinstance(p, tensor_type)]


def _is_divided_by_all_ranks(parameter: Any) -> bool:
    is_divided = not any(placement.is_replicate() for placement in parameter.placements)
    return is_divided and parameter.device_mesh.size() == torch.distributed.get_world_size()


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
