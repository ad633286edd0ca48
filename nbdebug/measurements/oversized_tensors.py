"""The parameter or buffer whose scale makes the loss before training large, found by scaling each of them down."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup

MIN_SCALE = 3.0
_MAX_DEFAULT_RATIO = 2.0  # of a drawn scale to another one
_MAX_TENSORS = 8  # each costs a forward pass


@dataclass(frozen=True)
class OversizedTensor:
    """A parameter or buffer whose root mean square is ``scale`` / √``row_size``, the number of values in a row.

    ``usual_loss`` is the loss of the batch if ``scale`` is 1, and everything else as before.
    """

    name: str
    scale: float
    usual_loss: float
    row_size: int

    @property
    def root_mean_square(self) -> float:
        """The root mean square of the values."""
        return self.scale * self.usual_root_mean_square

    @property
    def usual_root_mean_square(self) -> float:
        """The root mean square that keeps the scale of the inputs."""
        return 1 / math.sqrt(self.row_size)


def has_oversized_tensor(setup: Setup, min_scale: float) -> bool:
    """Return whether a matrix of the model has a scale above a minimum."""
    return any(True for _ in _wide_tensors(setup.eager_model, min_scale))


def large_layer_weights(setup: Setup, min_scale: float) -> dict[str, float]:
    """Return the weights of layers with a root mean square above ``min_scale`` / √fan_in, with that multiple.

    The vectors of an embedding are no sums over inputs, and have another usual scale.
    """
    gains: dict[str, float] = {}
    for path, module in setup.eager_model.named_modules():
        weight = getattr(module, "weight", None)
        if (
            not isinstance(weight, nn.Parameter)
            or weight.dim() < 2
            or weight.numel() < 2
            or isinstance(module, (nn.Embedding, nn.EmbeddingBag))
        ):
            continue
        gain = float(weight.detach().float().square().mean().sqrt()) * math.sqrt(weight[0].numel())
        if min_scale < gain < math.inf:
            gains[f"{path}.weight".lstrip(".")] = gain
    return gains


def has_default_scale(setup: Setup, name: str) -> bool:
    """Return whether a parameter has the scale that its module draws by default, as the vectors of an embedding do."""
    path, _, attribute = name.rpartition(".")
    module = setup.eager_model.get_submodule(path)
    copied = deepcopy(module)
    reset: Any = getattr(copied, "reset_parameters", None)
    if reset is None:
        return False
    with Preserve(), torch.no_grad():
        reset()
    scale, default_scale = (float(getattr(m, attribute).float().square().mean().sqrt()) for m in (module, copied))
    return scale < _MAX_DEFAULT_RATIO * default_scale


def find_oversized_tensor(setup: Setup, batch: Batch, min_scale: float) -> OversizedTensor | None:
    """Return the matrix of a large scale whose scale makes the loss of a batch largest; None without any.

    The model is restored.
    """
    tensors: list[OversizedTensor] = []
    with Preserve(*setup.mutable_objects), torch.no_grad():
        for name, tensor, scale in islice(_wide_tensors(setup.eager_model, min_scale), _MAX_TENSORS):
            values = tensor.clone()
            tensor.div_(scale)
            seed_all(0)
            tensors.append(OversizedTensor(name, scale, float(setup.output_and_loss(batch)[1]), tensor[0].numel()))
            tensor.copy_(values)
    return min(tensors, key=lambda tensor: tensor.usual_loss, default=None)


def _wide_tensors(model: nn.Module, min_scale: float) -> Iterator[tuple[str, Tensor, float]]:
    """Yield the matrices with a scale far above that of any usual initialization, the last first."""
    for name, tensor in reversed([*model.named_parameters(), *model.named_buffers()]):
        if tensor.dim() > 1 and tensor.is_floating_point() and tensor.numel():
            scale = float(tensor.float().square().mean().sqrt()) * math.sqrt(tensor[0].numel())
            if min_scale < scale < math.inf:
                yield name, tensor, scale
