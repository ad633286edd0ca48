"""The outputs and classes that the loss depends on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.autograd import VALUE_PRESERVING_NODES, Graph, Node, Pattern
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass, get_extra_axes
from nbdebug.measurements.loss_gradient import compute_output_gradients
from nbdebug.measurements.perturbation import compute_loss, compute_loss_value
from nbdebug.measurements.registry import measurement, slow_measurement
from nbdebug.setup import Setup, losses
from nbdebug.setup.losses import LossKind, score_tensor
from nbdebug.tensors.pytree import tree_map, tree_tensors

_MAX_POSITIONS, _MAX_VALUES = 8, 2_000_000
_MIN_PARTS = 3  # of an output with one tensor for each sample
_PERTURBATION_STEPS = (-100.0, -1.0, 1.0, 100.0)
_CONFIDENT_PROBABILITY, _MAX_WEIGHT_RATIO = 0.9, 1.5
_LOSS_NODES = ("MseLoss", "SmoothL1Loss", "HuberLoss")
_RELATIVE_TOLERANCE = 1e-4
_MATRIX_PRODUCTS = frozenset({"Mm", "Bmm", "Addmm", "Linear"})
_NORM_NODES = frozenset({"LinalgVectorNorm", "Norm"})
_DIVISION = Pattern(frozenset({"Div"}), frozenset())
_NORM_PATTERN = Pattern(_NORM_NODES, frozenset(), VALUE_PRESERVING_NODES | {"ClampMin", "Clamp", "Add", "Sqrt"})


@dataclass(frozen=True)
class OutputInfluence:
    """Influence of some samples of the first batch, and of the output columns, on the loss.

    ``positions`` is the same for some positions of a sequence, if the targets have that axis too.
    """

    samples: dict[int, bool]
    columns: dict[int, bool]
    positions: dict[int, bool] = field(default_factory=dict)


@slow_measurement
def output_influence(setup: Setup, first_pass: ForwardPass, output: Any, finite_loss: Tensor) -> OutputInfluence:
    """Output values that influence the loss, by their gradient or else by perturbing them up and down."""
    if parts := _parts_by_sample(first_pass, output):
        gradients = compute_output_gradients(finite_loss, parts)
        used = {row: gradient is not None and bool(gradient.any()) for row, gradient in enumerate(gradients)}
        return OutputInfluence(used, {})
    output_scores = score_tensor(output)
    if setup.loss_fn is None or not isinstance(output_scores, Tensor) or first_pass.batch.target is None:
        raise NotChecked("needs a callable loss and a tensor output")
    if not isinstance(output, Tensor) and losses.get_loss_kind(setup.loss_fn) == "other":
        raise NotChecked(f"a custom loss takes the whole {type(output).__name__} that the model returns")
    if output_scores.dim() == 0 or len(output_scores) != first_pass.batch.size or output_scores.numel() > _MAX_VALUES:
        raise NotChecked("the output has no batch axis, or is too large to perturb")
    base = output_scores.detach()
    base_loss = compute_loss_value(setup, base.clone(), first_pass.batch)

    def changes_loss(index: Any) -> bool:
        return any(
            compute_loss_value(setup, perturbed, first_pass.batch) != base_loss
            for perturbed in _perturb_part(base, index)
        )

    nonzero_gradient = _compute_output_gradient(setup, first_pass, base) != 0
    rows = [*range(0, len(base) - 1, max(1, len(base) // _MAX_POSITIONS)), len(base) - 1]
    columns = range(base.shape[1]) if base.dim() == 2 and 1 < base.shape[1] <= _MAX_POSITIONS else ()
    positions = _get_sequence_positions(base, first_pass.batch.target)
    return OutputInfluence(
        {row: bool(nonzero_gradient[row].any()) or changes_loss(row) for row in rows},
        {column: bool(nonzero_gradient[:, column].any()) or changes_loss((slice(None), column)) for column in columns},
        {
            position: bool(nonzero_gradient[:, position].any()) or changes_loss((slice(None), position))
            for position in positions
        },
    )


def _parts_by_sample(first_pass: ForwardPass, output: Any) -> list[Tensor]:
    """Return the tensors of an output that is a list with one for each sample, as inputs and targets are; else none."""
    batch = first_pass.batch
    counts = {len(tree_tensors(part)) for part in ((batch.args, batch.kwargs), batch.targets, output)}
    is_list = isinstance(output, (list, tuple)) and all(isinstance(part, Tensor) for part in output)
    return [*output] if is_list and counts == {len(output)} and len(output) >= _MIN_PARTS else []


def _get_sequence_positions(output: Tensor, target: Any) -> list[int]:
    """Return some positions along the second axis of the output, if the target has that axis too."""
    is_shared = (
        isinstance(target, Tensor) and target.dim() > 1 and output.dim() == 3 and target.shape[:2] == output.shape[:2]
    )
    if not is_shared or output.shape[1] < 3:
        return []
    return [*range(0, output.shape[1] - 1, max(1, output.shape[1] // _MAX_POSITIONS)), output.shape[1] - 1]


def _compute_output_gradient(setup: Setup, first_pass: ForwardPass, base: Tensor) -> Tensor:
    """Return the gradient of the loss with respect to the output; zeros if there is none."""
    try:
        with torch.enable_grad():
            leaf = base.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(setup.loss(leaf, first_pass.batch), leaf, allow_unused=True)
    except RuntimeError:
        gradient = None
    return torch.zeros_like(base) if gradient is None else gradient.nan_to_num()


def _perturb_part(output: Tensor, index: Any) -> Iterator[Tensor]:
    """Yield the output with one part perturbed, each value by a different amount so that sums over the part change."""
    size = output[index].numel()
    ramp = torch.linspace(0.5, 1.5, size, dtype=output.dtype, device=output.device).reshape(output[index].shape)
    if bool(((output >= 0) & (output <= 1)).all()):
        new_values = [0.1 * ramp, 1 - 0.1 * ramp]  # probabilities must stay in [0, 1] for some losses
    else:
        std = max(float(output.float().std()), 1e-3) if output.numel() > 1 else 1.0
        new_values = [output[index] + step * std * ramp for step in _PERTURBATION_STEPS]
    for values in new_values:
        copy = output.clone()
        copy[index] = values
        yield copy


@dataclass(frozen=True)
class ClassWeights:
    """Gradient norm of one sample or position of each class, for uniform predictions.

    ``confident_ratio`` is the share of it that remains for nearly correct predictions, relative to cross-entropy.
    ``norms_at_half`` are those of outputs of 0.5, for one output of each class: a loss that takes probabilities without
    being one of torch's is at the edge of its range for logits of zero.
    """

    gradient_norms: dict[int, float]
    confident_ratio: float
    norms_at_half: dict[int, float] = field(default_factory=dict)

    @property
    def are_equal(self) -> bool:
        """True if all classes have similar gradients, and correct predictions fade no faster than in cross-entropy."""
        return (
            max(self.gradient_norms.values()) < _MAX_WEIGHT_RATIO * min(self.gradient_norms.values())
            and self.confident_ratio > 0.5
        )

    def favors(self, class_a: int, class_b: int) -> bool:
        """Return whether one class has a clearly larger gradient than another, without fading when correct."""
        return (
            self.gradient_norms.get(class_a, 0.0) >= _MAX_WEIGHT_RATIO * self.gradient_norms.get(class_b, math.inf)
            and self.confident_ratio > 0.5
        )


@slow_measurement
def class_weights(
    setup: Setup, first_pass: ForwardPass, output: Any, loss_kind: LossKind, loss: Tensor
) -> ClassWeights:
    """Gradient norms of the loss on the first batch, with the classes in turn as the targets.

    In masks and tags they take turns within a sample: a loss of overlaps is flat for a sample with a single class.
    """
    target, logits = first_pass.batch.target, score_tensor(output)
    if setup.loss_fn is None or not isinstance(output, Tensor) or not isinstance(target, Tensor):
        raise NotChecked("needs a callable loss, a tensor output and a tensor target")
    axis = _get_axis_of_classes(logits, target)
    classes = 2 if axis is None else logits.shape[axis]

    numbers = (torch.arange(target.numel(), device=target.device) % classes).reshape(target.shape)
    batch = replace(first_pass.batch, targets=(numbers.to(target.dtype),))

    def compute_class_gradient_norms(share: float, kind: LossKind = loss_kind) -> Tensor:
        synthetic_output = _make_outputs(logits, numbers, axis, share, kind).requires_grad_()
        (gradient,) = torch.autograd.grad(compute_loss(setup, synthetic_output, batch), synthetic_output)
        gradient = gradient.float()
        norms = (gradient.abs() if axis is None else gradient.norm(dim=axis)).reshape(target.shape)
        return torch.stack([norms[numbers == number].mean() for number in range(min(classes, target.numel()))])

    uniform_norms = compute_class_gradient_norms(1 / classes)
    if not bool(((uniform_norms > 0) & uniform_norms.isfinite()).all()):
        raise NotChecked("the loss of a uniform prediction has no finite gradient")
    expected_ratio = 1.0 if loss_kind in ("nll", "bce") else (1 - _CONFIDENT_PROBABILITY) / (1 - 1 / classes)
    return ClassWeights(
        dict(enumerate(uniform_norms.tolist())),
        float((compute_class_gradient_norms(_CONFIDENT_PROBABILITY) / uniform_norms).mean()) / expected_ratio,
        dict(enumerate(compute_class_gradient_norms(0.5, "bce").tolist())) if axis is None else {},
    )


def _get_axis_of_classes(logits: Tensor, target: Tensor) -> int | None:
    """Return the class axis of an output, None for one output for each class; raise NotChecked if it is unknown."""
    if not target.dim() or not logits.dim() or len(logits) != len(target):
        raise NotChecked("needs one row of outputs for each sample")
    if logits.numel() == target.numel():
        return None
    if len(target) == target.numel() and logits.dim() == 2:
        return 1
    axes = get_extra_axes(logits, target)
    if not axes:
        raise NotChecked("needs one class for each sample, or for each of its positions")
    return axes[0]


def _make_outputs(logits: Tensor, numbers: Tensor, axis: int | None, probability: float, kind: LossKind) -> Tensor:
    """Return outputs with ``probability`` for the class at each position, as one value or as log-probabilities."""
    if axis is None:
        positive = torch.where(numbers > 0, probability, 1 - probability).to(logits).reshape(logits.shape)
        return positive if kind == "bce" else positive.logit()
    classes = logits.shape[axis]
    one_hot = F.one_hot(numbers, classes).to(logits)
    outputs = (one_hot * probability + (1 - one_hot) * (1 - probability) / (classes - 1)).log()
    positions = [size for position, size in enumerate(logits.shape) if position != axis]
    return outputs.reshape(*positions, classes).movedim(-1, axis).clone()


@dataclass(frozen=True)
class Comparison:
    """A ``target`` and the ``nodes`` that produce the values compared with it."""

    nodes: tuple[Node, ...]
    target: Tensor


@measurement
def comparisons(setup: Setup, first_pass: ForwardPass, output: Any, graph: Graph, loss: Tensor) -> list[Comparison]:
    """Comparisons by squared, absolute or Huber errors, built-in or handwritten, or by similar losses."""
    return comparisons_in_graph(graph) or _compare_by_value(setup, first_pass, score_tensor(output), loss)


def comparisons_in_graph(graph: Graph) -> list[Comparison]:
    """Return the comparisons by torch's own losses for real values, whose targets torch has saved."""
    comparisons = [
        Comparison(tuple(node.inputs), node.get_saved("target")) for node in graph.get_nodes_by_name(*_LOSS_NODES)
    ]
    return [comparison for comparison in comparisons if isinstance(comparison.target, Tensor)]


