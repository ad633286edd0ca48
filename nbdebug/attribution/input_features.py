"""Parts of the input that get attributions, and the segments that are replaced together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.exceptions import USE_BLACK_BOX_METHOD, NotDifferentiable
from nbdebug.hooks.module_hooks import hooked
from nbdebug.inference.inputs import ModelInputs

_PATCHES_PER_SIDE = 8  # patches along the longest axis


@dataclass(frozen=True)
class InputPart:
    """One tensor to attribute to: its leaf in the inputs, its values for the samples and for the background.

    ``call`` is the embedding and the number of its call that produces the tensor; ``column`` is the column of the leaf
    that this embedding takes.
    """

    name: str
    leaf: int
    values: Tensor
    background: Tensor | None = None
    call: tuple[nn.Module, int] | None = None
    column: int | None = None

    def sum_over_embedding(self, attributions: Tensor) -> Tensor:
        """Sum the attributions of a token over its embedding dimension."""
        return attributions if self.call is None else attributions.sum(-1)

    @property
    def shape(self) -> torch.Size:
        """Shape of one sample's attributions."""
        return self.values.shape[1:] if self.call is None else self.values.shape[1:-1]


def real_parts(inputs: ModelInputs, background: ModelInputs | None) -> Iterator[InputPart]:
    """Yield the real-valued inputs with one row per sample."""
    for number, name, leaf in inputs.sample_leaves:
        if leaf.is_floating_point():
            background_values = None if background is None else background.leaves[number].detach().clone()
            yield InputPart(name, number, leaf.detach().clone(), background_values)


def is_integer(leaf: Any) -> bool:
    """Check for a tensor of integers; boolean masks do not count."""
    return isinstance(leaf, Tensor) and not leaf.is_floating_point() and leaf.dtype != torch.bool and leaf.dim() > 0


class EmbeddingRecorder:
    """Record the inputs and outputs of all embedding calls in one forward pass."""

    def __init__(self, model: nn.Module) -> None:
        self.embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding)]
        self.calls: list[tuple[nn.Module, int, Tensor, Tensor]] = []

    def recording(self) -> AbstractContextManager[None]:
        """Record calls for the duration of a block."""
        return hooked(dict.fromkeys(self.embeddings, self._record))

    def _record(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if args and isinstance(args[0], Tensor):
            self.calls.append((module, sum(call[0] is module for call in self.calls), args[0], output.detach()))


def embedded_parts(
    recorder: EmbeddingRecorder, inputs: ModelInputs, background: ModelInputs | None
) -> Iterator[InputPart]:
    """Yield the embeddings of the integer inputs; calls with other ids, such as positions, are left out."""
    for module, call, ids, output in recorder.calls:
        for number, name, leaf in inputs.sample_leaves:
            if not is_integer(leaf) or (match := matching_column(ids, leaf)) is None:
                continue
            column = None if match < 0 else match
            background_values = None
            if background is not None:
                background_leaf = background.leaves[number]
                background_ids = background_leaf if column is None else background_leaf[:, column]
                with torch.no_grad():
                    background_values = module.forward(background_ids.to(ids.device)).detach()
            yield InputPart(name, number, output.clone(), background_values, (module, call), column)
            break


def matching_column(ids: Tensor, leaf: Tensor) -> int | None:
    """Return the column of the leaf that the ids equal: -1 for the whole leaf, None for no match.

    Equal columns are distinguished by their memory address.
    """
    if ids.shape == leaf.shape and torch.equal(ids.to(leaf.dtype), leaf):
        return -1
    if leaf.dim() != 2 or ids.shape != leaf.shape[:1]:
        return None
    same = [j for j in range(leaf.shape[1]) if torch.equal(leaf[:, j], ids.to(leaf.dtype))]
    exact = [j for j in same if leaf[:, j].data_ptr() == ids.data_ptr()]
    return next(iter(exact or same), None)


@contextmanager
def embeddings_replaced(parts: list[InputPart], points: list[Tensor]) -> Iterator[None]:
    """Make each embedding return the points of its input part, for the duration of a block."""
    calls: dict[nn.Module, dict[int, Tensor]] = {}
    for part, point in zip(parts, points, strict=True):
        if part.call is not None:
            calls.setdefault(part.call[0], {})[part.call[1]] = point
    call_counts = dict.fromkeys(calls, 0)

    def substitute(module: nn.Module, _: Any, output: Tensor) -> Tensor:
        number = call_counts[module]
        call_counts[module] += 1
        return calls[module].get(number, output)

    with hooked(dict.fromkeys(calls, substitute)):
        yield


def check_has_parts(inputs: ModelInputs, parts: list[InputPart]) -> None:
    """Raise NotDifferentiable if there is nothing to attribute to, with the input that causes it."""
    if parts:
        return
    name, leaf = inputs.named_tensors[0]
    raise NotDifferentiable(
        f"{name} is {str(leaf.dtype).removeprefix('torch.')} and is not passed to an nn.Embedding unchanged; expected "
        f"real values or token ids. Convert it when it is loaded (x.float()). {USE_BLACK_BOX_METHOD}."
    )


def is_spatial(part: InputPart) -> bool:
    """Check for real-valued images or series."""
    return part.values.dim() >= 3 and part.values.is_floating_point()


def patch_side(shape: Sequence[int]) -> int:
    """Return the side of a patch of shape (channels, positions …): an eighth of the longest axis."""
    return max(1, -(-max(shape[1:]) // _PATCHES_PER_SIDE))


def patch_indices(shape: Sequence[int], size: int | None = None) -> Tensor:
    """Return the patch index of each position; all channels share a patch."""
    side = size or patch_side(shape)
    ids = torch.zeros(tuple(shape), dtype=torch.long)
    for axis, length in enumerate(shape[1:], 1):
        patch_along_axis = torch.arange(length) // side
        ids = ids * (-(-length // side)) + patch_along_axis.reshape(-1, *[1] * (len(shape) - axis - 1))
    return ids


def segment_indices(parts: Sequence[InputPart], size: int | None = None) -> tuple[list[Tensor], int]:
    """Return the segment index of each value of a sample, one tensor per part, and the number of segments."""
    indices: list[Tensor] = []
    count = 0
    for part in parts:
        shape = part.values.shape[1:]
        ids = patch_indices(shape, size) if is_spatial(part) else torch.arange(shape.numel()).reshape(shape)
        indices.append(ids + count)
        count += int(ids.max()) + 1
    return indices, count
