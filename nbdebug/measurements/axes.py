"""Axis errors in reshapes and attention softmaxes, and the coverage of convolution kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd import Graph
from nbdebug.autograd.call_recorders import CONVOLUTION_CALLS, CallRecorder, TorchCall, record_calls
from nbdebug.autograd.graph import Node
from nbdebug.autograd.patterns import is_dropout
from nbdebug.autograd.tracing import ModuleStack
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.batch_independence import sample_mixing
from nbdebug.measurements.loss_gradient import LossCall, compute_output_gradients
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import measurement
from nbdebug.tensors.memory import share_memory
from nbdebug.tensors.pytree import tree_map, tree_tensors

Shape = tuple[int, ...]
_RESHAPE_CALLS = {"view", "reshape", "view_as", "reshape_as"}
_PRODUCT_NODES = frozenset({"Bmm", "Mm"})
_VIEW_NODES = frozenset({"View", "UnsafeView", "ReshapeAlias", "Expand", "Clone", "Alias", "ToCopy", "NativeDropout"})
_SCALING_NODES = frozenset({"Div", "Mul", "Add", "Sub", "MaskedFill", "Where", "CopySlices", "InPlace", *_VIEW_NODES})
_RESHAPING_NODES = frozenset({"Permute", "Transpose", "Squeeze", "Unsqueeze"})
_PARAMETER_NODES = frozenset({"AccumulateGrad", "T", "Transpose", "Permute"})


@dataclass(frozen=True)
class ScrambledReshape:
    """A reshape with the shapes before and after it, and the axes of each that it mixes.

    ``needs_channels_last`` is True if the values of each row should be channels of one position.
    """

    call: TorchCall
    shape_before: Shape
    shape_after: Shape
    axes_before: Shape
    axes_after: Shape
    needs_channels_last: bool = False

    def may_involve_batch_axis(self, size: int) -> bool:
        """Return whether the batch axis may be involved; it comes first if the reshape leaves it alone."""
        return size in self.axes_before and not self.shape_before[0] == self.shape_after[0] == size


@measurement
def scrambled_reshapes(eval_outputs: EvalOutputs, output: Any) -> list[ScrambledReshape]:
    """Reshapes in the forward pass or the loss that should be a permutation of axes.

    A reshape that may involve the batch axis counts in the forward pass only if outputs depend on other samples.
    """
    tracker = _ReshapeTracker()
    if eval_outputs.has_reshaped_values:
        with record_calls(eval_outputs.setup.eager_model, tracker.add):
            eval_outputs.predict(eval_outputs.batch)
    outputs, targets = tree_tensors(output), tree_tensors(eval_outputs.batch.targets)
    rows = [rows for rows in tracker.rows_of_maps if _are_rows_of_targets(rows.shape_after, outputs, targets)]
    reshapes = tracker.reshapes + rows
    size = eval_outputs.batch.size
    if any(reshape.may_involve_batch_axis(size) for reshape in reshapes) and not _do_samples_mix(eval_outputs):
        reshapes = [reshape for reshape in reshapes if not reshape.may_involve_batch_axis(size)]
    return reshapes + _find_swaps_in_loss(eval_outputs, output)


def _do_samples_mix(answers: EvalOutputs) -> bool:
    """Return whether outputs are known to depend on other samples."""
    try:
        return bool(sample_mixing(answers).affected_samples)
    except NotChecked:
        return False


def _find_swaps_in_loss(answers: EvalOutputs, output: Any) -> list[ScrambledReshape]:
    """Return the reshapes of the user's loss for the output of the model; empty if the loss raises."""
    tracker, setup = _ReshapeTracker(), answers.setup
    is_of_last_pass = setup.loss_of_pass is not setup.loss_fn  # which has been one of another batch
    try:
        with torch.no_grad():
            copied = tree_map(setup.predict(answers.batch) if is_of_last_pass else output, _copy)
            with CallRecorder(ModuleStack(), tracker.add):
                setup.raw_loss(copied, answers.batch)
    except Exception:
        return []
    return tracker.reshapes


def _copy(leaf: Any) -> Any:
    """Return a copy, as a loss may write to its operands."""
    return leaf.detach().clone() if isinstance(leaf, Tensor) else leaf


@dataclass(frozen=True)
class TransposedTarget:
    """The shape of a target of steps and samples that a loss compares with an output of samples and steps as it is.

    Of the compared ``positions``, ``different`` ones have another target than the output of the same sample and step.
    """

    target_shape: Shape
    output_shape: Shape
    different: int
    positions: int


