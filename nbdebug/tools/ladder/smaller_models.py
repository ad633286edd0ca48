"""The user's model at a part of its width or depth: channels that stay zero, and repeated blocks that are skipped.

A narrower model is the model itself with all but each second or fourth channel of its hidden layers fixed at zero.
Equally spaced channels keep the parts of a layer that are split later, such as queries, keys and values, and the gates
of a recurrent layer. It computes what a narrower model would, at the cost of the whole one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes.meta import clone_tensor, copy_model
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.tools.try_fix.change import SetupChange

_STRIDES = {"a quarter of your width": 4, "half of your width": 2}
_HALF_DEPTH = "half of your blocks"
_MIN_CHANNELS = 8  # fewer cannot be divided by four without becoming a bottleneck of one channel
_MAX_POSITIONS = 2048  # of the output that are looked at
_MAX_LOST_SHARE = 0.25  # of the output; half of it or more is lost if an output layer loses channels
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_NORMALIZATIONS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
_RECURRENT = (nn.RNN, nn.LSTM, nn.GRU)


@dataclass(frozen=True)
class SmallerModel:
    """The user's model at another size: the change that makes it, and the number of parameters that it trains."""

    change: SetupChange
    parameters: int


def smaller_models(setup: Setup, batch: Batch) -> list[SmallerModel]:
    """Return the sizes below that of the user's model which can be had; runs the model, so it needs a Preserve."""
    layers, blocks = _hidden_layers(setup, batch), _repeated_blocks(setup, batch)
    sizes = []
    for name, stride in _STRIDES.items() if layers else ():
        model = _copy(setup)
        parameters = _narrow(setup, model, batch, layers, stride)
        sizes.append(SmallerModel(SetupChange(name, partial(_narrow_copy, layers=layers, stride=stride)), parameters))
    if blocks and _runs_without(setup, batch, model := _copy(setup), blocks):
        parameters = sum(p.numel() for p in model.parameters())
        sizes.append(SmallerModel(SetupChange(_HALF_DEPTH, partial(_shorten_copy, blocks=blocks)), parameters))
    return sizes


def _runs_without(setup: Setup, batch: Batch, model: nn.Module, blocks: Sequence[str]) -> bool:
    """Skip the blocks, in place, and check whether the model still runs; it may read them in other ways."""
    _skip(model, blocks)
    try:
        _flat_output(setup, model, batch)
    except Exception:
        return False
    return True


def _narrow_copy(treated: TreatedSetup, layers: Sequence[str], stride: int) -> bool:
    _narrow(treated.setup, treated.model, treated.batches[0], layers, stride)
    return True


def _shorten_copy(treated: TreatedSetup, blocks: Sequence[str]) -> bool:
    known = {id(p) for p in treated.model.parameters()}
    _skip(treated.model, blocks)
    treated.train_new_parameters(known)
    return True


def _copy(setup: Setup) -> nn.Module:
    return copy_model(setup.eager_model, {}, clone_tensor)


def _narrow(setup: Setup, model: nn.Module, batch: Batch, layers: Iterable[str], stride: int) -> int:
    """Fix the other channels of the layers at zero, in place; return the number of parameters that are still trained.

    Weights that read fewer channels are multiplied by the square root of what is missing, as an initialization for
    the narrower layer would be.
    """
    kept: dict[Tensor, Tensor] = {}
    for layer in layers:
        _keep_channels(model.get_submodule(layer), stride, kept)
    for p, mask in ((p, mask) for p, mask in kept.items() if p.requires_grad):
        p.register_hook(partial(torch.mul, mask))  # type: ignore[no-untyped-call]
    live = _live_inputs(setup, model, batch)
    parameters = 0
    for p in model.parameters():
        rows = kept[p].float().mean().item() if p in kept else 1.0
        columns = max(live.get(p, 1.0), 1 / stride)
        if columns < 1:
            with torch.no_grad():
                p.mul_(columns**-0.5)
        parameters += round(p.numel() * rows * columns)
    return parameters


