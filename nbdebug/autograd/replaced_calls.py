"""Record the torch calls of a pass with the values of the whole batch, and repeat a pass with some results replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch._C import _functorch as functorch
from torch.overrides import TorchFunctionMode

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.tensors.pytree import tree_map, tree_tensors

Replacements = Mapping[int, tuple[Tensor, ...]]


@contextmanager
def record_whole_calls(
    model: nn.Module, on_call: Callable[[TorchCall], None], replaced: Replacements | None = None
) -> Iterator[None]:
    """Pass every torch call of ``model`` to ``on_call`` in a block.

    Inside ``torch.func.vmap``, the tensors of a call are those of all samples, with these on the first axis.
    ``replaced`` holds the results that the model receives instead of those of some calls, by the number of the call.
    The calls themselves are recorded with their own results.
    """
    batches = _WholeBatches()

    def record(call: TorchCall) -> None:
        inputs, outputs = (tuple(map(batches.get, tensors)) for tensors in (call.inputs, call.outputs))
        on_call(replace(call, inputs=inputs, outputs=outputs))

    with record_calls(model, record), _ResultReplacer(replaced or {}):
        yield


class _WholeBatches:
    """The values behind the samples of ``torch.func.vmap``, the same tensor for the same sample."""

    def __init__(self) -> None:
        self._moved: dict[int, tuple[Tensor, Tensor]] = {}  # the sample stays alive, so that its id stays its own

    def get(self, tensor: Tensor) -> Tensor:
        """Return the values of all samples; the tensor itself outside ``vmap`` and in nested ones."""
        values = functorch.get_unwrapped(tensor) if functorch.is_batchedtensor(tensor) else tensor
        if values is tensor or functorch.is_batchedtensor(values):
            return tensor
        axis = functorch.maybe_get_bdim(tensor)
        return values if axis == 0 else self._moved.setdefault(id(tensor), (tensor, values.movedim(axis, 0)))[1]


class _ResultReplacer(TorchFunctionMode):
    """Replaces the results of some calls, which are numbered as they are recorded."""

    def __init__(self, replaced: Replacements) -> None:
        super().__init__()
        self._replaced, self._number = replaced, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        outputs = tree_tensors(result)
        if not outputs:
            return result
        values, self._number = self._replaced.get(self._number), self._number + 1
        if values is None:
            return result
        by_output = {id(output): _map_like(output, value) for output, value in zip(outputs, values, strict=True)}
        return tree_map(result, lambda leaf: by_output.get(id(leaf), leaf))


def _map_like(tensor: Tensor, values: Tensor) -> Tensor:
    """Return values of all samples as those of one sample, if ``tensor`` is one inside ``torch.func.vmap``."""
    if not functorch.is_batchedtensor(tensor) or functorch.is_batchedtensor(values):
        return values
    return functorch._add_batch_dim(values, 0, functorch.maybe_get_level(tensor))
