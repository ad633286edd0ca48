"""Rows of a batch that influence the loss by their position: the loss reads data of the samples as row numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd.call_recorders import SELECTION_CALLS, TorchCall
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.loss_gradient import LossCall, compute_output_gradients
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_map, tree_tensors

_MIN_ROWS, _MAX_SHARE, _ORDERS = 8, 0.5, 3
_MAX_VALUES = 2**22


@dataclass(frozen=True)
class FixedPositions:
    """Some ``columns`` of an output of ``rows`` samples that have a gradient in the rows ``positions`` alone.

    They keep it there in ``orders`` other orders of the samples. ``numbers`` are the different row numbers in the index
    that selects these rows, and ``length`` is its length; ``line`` is the line that makes it.
    """

    positions: tuple[int, ...]
    columns: tuple[int, ...]
    column_count: int
    rows: int
    orders: int
    numbers: tuple[int, ...]
    length: int
    line: SourceLine | None


@dataclass(frozen=True)
class _RepeatedRows:
    """Row numbers that a call of the loss reads rows by, some of them several times."""

    values: Tensor
    line: SourceLine | None


@measurement
def fixed_positions(
    first_pass: ForwardPass, output: Any, loss: Tensor, loss_call: LossCall, loss_calls: list[TorchCall]
) -> FixedPositions | None:
    """Columns of an output whose gradient stays in the same few rows if the samples of the batch change places.

    Masks, negatives within the batch and hard examples move with the samples. Rows that are chosen by a slice may be
    chosen on purpose, and so may rows that occur once: some row must be selected more than once by its number. The
    random numbers of a loss differ between the orders.
    """
    rows = first_pass.batch.size
    index = next(_row_indices(loss_calls, rows), None) if rows >= _MIN_ROWS else None
    if index is None:
        return None
    outputs, trees = tree_tensors(output), (loss_call.output, loss_call.targets)
    if any(not tensor.dim() or len(tensor) != rows for tree in trees for tensor in tree_tensors(tree)):
        raise NotChecked("needs outputs and targets with a row for each sample")
    if sum(tensor.numel() for tensor in outputs) > _MAX_VALUES:
        raise NotChecked("the output is too large to be permuted")
    before = [_used(g, t) for g, t in zip(compute_output_gradients(loss, outputs), outputs, strict=True)]
    orders = list(_draw_orders(rows))
    after = [_used_in_order(loss_call, order, number) for number, order in enumerate(orders)]
    numbers = tuple(index.values.unique().tolist())  # type: ignore[no-untyped-call]
    for leaf, used in enumerate(before):
        columns = _fixed_columns(used, [other[leaf] for other in after], orders)
        positions = tuple(used[:, columns].any(1).nonzero().flatten().tolist())
        if columns and set(positions) <= set(numbers):
            return FixedPositions(
                positions, tuple(columns), used.shape[1], rows, _ORDERS, numbers, index.values.numel(), index.line
            )
    return None


def _row_indices(calls: list[TorchCall], rows: int) -> Iterator[_RepeatedRows]:
    """Yield the whole numbers by which a loss reads rows of a batch, if some number occurs more than once."""
    makers: dict[int, TorchCall] = {}
    for call in calls:
        source, index = (call.inputs[0] if call.inputs else None), _index_of_rows(call)
        values = torch.as_tensor(index).detach().cpu().flatten() if index is not None else torch.empty(0)
        if source is not None and source.dim() and len(source) == rows and len(values) > 1:
            numbers = values % rows
            if len(numbers.unique()) <= min(_MAX_SHARE * rows, len(numbers) - 1):  # type: ignore[no-untyped-call]
                yield _RepeatedRows(numbers, _making_line(index, makers) or call.line)
        makers |= {id(tensor): call for tensor in call.outputs}


def _index_of_rows(call: TorchCall) -> Tensor | list[int] | None:
    """Return the whole numbers that a call selects rows by; None without any."""
    if call.name not in SELECTION_CALLS or len(call.args) + len(call.kwargs) < 2:
        return None
    if call.name == "getitem":
        index = call.args[1][0] if isinstance(call.args[1], tuple) and call.args[1] else call.args[1]
    else:
        axis = call.kwargs.get("dim", next((arg for arg in call.args[1:] if isinstance(arg, int)), None))
        index = next((tensor for tensor in call.inputs[1:]), None) if axis == 0 else None
    if isinstance(index, list):
        return index if all(type(number) is int for number in index) else None
    is_index = isinstance(index, Tensor) and index.dim() > 0 and _is_whole(index)
    return index if is_index else None


def _is_whole(tensor: Tensor) -> bool:
    """Return whether a tensor has numbers that select rows; unsigned bytes are a mask, as booleans are."""
    return tensor.dtype in (torch.int64, torch.int32, torch.int16, torch.int8)


def _making_line(index: Any, makers: dict[int, TorchCall]) -> SourceLine | None:
    """Return the line that first makes the whole numbers of an index; None if they are data or no tensor."""
    line = None
    while isinstance(index, Tensor) and _is_whole(index) and (call := makers.get(id(index))) is not None:
        line = call.line or line
        source = call.inputs[0] if call.inputs else None
        index = source if source is not index and isinstance(source, Tensor) else None
        if index is not None and index.numel() != call.outputs[0].numel():
            break
    return line


def _draw_orders(rows: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randperm(rows, generator=generator) for _ in range(_ORDERS)]


def _used_in_order(call: LossCall, order: Tensor, number: int) -> list[Tensor]:
    """Return where the output has a gradient if the samples are in another order, with other random numbers."""

    def take(leaf: Any) -> Any:
        return leaf.detach().index_select(0, order.to(leaf.device)) if isinstance(leaf, Tensor) else leaf

    output, targets = tree_map(call.output, take), tree_map(call.targets, take)
    leaves = tree_tensors(output)
    with Preserve(call.function if isinstance(call.function, nn.Module) else None), torch.enable_grad():
        for leaf in leaves:
            leaf.requires_grad_(leaf.is_floating_point())
        seed_all(number)
        try:
            loss = call.function(*call.form(output, targets))
            inputs = [leaf for leaf in leaves if leaf.requires_grad]
            gradients = iter(torch.autograd.grad(loss, inputs, allow_unused=True))
        except Exception as error:  # the loss is the user's
            raise NotChecked(f"the loss rejects another order of the samples: {type(error).__name__}") from error
    return [_used(next(gradients) if leaf.requires_grad else None, leaf) for leaf in leaves]


def _used(gradient: Tensor | None, tensor: Tensor) -> Tensor:
    """Return where a tensor has a gradient, as rows and columns."""
    values = torch.zeros(tensor.shape) if gradient is None else gradient.detach().cpu()
    return (values.to_dense() != 0).reshape(len(tensor), -1)


def _fixed_columns(used: Tensor, others: list[Tensor], orders: list[Tensor]) -> list[int]:
    """Return the columns that are used in few rows, the same in each order and not those of the same samples."""
    is_fixed = used.any(0) & (used.float().mean(0) < _MAX_SHARE)
    for other, order in zip(others, orders, strict=True):
        is_fixed &= (other == used).all(0) & (used[order] != used).any(0)
    return [int(column) for column in is_fixed.nonzero().flatten()]