def _compare_by_value(setup: Setup, first_pass: ForwardPass, output: Any, loss: Tensor) -> list[Comparison]:
    """Return output and target if the loss equals their mean squared or absolute error, or is minimal at the target."""
    target = first_pass.batch.target
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or output.shape != target.shape:
        return []
    error = (output - target).detach().float()
    means = torch.stack([error.square().mean(), error.abs().mean(), error.square().mean() / 2, error.square().sum()])
    root = first_pass.trace.get_graph(output).root
    matches_error = bool(torch.isclose(means, loss.detach().float(), rtol=_RELATIVE_TOLERANCE, atol=0).any())
    return (
        [Comparison((root,), target)]
        if root and (matches_error or _is_minimal_at_target(setup, first_pass, output, target))
        else []
    )


def _is_minimal_at_target(setup: Setup, first_pass: ForwardPass, output: Tensor, target: Tensor) -> bool:
    """Return whether the loss is minimal if the output equals the real-valued target, and grows on both sides."""
    is_tensor_output = (
        isinstance(first_pass.output, Tensor) and setup.loss_fn is not None and target.is_floating_point()
    )
    if not is_tensor_output or target.numel() < 2 or bool(((target == 0) | (target == 1)).all()):
        return False
    std = float(target.std())

    def compute_shifted_loss(shift: float) -> float:
        return compute_loss_value(setup, (target + shift * std).to(output), first_pass.batch)

    try:
        return compute_shifted_loss(0) < compute_shifted_loss(0.1) < compute_shifted_loss(1) and compute_shifted_loss(
            0
        ) < compute_shifted_loss(-0.1) < compute_shifted_loss(-1)
    except NotChecked:
        return False