@measurement
def transposed_target(output: Any, loss: Tensor, loss_call: LossCall) -> TransposedTarget | None:
    """Classes of the first batch that meet the outputs of other samples, since one of both has the steps first.

    The gradient of a cross-entropy is negative only for the class that the loss takes for the target.
    """
    target = loss_call.targets[0] if len(loss_call.targets) == 1 else None
    if not isinstance(target, Tensor) or not isinstance(output, Tensor) or target.dim() != 2 or output.dim() != 3:
        return None
    if target.is_floating_point() or target.shape != output.shape[1::-1] or target.shape[0] == target.shape[1]:
        return None
    (gradient,) = compute_output_gradients(loss, [output])
    if gradient is None:
        return None
    is_compared, classes = (gradient < 0).sum(-1) == 1, gradient.argmin(-1)
    as_stored, by_position = target.reshape(output.shape[:2]), target.T
    if not bool(is_compared.any()) or not torch.equal(classes[is_compared], as_stored[is_compared]):
        return None
    different = int((classes != by_position)[is_compared].sum())
    shapes = tuple(target.shape), tuple(output.shape)
    return TransposedTarget(*shapes, different, int(is_compared.sum())) if different else None


class _ReshapeTracker:
    """Compares the shapes of values that stay in order, over one or several calls, such as flatten and unflatten."""

    def __init__(self) -> None:
        self.reshapes: list[ScrambledReshape] = []
        self.rows_of_maps: list[ScrambledReshape] = []
        self._maps: set[int] = set()
        self._origins: dict[int, Shape] = {}
        self._squares_with_extra_row: set[int] = set()
        self._references: list[Tensor] = []  # ids are unique while the tensors live

    def add(self, call: TorchCall) -> None:
        """Add a call, if its result has the values of its input in their order."""
        if call.name == "pad" and call.inputs and _adds_row_to_square(call.inputs[0], call.outputs[0]):
            self._squares_with_extra_row.add(id(call.outputs[0]))
            self._references.append(call.outputs[0])
        if call.inputs and (call.name in CONVOLUTION_CALLS or self._keeps_map(call)):
            self._maps.add(id(call.outputs[0]))
            self._references.append(call.outputs[0])
        if not call.inputs or not _keeps_order(call.inputs[0], call.outputs[0], call.name in _RESHAPE_CALLS):
            return
        source, result = call.inputs[0], call.outputs[0]
        if id(source) in self._maps and _splits_channel_maps(tuple(source.shape), tuple(result.shape)):
            before, after = tuple(source.shape), tuple(result.shape)
            self.rows_of_maps.append(ScrambledReshape(call, before, after, before[1:], after[1:], True))
            return
        if id(source) in self._squares_with_extra_row and result.shape == source.mT.shape:
            return
        if (first := self._find_shift(source, result)) is not None:
            self.reshapes.remove(first)
            return
        origin = self._origins.get(id(source), tuple(source.shape))
        self._origins[id(result)] = origin
        self._references += [source, result]
        for before in dict.fromkeys((tuple(source.shape), origin)):
            if swaps := list(_find_swaps(call, before, is_original=origin == tuple(source.shape))):
                self._origins[id(result)] = tuple(result.shape)
                self.reshapes += swaps
                return

    def _keeps_map(self, call: TorchCall) -> bool:
        """Return whether a call returns channels at positions, as it takes them from a convolution."""
        is_of_map = id(call.inputs[0]) in self._maps and call.inputs[0].shape == call.outputs[0].shape
        return is_of_map and call.outputs[0].is_contiguous()

    def _find_shift(self, source: Tensor, result: Tensor) -> ScrambledReshape | None:
        """Return the earlier reshape that shifts rows together with this one; None if there is none.

        Rows of another length, without the first, in rows as before, begin one position later each: the scores of
        relative positions are aligned so (Dai et al. 2019, arXiv:1901.02860, appendix B).
        """
        for reshape in self.reshapes:
            rows, before = reshape.call.outputs[0], reshape.shape_before
            is_part = source.numel() < rows.numel() and share_memory(source, rows)
            has_same_axes = source.dim() == rows.dim() == result.dim() == len(before) > 1
            if is_part and has_same_axes and (source.shape[-1], result.shape[-2]) == (rows.shape[-1], before[-2]):
                return reshape
        return None


def _adds_row_to_square(source: Tensor, result: Tensor) -> bool:
    """Return whether a result has one row more than a tensor with as many rows as columns.

    In rows longer by one, each row of the square begins one position later, so that its diagonals become columns:
    attention in a sliding window aligns its scores so (Beltagy et al. 2020, arXiv:2004.05150).
    """
    if source.dim() < 2 or result.dim() != source.dim():
        return False
    rows, columns = source.shape[-2:]
    return bool(rows == columns and result.shape == (*source.shape[:-2], rows + 1, columns))


