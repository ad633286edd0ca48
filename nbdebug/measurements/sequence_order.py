"""Next-token offset, and sensitivity to permuted positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from nbdebug.autograd import Graph
from nbdebug.autograd.graph import Node
from nbdebug.baselines.input_features import standardize_columns
from nbdebug.baselines.reference_learner import ReferenceLearner
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.perturbation import EvalOutputs, fill_zero_parameters
from nbdebug.measurements.reference import Reference
from nbdebug.measurements.registry import measurement, slow_measurement
from nbdebug.preserve import seed_all
from nbdebug.setup.batch import TARGET_KEYS, Batch
from nbdebug.setup.evaluation_mode import fast_attention_disabled, in_mode
from nbdebug.setup.losses import score_tensor
from nbdebug.tensors.pytree import tree_map, tree_tensors

_CANDIDATE_OFFSETS = (1, 0, 2, 3, -1)
_MIN_MATCHES = 8  # positions that must agree, to rule out coincidence
_MAX_COUNTED_TOKENS = 2_000
_SequenceKind = Literal["tokens", "steps", "patches"]
_NUM_DRAWS, _TOLERANCE, _MAX_FEATURES = 20, 1e-4, 32


@dataclass(frozen=True)
class NextTokenOffset:
    """Offset of a sequence model: the target at t is the input at t + ``data_offset`` along ``axis``.

    The loss compares the output at t with the target at t + ``loss_offset``; ``counted_positions`` are the positions
    included in the loss. ``input_name`` is the name of the input, and ``input_axis`` its axis of the positions, which
    comes after ``axis`` if the targets lack an axis of channels before it.
    """

    input_name: str
    target: Tensor
    axis: int
    data_offset: int
    loss_offset: int
    counted_positions: tuple[int, ...]
    input_axis: int

    @property
    def length(self) -> int:
        """The number of positions."""
        return self.target.shape[self.axis]

    @property
    def total_offset(self) -> int:
        """The number of positions between an input and its prediction."""
        return self.data_offset + self.loss_offset


@measurement
def next_token_offset(eval_outputs: EvalOutputs) -> NextTokenOffset:
    """Offset between input and prediction of a sequence model, from data and loss together."""
    target = next(iter(tree_tensors(eval_outputs.batch.target_or_label)), None)
    if target is None or target.dim() < 2:
        raise NotChecked("the targets are not sequences")
    name, axis, offset = _match_input_to_target(eval_outputs, target)
    length = target.shape[axis]
    before = _compute_output_gradients(eval_outputs, eval_outputs.batch, target, axis)
    after = _compute_output_gradients(
        eval_outputs, _replace_target(eval_outputs.batch, target, axis, length // 2), target, axis
    )
    changed = _find_changed_positions(before, after)
    if len(changed) != 1:
        raise NotChecked("the loss does not compare one output position with one target position")
    counted = tuple(t for t in range(length) if bool(before[t].any()))
    input_axis = axis + _has_channels_first(eval_outputs.inputs[name].shape, target.shape, axis)
    return NextTokenOffset(name, target, axis, offset, length // 2 - changed[0], counted, input_axis)


def _find_changed_positions(before: Tensor, after: Tensor) -> list[int]:
    """Return the positions whose gradient changes by more than a factor that all of them share.

    Such a factor is the number of counted targets, in a mean that leaves some of them out.
    """
    changed = [t for t in range(len(before)) if not torch.equal(before[t], after[t])]
    is_known = (before != 0) & (after != 0)
    if len(changed) < 2 or not bool(is_known.any()):
        return changed
    expected = before * (after[is_known] / before[is_known]).median()
    tolerance = _TOLERANCE * float(after.abs().max())
    return [t for t in changed if not torch.allclose(expected[t], after[t], rtol=_TOLERANCE, atol=tolerance)]


def _match_input_to_target(answers: EvalOutputs, target: Tensor) -> tuple[str, int, int]:
    """Return the input that equals the shifted target, or has it as a feature, the axis of the shift, and its size."""
    for name, input in answers.inputs.items():
        if name == "labels" or _is_label(answers.batch, name, target) or input.dtype != target.dtype:
            continue
        for axis in [1, 0, *range(2, target.dim())]:
            for feature in _features_of_shape(input, target.shape, axis):
                x, y = feature.movedim(axis, 0), target.movedim(axis, 0)
                offsets = [offset for offset in _CANDIDATE_OFFSETS if _is_shifted_copy(x, y, offset)]
                if len(offsets) == 1:
                    return name, axis, offsets[0]
    for name, input in answers.inputs.items():
        if not _is_label(answers.batch, name, target) and _is_wrapped_copy(input, target):
            return name, 1, 0
    raise NotChecked("the targets are not the shifted inputs")


def _is_wrapped_copy(input: Tensor, target: Tensor) -> bool:
    """Return whether tokens are the target, except at the last position, where they hold other ones.

    ``roll`` makes such an input: it brings the next token to each position, and the first one to the last. A token that
    is the same in all samples stands for a mask or the end instead.
    """
    is_tokens = input.dim() == 2 and input.dtype == target.dtype and input.dtype in (torch.int64, torch.int32)
    if not is_tokens or input.shape != target.shape or len(torch.unique(input[:, -1])) < 2:
        return False
    is_copied = bool((input != target)[:, -1].any()) and int(target[:, -1].min()) >= 0
    return is_copied and _is_shifted_copy(input.t()[:-1], target.t()[:-1], 0)


def _features_of_shape(input: Tensor, shape: torch.Size, axis: int) -> list[Tensor]:
    """Return the input if it has a shape, else its single features that have it; ``axis`` is that of the positions.

    The features are along the last axis, which the shape may lack, as it may lack an axis of channels after the
    samples, or along another axis than the positions.
    """
    if input.shape == shape:
        return [input]
    if not input.is_floating_point() or input.dim() < 3:
        return []
    if input.shape[:-1] == shape:
        return list(input.unbind(-1))[:_MAX_FEATURES]
    if _has_channels_first(input.shape, shape, axis):
        return list(input.unbind(1))[:_MAX_FEATURES]
    differing = [i for i in range(1, input.dim()) if len(shape) == input.dim() and input.shape[i] != shape[i]]
    if len(differing) != 1 or differing[0] == axis or shape[differing[0]] != 1 or input.shape[0] != shape[0]:
        return []
    return list(input.split(1, differing[0]))[:_MAX_FEATURES]  # type: ignore[no-untyped-call]


def _has_channels_first(input_shape: torch.Size, shape: torch.Size, axis: int) -> bool:
    """Return whether an input has an axis of channels after the samples that targets lack; positions come after it."""
    return axis > 0 and input_shape[:-1] != shape and (*input_shape[:1], *input_shape[2:]) == (*shape,)


def _is_shifted_copy(x: Tensor, y: Tensor, offset: int) -> bool:
    """Return whether ``y`` is ``x`` shifted by ``offset`` positions, ignoring negative indices."""
    length = max(len(x) - abs(offset), 0)
    x, y = x[max(offset, 0) :][:length], y[max(-offset, 0) :][:length]
    counted = torch.ones_like(y, dtype=torch.bool) if y.is_floating_point() else y >= 0
    return int(counted.sum()) >= _MIN_MATCHES and bool((x == y)[counted].all())


def _replace_target(batch: Batch, target: Tensor, axis: int, position: int) -> Batch:
    """Return the batch with other targets at one position."""
    changed = target.clone()
    changed.movedim(axis, 0)[position] = replace_values(target).movedim(axis, 0)[position]
    targets = tree_map(batch.targets, lambda leaf: changed if leaf is target else leaf)
    labels = {name: changed for name in batch.kwargs if _is_label(batch, name, target)}
    return replace(batch, targets=targets, kwargs={**batch.kwargs, **labels})


def _is_label(batch: Batch, name: str, target: Tensor) -> bool:
    """Check whether a keyword argument holds the target; "target" and others next to a target feed a decoder."""
    return batch.kwargs.get(name) is target and (name == "labels" or (name in TARGET_KEYS and batch.target is None))


def replace_values(tensor: Tensor) -> Tensor:
    """Replace every value: integers by the next index that occurs, floating-point x by 1 - 2x.

    Negative indices, which losses ignore, stay.
    """
    if tensor.is_floating_point():
        return 1 - 2 * tensor
    values, value_indices = torch.unique(tensor.clamp(min=0), return_inverse=True)
    return torch.where(tensor < 0, tensor, torch.roll(values, 1)[value_indices])


def _compute_output_gradients(answers: EvalOutputs, batch: Batch, target: Tensor, axis: int) -> Tensor:
    """Return the gradient of the loss with respect to the output, positions first; raise NotChecked if none."""
    setup = answers.setup
    with torch.enable_grad(), in_mode(setup.eager_model, False), fast_attention_disabled():
        seed_all(0)
        output = setup.predict(batch)
        main = score_tensor(output)
        try:
            (gradient,) = torch.autograd.grad(setup.loss(output, batch), main)
        except Exception as error:
            raise NotChecked(f"the loss does not accept other targets: {type(error).__name__}: {error}") from None
    return move_positions_first(gradient, target, axis)


def move_positions_first(output: Tensor, target: Tensor, axis: int) -> Tensor:
    """Move the position axis of an output to the front; raise NotChecked if it cannot be identified."""
    length = target.shape[axis]
    if len(output) == target.numel():
        output = output.reshape(*target.shape, *output.shape[1:])
    for candidate_axis in (axis, output.dim() - 1):
        if candidate_axis < output.dim() and output.shape[candidate_axis] == length:
            return output.movedim(candidate_axis, 0)
    raise NotChecked("the output has no axis for the positions of the targets")


def depends_on_current_input(answers: EvalOutputs, ahead: NextTokenOffset) -> bool:
    """Return whether the output at a position depends on its input; it does not if the model shifts its input."""
    position = ahead.length // 2
    changed = answers.changed_values(answers.predict(replace_later_inputs(answers, ahead, position - 1))[0])
    return bool(move_positions_first(changed, ahead.target, ahead.axis)[position].any())


def replace_later_inputs(answers: EvalOutputs, ahead: NextTokenOffset, position: int) -> Batch:
    """Return the batch with other inputs at all positions after one."""
    input = answers.inputs[ahead.input_name]
    changed = input.clone()
    axis = ahead.input_axis
    changed.movedim(axis, 0)[position + 1 :] = replace_values(input).movedim(axis, 0)[position + 1 :]
    return answers.transform_inputs(lambda leaf: changed if leaf is input else leaf)


@dataclass(frozen=True)
class PermutationSensitivity:
    """Attention model and its input: kind, number of positions, and whether their order influences the output.

    ``is_data_ordered`` is True if the data have an order, that is, if neighbors are more similar than other pairs of a
    sequence. ``entry_node`` is where the sequence enters: its embedding, its patches or the first attention.
    ``names_positions`` is True if the model tells the positions of a sequence by values that name them, such as the
    number of a field, and these are in another order in each sequence.
    """

    kind: _SequenceKind
    length: int
    is_sensitive: bool
    is_data_ordered: bool
    entry_node: Node
    names_positions: bool = False


@slow_measurement
def permutation_sensitivity(eval_outputs: EvalOutputs, graph: Graph) -> PermutationSensitivity:
    """Sensitivity of the output to a permutation of the sequences, beyond permuting it."""
    attention = [
        (node, attention_length) for node in graph.nodes if (attention_length := _get_attention_length(node)) > 1
    ]
    if not attention:
        raise NotChecked("the model contains no self-attention")
    node, attention_length = attention[-1]
    kind, entry = _find_sequence_entry(eval_outputs, graph, node, attention_length)
    side = _get_patch_side(entry) if kind == "patches" else 0
    input = next(iter(eval_outputs.inputs.values()))
    length = input.shape[2] * input.shape[3] // side**2 if side else input.shape[1]
    order = torch.randperm(length, generator=torch.Generator().manual_seed(0))
    changed = eval_outputs.transform_inputs(lambda t: _permute_positions(t, order, side))
    is_unchanged = _is_unchanged(eval_outputs, eval_outputs.outputs[0], eval_outputs.predict(changed)[0], order)
    if is_unchanged:
        with fill_zero_parameters(eval_outputs.setup.eager_model):  # a table of positions may start at zero
            before, after = (eval_outputs.predict(batch)[0] for batch in (eval_outputs.batch, changed))
        is_unchanged = _is_unchanged(eval_outputs, before, after, order)
    reads_steps, reads_keys = (
        is_unchanged and not side and _reads_labels(eval_outputs, order, labels) for labels in (_are_steps, _are_keys)
    )
    is_ordered = _is_data_ordered(eval_outputs, kind) and not reads_keys
    return PermutationSensitivity(kind, length, reads_steps or not is_unchanged, is_ordered, entry, reads_keys)


def _reads_labels(eval_outputs: EvalOutputs, order: Tensor, are_labels: Callable[[Tensor], bool]) -> bool:
    """Return whether the output depends on which positions have which labels, found among the inputs or their columns.

    By intervention: everything but the labels is permuted.
    """
    inputs = [*eval_outputs.inputs.values()]
    columns = [(x, c) for x in inputs if x.dim() == 3 for c in range(min(x.shape[2], _MAX_FEATURES)) if x.shape[2] > 1]
    parts = [(x, None) for x in inputs if x.dim() == 2 and len(inputs) > 1]
    for labels, column in [*parts, *columns]:
        if not are_labels(labels if column is None else labels[..., column]):
            continue
        changed = eval_outputs.transform_inputs(partial(_permute_others, order, labels, column))
        return not _is_unchanged(eval_outputs, eval_outputs.outputs[0], eval_outputs.predict(changed)[0], order)
    return False


def _permute_others(order: Tensor, labels: Tensor, column: int | None, tensor: Tensor) -> Tensor:
    """Permute the positions of a tensor, except those of the labels or of their column in it."""
    if tensor is labels and column is None:
        return tensor
    permuted = _permute_positions(tensor, order, 0)
    if tensor is labels:
        permuted[..., column] = tensor[..., column]
    return permuted


def _are_steps(labels: Tensor) -> bool:
    """Check whether values increase or decrease along each sequence, as times and the numbers of positions do."""
    steps = labels.diff(dim=1)
    is_counted = labels.dtype != torch.bool and len(labels) > 1 and labels.shape[1] > 2
    return is_counted and bool((steps > 0).all() or (steps < 0).all())


def _are_keys(labels: Tensor) -> bool:
    """Check whether each sequence holds the same values, each once, in some order that is not the same in all."""
    if labels.dtype == torch.bool or len(labels) < 2:
        return False
    values = labels.sort(dim=1).values
    return bool((values == values[:1]).all() and (values.diff(dim=1) > 0).all() and (labels != labels[:1]).any())


def _get_attention_length(node: Node) -> int:
    """Return the sequence length of a self-attention operation; 0 for any other node."""
    if node.name in ("Softmax", "SafeSoftmax"):
        result = node.get_saved("result")
        square = isinstance(result, Tensor) and result.dim() > 2 and result.shape[-1] == result.shape[-2]
        return int(result.shape[-1]) if square else 0
    query, key = (node.get_saved(name) if "ScaledDotProduct" in node.name else None for name in ("query", "key"))
    if not isinstance(query, Tensor) or not isinstance(key, Tensor):
        return 0
    return int(key.shape[-2]) if query.shape[-2] == key.shape[-2] else 0


def _find_sequence_entry(
    answers: EvalOutputs, graph: Graph, attention: Node, attention_length: int
) -> tuple[_SequenceKind, Node]:
    """Return the kind of sequence that the input is, and the operation where it enters."""
    inputs = list(answers.inputs.values())
    if len({t.shape[1:2] for t in inputs}) != 1 or any(t.dim() < 2 or len(t) != answers.batch.size for t in inputs):
        raise NotChecked("the inputs are not sequences of equal length, one row per sample")
    first = inputs[0]
    if first.dim() == 4 and len(inputs) == 1:
        convolution = next((node for node in reversed(graph.nodes) if node.name == "Convolution"), None)
        if convolution is not None and _get_patch_side(convolution) > 1:
            return "patches", convolution
        raise NotChecked("the images are not split into patches by one convolution")
    if attention_length - first.shape[1] not in (0, 1):  # one extra for a class token
        raise NotChecked("the attention positions are not those of the input")
    if first.is_floating_point():
        return "steps", attention
    return "tokens", next((node for node in reversed(graph.nodes) if node.name == "Embedding"), attention)


def _get_patch_side(convolution: Node) -> int:
    """Return the side of the square patches of a convolution; 0 if they overlap or leave gaps."""
    weight, stride = convolution.get_saved("weight"), convolution.get_saved("stride")
    if (
        not isinstance(weight, Tensor)
        or weight.dim() != 4
        or stride is None
        or any(convolution.get_saved("padding") or ())
    ):
        return 0
    sides = {*weight.shape[2:], *stride}
    return int(sides.pop()) if len(sides) == 1 else 0


def _permute_positions(tensor: Tensor, order: Tensor, side: int) -> Tensor:
    """Permute the sequences, or roll the patches of the images."""
    if not side:
        return tensor[:, order.to(tensor.device)]
    size, channels, height, width = tensor.shape
    blocks = tensor.reshape(size, channels, height // side, side, width // side, side).permute(0, 2, 4, 1, 3, 5)
    count = blocks.shape[1] * blocks.shape[2]
    rolled = blocks.flatten(1, 2)[:, torch.arange(count).roll(count // 2 + 1)]
    return rolled.reshape(blocks.shape).permute(0, 3, 1, 4, 2, 5).reshape(tensor.shape)


def _is_unchanged(answers: EvalOutputs, before: Tensor, after: Tensor, order: Tensor) -> bool:
    """Return whether the new output is the old one, or the old one permuted along the position axis."""
    tolerance = max(answers.noise, _TOLERANCE * float(before.abs().max()))
    if before.shape != after.shape:
        return False
    axes = [axis for axis in range(1, before.dim()) if before.shape[axis] == len(order)]
    candidates = [before, *(before.index_select(axis, order.to(before.device)) for axis in axes)]
    return any(torch.allclose(candidate, after, rtol=0.0, atol=tolerance) for candidate in candidates)


def _is_data_ordered(answers: EvalOutputs, kind: _SequenceKind) -> bool:
    """Return whether neighbors are more similar than pairs in random order, by five standard errors.

    Words and image patches have an order, unless each row of tokens is sorted, as sets are.
    """
    values = next(iter(answers.inputs.values()))
    if kind == "patches":
        return True
    if kind == "tokens":
        return not bool((values.diff(dim=1) >= 0).all() or (values.diff(dim=1) <= 0).all())
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(values.shape[1], generator=generator) for _ in range(_NUM_DRAWS)]
    null = torch.stack([_mean_squared_difference(values[:, order.to(values.device)]) for order in orders])
    return bool(_mean_squared_difference(values) < null.mean() - 5 * null.std())


def _mean_squared_difference(values: Tensor) -> Tensor:
    return values.float().diff(dim=1).square().mean()


def gain_from_token_counts(reference: Reference) -> float:
    """Return how much the counts of the tokens tell about the class of a sequence, whatever their order is.

    It is the accuracy of a kernel ridge regression on the counts, for rows left out one at a time, between that of the
    most frequent class (0) and one (1). Raises NotChecked for other inputs and targets.
    """
    rows = reference.rows()
    tokens = [part for part in rows.parts if part.dim() == 2 and not part.is_floating_point()]
    if rows.targets.kind != "classes" or len(tokens) != 1 or tokens[0].dtype == torch.bool:
        raise NotChecked("the inputs are no sequences of tokens with one class each")
    kept = tokens[0][torch.from_numpy(rows.kept)].long()
    if kept.min() < 0 or kept.max() >= _MAX_COUNTED_TOKENS:
        raise NotChecked(f"tokens up to {int(kept.max())} are too many to count; {_MAX_COUNTED_TOKENS} are the limit")
    counts = torch.zeros(len(kept), int(kept.max()) + 1).scatter_add_(1, kept, torch.ones(kept.shape))
    learner = ReferenceLearner(standardize_columns(counts.numpy()), rows.targets)
    constant = rows.targets.constant_score
    return (learner.kernel_ridge.score - constant) / max(1 - constant, 1e-12)