@torch.no_grad()
def _keep_channels(layer: nn.Module, stride: int, kept: dict[Tensor, Tensor]) -> None:
    """Set the other channels of one layer to zero, and note the mask of each of its parameters."""
    for p in layer.parameters(recurse=False):
        axis = 1 if p.dim() > 1 and isinstance(layer, (nn.Embedding, *_TRANSPOSED)) else 0
        mask = (torch.arange(p.shape[axis], device=p.device) % stride == 0).to(p.dtype)
        kept[p] = mask.reshape([-1 if number == axis else 1 for number in range(p.dim())]).expand_as(p)
        p.mul_(kept[p])


def _live_inputs(setup: Setup, model: nn.Module, batch: Batch) -> dict[Tensor, float]:
    """Return the share of the input channels of each weight that are not zero in a batch, by its gradient."""
    shares = {}
    with torch.enable_grad(), in_mode(model, False):
        seed_all(0)
        output = sum((part * torch.randn_like(part)).sum() for part in _output_parts(setup, model, batch))
        axes = {weight: axis for weight, axis in _reading_weights(model) if weight.requires_grad}
        gradients = torch.autograd.grad(output, list(axes), allow_unused=True) if isinstance(output, Tensor) else ()
    for (weight, axis), gradient in zip(axes.items(), gradients, strict=False):
        if gradient is not None:
            shares[weight] = gradient.movedim(axis, 0).flatten(1).any(1).float().mean().item() or 1.0
    return shares


def _reading_weights(model: nn.Module) -> Iterator[tuple[Tensor, int]]:
    """Return the weights of the layers that read channels, with the axis of these."""
    for layer in model.modules():
        if isinstance(layer, (nn.Linear, *_CONVOLUTIONS, *_TRANSPOSED)):
            yield layer.weight, 0 if isinstance(layer, _TRANSPOSED) else 1
        elif isinstance(layer, (nn.MultiheadAttention, *_RECURRENT)):
            yield from ((p, 1) for p in layer.parameters(recurse=False) if p.dim() > 1)


def _hidden_layers(setup: Setup, batch: Batch) -> list[str]:
    """Return the layers whose channels no part of the output is made of."""
    model = _copy(setup)
    candidates = [name for name, layer in model.named_modules() if _channels(layer) >= _MIN_CHANNELS]
    return [name for name in candidates if not _is_output_layer(setup, model, batch, name)]


def _channels(layer: nn.Module) -> int:
    """Return the number of output channels of a layer that can be narrowed; 0 for any other."""
    if isinstance(layer, (*_CONVOLUTIONS, *_TRANSPOSED)):
        return layer.out_channels
    if isinstance(layer, nn.Linear):
        return layer.out_features
    if isinstance(layer, nn.Embedding):
        return layer.embedding_dim
    if isinstance(layer, _RECURRENT):
        return layer.hidden_size if not layer.proj_size else 0
    if isinstance(layer, nn.MultiheadAttention):
        return int(layer.head_dim) if layer.in_proj_weight is not None else 0
    weight = getattr(layer, "weight", None) if isinstance(layer, _NORMALIZATIONS) else None
    return len(weight) if isinstance(weight, Tensor) and weight.dim() == 1 else 0


def _is_output_layer(setup: Setup, model: nn.Module, batch: Batch, name: str) -> bool:
    """Check whether parts of the output depend on the layer only while it has all of its channels."""
    layer = model.get_submodule(name)
    whole = _responses(setup, model, batch, layer)
    saved = [p.detach().clone() for p in layer.parameters(recurse=False)]
    _keep_channels(layer, 2, {})
    narrowed = _responses(setup, model, batch, layer)
    with torch.no_grad():
        for p, value in zip(layer.parameters(recurse=False), saved, strict=True):
            p.copy_(value)
    lost = (whole & ~narrowed).sum().item()
    return not bool(whole.any()) or lost > _MAX_LOST_SHARE * whole.sum().item()