def _keeps_order(source: Tensor, result: Tensor, is_reshape: bool) -> bool:
    """Return whether a result has all values of a tensor in their order."""
    if isinstance(source, nn.Parameter) or source is result or source.numel() != result.numel() or not source.numel():
        return False
    if is_reshape:
        return True
    is_view = source.is_contiguous() and result.is_contiguous() and share_memory(source, result)
    return is_view and source.storage_offset() == result.storage_offset() and source.dtype == result.dtype


def _find_swaps(call: TorchCall, before: Shape, *, is_original: bool) -> Iterator[ScrambledReshape]:
    """Yield the groups of axes with reordered lengths between a shape and that of the result of a call.

    The channels of an image may become rows only if no earlier reshape has made them, as from the rows of a layer.
    """
    after = tuple(call.outputs[0].shape)
    for axes_before, axes_after in split_into_groups(before, after):
        if heads := _split_heads(axes_before, axes_after):
            axes_before, axes_after = heads
        is_image = is_original and len(before) == 4
        if is_swap(axes_before, axes_after) or (is_image and moves_channels(axes_before, axes_after)):
            yield ScrambledReshape(call, before, after, axes_before, axes_after)


def _split_heads(axes_before: Shape, axes_after: Shape) -> tuple[Shape, Shape] | None:
    """Return the axes of one sample, if a factor has moved between the first and the last of three axes.

    So (batch, tokens, heads * width) becomes (batch * heads, tokens, width), or the reverse: an axis of the same length
    is in the middle, but a reshape cannot move the heads past it.
    """
    if not len(axes_before) == len(axes_after) == 3 or axes_before[1] != axes_after[1]:
        return None
    if axes_after[0] % axes_before[0] == 0:
        return axes_before[1:], (axes_after[0] // axes_before[0], *axes_after[1:])
    if axes_before[0] % axes_after[0] == 0:
        return (axes_before[0] // axes_after[0], *axes_before[1:]), axes_after[1:]
    return None


def split_into_groups(before: Shape, after: Shape) -> Iterator[tuple[Shape, Shape]]:
    """Yield the shortest groups of axes with equal products before and after; axes of length 1 are excluded."""
    before_axes, after_axes = (tuple(n for n in shape if n != 1) for shape in (before, after))
    before_products = list(accumulate(before_axes, mul))
    after_products = list(accumulate(after_axes, mul))
    i = j = 0
    for product in sorted(set(before_products) & set(after_products)):
        yield before_axes[i : before_products.index(product) + 1], after_axes[j : after_products.index(product) + 1]
        i, j = before_products.index(product) + 1, after_products.index(product) + 1


def is_swap(axes_before: Shape, axes_after: Shape) -> bool:
    """Return whether both groups have the same lengths in another order; one axis may be split into several."""
    if min(len(axes_before), len(axes_after)) < 2 or axes_before == axes_after:
        return False
    smaller, larger = sorted((Counter(axes_before), Counter(axes_after)), key=lambda lengths: lengths.total())
    return (smaller - larger).total() <= 1


def moves_channels(axes_before: Shape, axes_after: Shape) -> bool:
    """Return whether channels become rows and columns of an image, or the reverse, as only a pixel shuffle may do.

    Height and width change by factors whose product is that of the channels; the other channels remain.
    """
    small, large = sorted((axes_before, axes_after), key=lambda axes: axes[-1])
    if len(small) != 3 or len(large) not in (2, 3):
        return False
    return all(after > before and after % before == 0 for before, after in zip(small[-2:], large[-2:], strict=True))


def _splits_channel_maps(before: Shape, after: Shape) -> bool:
    """Return whether rows of values hold neighboring positions of one channel, while channels would fill them.

    So (batch, anchors * values, height, width) becomes (batch, positions * anchors, values). Rows of whole lines of an
    image are not meant.
    """
    if len(before) not in (3, 4) or len(after) != 3 or before[0] != after[0]:
        return False
    channels, values, width, positions = before[1], after[2], before[-1], prod(before[2:])
    return values > 1 and channels % values == 0 and positions >= values and values % width != 0


def _are_rows_of_targets(rows: Shape, outputs: list[Tensor], targets: list[Tensor]) -> bool:
    """Return whether the model returns such rows, possibly with those of other maps, and each has a target."""
    samples, count, values = rows
    returned = {t.shape[1] for t in outputs if t.dim() == 3 and (len(t), t.shape[2]) == (samples, values)}
    expected = {t.shape[1] for t in targets if t.dim() in (2, 3) and len(t) == samples and _holds_rows(t, values)}
    return any(number >= count for number in returned & expected)


def _holds_rows(target: Tensor, values: int) -> bool:
    """Return whether a target has a class, or as many values, for each row of a sample."""
    return (target.dim() == 2 and not target.is_floating_point()) or target.shape[2:] == (values,)


@dataclass(frozen=True)
class MismatchedSoftmax:
    """A softmax over ``axis`` of scores with ``shape``, whose result is summed over the axis ``summed_axis``."""

    node: Node
    shape: tuple[int, ...]
    axis: int
    summed_axis: int


@measurement
def mismatched_softmaxes(graph: Graph) -> list[MismatchedSoftmax]:
    """Softmaxes of attention scores whose result is multiplied and summed over another axis."""
    return [
        mismatch
        for node in graph.get_nodes_by_name("Softmax")
        if takes_attention_scores(node)
        for mismatch in _find_mismatch(node)
    ]


def _find_mismatch(node: Node) -> Iterator[MismatchedSoftmax]:
    """Yield a softmax that runs along an axis, such as that of the heads, that the product does not sum over."""
    result, axis = node.get_saved("result"), node.get_saved("dim")
    if not isinstance(result, Tensor) or result.dim() < 2:
        return
    shape = tuple(result.shape)
    axis %= len(shape)
    for operand in _get_operand_positions(node):
        summed_axis = len(shape) - 1 - operand
        if axis != summed_axis and (axis > 0 or len(shape) == 2) and shape[axis] > 1:
            yield MismatchedSoftmax(node, shape, axis, summed_axis)
            return


def _get_operand_positions(node: Node) -> Iterator[int]:
    """Yield the operand position, 0 or 1, of the result of a node in the products that use it unchanged."""
    for user in node.users:
        if user.name in _PRODUCT_NODES:
            functions = [function for function, _ in user.function.next_functions]
            yield from (position for position, function in enumerate(functions) if function is node.function)
        elif user.name in _VIEW_NODES or is_dropout(user):
            yield from _get_operand_positions(user)


def takes_attention_scores(node: Node) -> bool:
    """Return whether the input of a softmax is a product of two activations, possibly scaled and masked."""
    pending, visited = list(node.inputs), set[Node]()
    while pending:
        current = pending.pop()
        if current in visited:
            continue
        visited.add(current)
        if current.name in _PRODUCT_NODES:
            return len(current.inputs) == 2 and not any(map(_is_weight, current.inputs))
        if current.name in _SCALING_NODES | _RESHAPING_NODES:
            pending += current.inputs
    return False


def _is_weight(node: Node) -> bool:
    """Return whether an operand is a parameter, possibly transposed."""
    while node.name in _PARAMETER_NODES - {"AccumulateGrad"} and len(node.inputs) == 1:
        node = node.inputs[0]
    return node.name == "AccumulateGrad"


@dataclass(frozen=True)
class KernelCoverage:
    """One convolution: the sizes of its input and kernel, and the share of the kernel that covers data."""

    node: Node
    input_size: tuple[int, ...]
    kernel_size: tuple[int, ...]
    coverage: float


@measurement
def kernel_coverage(graph: Graph) -> list[KernelCoverage]:
    """Kernel coverage of the convolutions of the first pass, in execution order."""
    coverages = [
        coverage
        for node in graph.get_nodes_by_name("Convolution")
        if (coverage := _get_kernel_coverage(node)) is not None
    ]
    return coverages[::-1]


def _get_kernel_coverage(node: Node) -> KernelCoverage | None:
    """Return the coverage of a convolution; None if it is transposed or its saved tensors are freed."""
    input, weight = node.get_saved("input"), node.get_saved("weight")
    if not isinstance(input, Tensor) or not isinstance(weight, Tensor) or node.get_saved("transposed"):
        return None
    input_size, kernel_size = tuple(input.shape[2:]), tuple(weight.shape[2:])
    options = [_per_axis(node.get_saved(name), len(input_size)) for name in ("stride", "padding", "dilation")]
    axes = zip(input_size, kernel_size, *options, strict=True)
    return KernelCoverage(node, input_size, kernel_size, prod(compute_axis_coverage(*axis) for axis in axes))


def _per_axis(option: Sequence[int] | int, axes: int) -> Sequence[int]:
    """Return an option of a convolution for each axis; a number, or a sequence of one, counts for all."""
    values = option if isinstance(option, Sequence) else (option,)
    return values if len(values) == axes else tuple(values) * axes


def compute_axis_coverage(size: int, kernel: int, stride: int, padding: int, dilation: int) -> float:
    """Return the share of kernel positions, along one axis, that cover data for at least one output."""
    outputs = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    starts = [stride * output - padding for output in range(outputs)]
    return sum(any(0 <= start + dilation * offset < size for start in starts) for offset in range(kernel)) / kernel