@dataclass(frozen=True)
class IdealLoss:
    """Loss of a confident and entirely correct prediction, and of an entirely wrong one."""

    right: float
    wrong: float


def get_ideal_loss_of_part(setup: Setup, first_pass: ForwardPass, output: Any, target: Tensor) -> IdealLoss | None:
    """Return the two losses for the part of the output compared with real-valued targets; None if there is none.

    A part counts if the loss has its minimum or maximum where the part equals the target, and changes monotonically on
    both sides. A part with a minimum takes precedence.
    """
    if not target.is_floating_point() or target.numel() < 2 or bool(((target == 0) | (target == 1)).all()):
        return None
    std = float(target.std())
    maximal: list[IdealLoss] = []
    for replace_part in _get_part_replacements(output, target):

        def compute_shifted_loss(shift: float, replace_part: Callable[[Tensor], Any] = replace_part) -> float:
            return compute_loss_value(setup, replace_part(target + shift * std), first_pass.batch)

        try:
            base, near, far = (
                compute_shifted_loss(0),
                (compute_shifted_loss(0.1), compute_shifted_loss(-0.1)),
                (compute_shifted_loss(1), compute_shifted_loss(-1)),
            )
        except NotChecked:
            continue
        if all(base < a < b for a, b in zip(near, far, strict=True)):
            return IdealLoss(base, max(far))
        if all(base > a > b for a, b in zip(near, far, strict=True)):
            maximal.append(IdealLoss(base, min(far)))
    return maximal[0] if maximal else None