@torch.no_grad()
def _responses(setup: Setup, model: nn.Module, batch: Batch, layer: nn.Module) -> Tensor:
    """Return which positions of the output follow changes of the layer that its other channels do not explain.

    Positions that are equal in all samples, as the probabilities of classes without a score, do not count.
    """
    before = _flat_output(setup, model, batch)
    saved = [p.clone() for p in layer.parameters(recurse=False)]
    generator = torch.Generator().manual_seed(0)
    for p in layer.parameters(recurse=False):
        p.mul_(1 + 0.1 * torch.randn(p.shape, generator=generator).to(p))
    after = _flat_output(setup, model, batch)
    for p, value in zip(layer.parameters(recurse=False), saved, strict=True):
        p.copy_(value)
    _, number, counts = torch.unique(after, dim=1, return_inverse=True, return_counts=True)
    is_unique: Tensor = counts[number] == 1
    return (before != after).any(0) & is_unique


@torch.no_grad()
def _flat_output(setup: Setup, model: nn.Module, batch: Batch) -> Tensor:
    """Return one row for each sample, with random positions of all outputs, the same in each call."""
    with in_mode(model, False):
        seed_all(0)
        rows = torch.cat([part.reshape(len(part), -1).float() for part in _output_parts(setup, model, batch)], 1)
    order = torch.randperm(rows.shape[1], generator=torch.Generator().manual_seed(0))
    return rows[:, order[:_MAX_POSITIONS].to(rows.device)]


def _output_parts(setup: Setup, model: nn.Module, batch: Batch) -> list[Tensor]:
    """Return the tensors of the output that have a row for each sample."""
    parts = tree_tensors(setup.predict(batch, model))
    return [part for part in parts if part.is_floating_point() and part.dim() and len(part) == batch.size]


def _repeated_blocks(setup: Setup, batch: Batch) -> list[str]:
    """Return each second one of the equal blocks of a sequence or list whose output has the shape of their input."""
    model = _copy(setup)
    calls: dict[nn.Module, list[Any]] = defaultdict(list)

    def note(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        calls[module].append((args[0] if args else None, output))

    handles = [module.register_forward_hook(note) for module in model.modules()]
    try:
        _flat_output(setup, model, batch)
    finally:
        for handle in handles:
            handle.remove()
    return list(_second_blocks(model, "", calls))


def _second_blocks(module: nn.Module, path: str, calls: dict[nn.Module, list[Any]]) -> Iterator[str]:
    groups: dict[Any, list[str]] = defaultdict(list)
    sequence = isinstance(module, (nn.Sequential, nn.ModuleList))
    for name, child in module.named_children():
        if sequence and _is_skippable(child, calls[child]):
            shapes = tuple(tuple(p.shape) for p in child.parameters())
            groups[type(child), shapes].append(name)
    groups = {key: names for key, names in groups.items() if len(names) > 1 and _is_chain(module, names, calls)}
    members = {name for names in groups.values() for name in names}
    for name, child in module.named_children():
        if name not in members:
            yield from _second_blocks(child, f"{path}{name}.", calls)
    for names in groups.values():
        yield from (f"{path}{name}" for name in names[1::2])


def _is_skippable(block: nn.Module, calls: Sequence[Any]) -> bool:
    """Check whether a block was called once and returned a tensor of the shape of its input."""
    if len(calls) != 1 or not any(p.dim() > 1 for p in block.parameters()):
        return False
    value, output = calls[0]
    return isinstance(value, Tensor) and isinstance(output, Tensor) and value.shape == output.shape


def _is_chain(module: nn.Module, names: Sequence[str], calls: dict[nn.Module, list[Any]]) -> bool:
    """Check whether the blocks read different inputs; parallel ones, such as experts, read the same."""
    return len({id(calls[module.get_submodule(name)][0][0]) for name in names}) == len(names)


class _Skipped(nn.Module):
    """Returns its first argument."""

    def forward(self, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Return the input of the skipped block."""
        return value


def _skip(model: nn.Module, blocks: Iterable[str]) -> None:
    for block in blocks:
        model.set_submodule(block, _Skipped())