def _get_part_replacements(output: Any, target: Tensor) -> Iterator[Callable[[Tensor], Any]]:
    """Yield functions that replace one part of the output: one of several tensors, or some columns of a single one."""
    output_tensors = tree_tensors(output)
    if len(output_tensors) == 1 and isinstance(output, Tensor):
        width = target.shape[-1]
        if output.dim() == target.dim() > 1 and output.shape[:-1] == target.shape[:-1] and output.shape[-1] > width:
            yield from (
                _replace_columns(output, start, width) for start in range(0, output.shape[-1] - width + 1, width)
            )
        return
    for part in output_tensors:
        if part.shape == target.shape and part.is_floating_point():
            yield lambda values, part=part: tree_map(  # type: ignore[misc]
                output, lambda leaf: values.to(part) if leaf is part else leaf
            )


def _replace_columns(output: Tensor, start: int, width: int) -> Callable[[Tensor], Tensor]:
    def replace(values: Tensor) -> Tensor:
        copy = output.detach().clone()
        copy[..., start : start + width] = values.to(copy)
        return copy

    return replace


def get_softmax_axes(output: Tensor, first_pass: ForwardPass) -> list[int]:
    """Return the axes of an output whose length matches a softmax in the loss."""
    softmax_nodes = (
        first_pass.trace.get_graph(first_pass.loss).get_nodes_by_name("LogSoftmax", "Softmax")
        if first_pass.loss is not None
        else ()
    )
    results = [(node.get_saved("result"), node.get_saved("dim")) for node in softmax_nodes]
    lengths = {result.shape[dim] for result, dim in results if isinstance(result, Tensor)}
    return [axis for axis in range(output.dim()) if output.shape[axis] in lengths]


@measurement
def outputs_are_cosines(graph: Graph) -> bool:
    """True if the last matrix product before the loss multiplies two sets of unit vectors."""
    pending, visited = [graph.root] if graph.root else [], set[Node]()
    while pending:
        node = pending.pop()
        if node in visited:
            continue
        visited.add(node)
        if node.name not in _MATRIX_PRODUCTS:
            pending += node.inputs
        elif len([operand for operand in node.inputs if _is_normalized(operand)]) > 1:
            return True
    return False


def _is_normalized(node: Node) -> bool:
    """Return whether vectors are divided by their own norms."""
    return any(
        next(_NORM_PATTERN.search_upstream(division.inputs), None) is not None
        for division in _DIVISION.search_upstream([node])
    )
