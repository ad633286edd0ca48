"""What a loop feeds to the model and to the loss, compared by value with the batches of its loaders."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from nbdebug.autograd import Graph
from nbdebug.autograd.tracing import record_user_lines
from nbdebug.loop_monitor.row_relations import RowRelation, RowSample, find_row_relation, is_reordered
from nbdebug.loop_monitor.separate_draws import DrawnInputs, SeparateDraws
from nbdebug.setup.losses import score_tensor
from nbdebug.source.location import SourceLine, get_line_from_traceback
from nbdebug.tensors.pytree import tree_map, tree_tensors

_MAX_RECENT_BATCHES, _MAX_TENSORS, _MAX_PASSES = 4, 8, 4  # compared batches, tensors of each, and passes of a step
_MAX_VALIDATION_PASSES, _MIN_TARGETS = 8, 8
_MAX_OUTPUT_VALUES, _MAX_STORED_VALUES = 2**20, 2**22
_MIN_CHANGE = 1e-3
_LOSS_TOLERANCE = 1e-4  # relative; float32 rounding of a log-softmax
_SELECTIONS = frozenset({"Select", "Slice", "Split", "SplitWithSizes", "Unbind", "Squeeze", "Unsqueeze"})
_ELEMENTWISE = frozenset({"Sigmoid", "LogSigmoid", "Tanh", "Exp", "Relu", "Softmax", "LogSoftmax", "ToCopy"})
Misalignment = Literal["inputs", "targets", "other batch", "truncated"]


@dataclass(frozen=True)
class UnusedRows:
    """The rows of an output of ``batch_size`` rows whose gradient was exactly zero in each of the checked ``steps``."""

    rows: int = 0
    batch_size: int = 0
    steps: int = 0


@dataclass(frozen=True)
class _FedScale:
    """How the fed inputs of a split derive from the loader's: scale and offset, constant over ``passes`` passes."""

    scale: float
    offset: float
    passes: int

    @property
    def is_identity(self) -> bool:
        """True if the values are those of the loader."""
        return abs(self.scale - 1) < _MIN_CHANGE and abs(self.offset) < _MIN_CHANGE


@dataclass(frozen=True)
class BatchAlignment:
    """What a loop made of the batches of its loaders, in the inspected steps.

    ``misaligned_steps`` of the ``checked_steps`` paired inputs with the targets of other samples: the "inputs" or the
    "targets" were in another order than the loader's, the targets came from an "other batch", or they were "truncated"
    to integers. ``scales`` are by split; a split is absent if its inputs are no scaled copies of the batches, or not
    always by the same factor. ``changed_inputs`` are the arguments of the first training pass that differ from the
    loader's batch; None if none differ; ``receives_unchanged_inputs`` tells whether any pass had the loader's.
    ``loss_line`` is the user's line that uses the model's output, if it was recorded. ``steps_without_gradient`` gave
    the output a gradient of zeros. ``replaced_arguments`` are the numbers of the tensor arguments that never were a
    tensor of the loader's batch. In ``foreign_target_steps``, the loss compared the output with a tensor that no batch
    contains, such as a bootstrapped target. ``separate_draws`` is a random target of the first step that is drawn apart
    from what the model receives. ``drawn_inputs`` are those of the first step if they do not depend on the batch.
    """

    checked_steps: int = 0
    misaligned_steps: dict[Misalignment, int] = field(default_factory=dict)
    unused_rows: UnusedRows = field(default_factory=UnusedRows)
    scales: dict[str, _FedScale] = field(default_factory=dict)
    changed_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None
    receives_unchanged_inputs: bool = False
    loss_line: SourceLine | None = None
    steps_without_gradient: int = 0
    replaced_arguments: frozenset[int] = frozenset()
    foreign_target_steps: int = 0
    separate_draws: SeparateDraws | None = None
    drawn_inputs: DrawnInputs | None = None

    @property
    def replaces_inputs_in_training(self) -> bool:
        """True if training inputs are drawn without the batch, and validation inputs are those of their batches."""
        return self.drawn_inputs is not None and "val" in self.scales and self.scales["val"].is_identity

    @property
    def has_foreign_targets(self) -> bool:
        """True if the loss mostly compared the output with values that the loader does not contain."""
        return self.foreign_target_steps > self.checked_steps


@dataclass(frozen=True)
class BatchSample:
    """Samples of the tensors of a batch, and whether one of them selects rows."""

    split: str
    samples: tuple[RowSample, ...]
    has_mask: bool

    @classmethod
    def of(cls, split: str, batch: Any) -> BatchSample:
        """Sample a batch."""
        tensors = tree_tensors(batch)[:_MAX_TENSORS]
        samples = [sample for tensor in tensors if (sample := RowSample.of(tensor))]
        return cls(split, tuple(samples), any(map(_selects_rows, tensors)))


@dataclass
class _TrainingPass:
    """One pass: its batch, how the input derives from a tensor of it, the output's values and rows with gradient."""

    batch: BatchSample
    input_index: int
    relation: RowRelation
    outputs: list[RowSample] = field(default_factory=list)
    rows_with_gradient: list[Tensor] = field(default_factory=list)
    sequence_number: int | None = None

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.batch.samples[self.input_index])

    @property
    def targets(self) -> Iterator[RowSample]:
        """The other tensors of the batch."""
        return (sample for index, sample in enumerate(self.batch.samples) if index != self.input_index)

    def has_output(self, prediction: Tensor) -> bool:
        """Check whether a prediction holds the values of the output, or their softmax or sigmoid, in its order."""
        rows = _as_rows(prediction, self.size)
        return rows is not None and any(rows.equals(output, _LOSS_TOLERANCE) for output in self.outputs)


class BatchAlignmentMonitor:
    """Compares samples of the batches, inputs, predictions and targets of the inspected steps."""

    def __init__(self) -> None:
        self.is_active = True
        self.recent_batches: deque[BatchSample] = deque(maxlen=_MAX_RECENT_BATCHES)
        self.passes: list[_TrainingPass] = []
        self.verdicts: set[Misalignment | Literal["aligned"]] = set()
        self.checked_steps = self.validation_passes = self.foreign_target_steps = 0
        self.has_foreign_target = False
        self.misaligned_steps: Counter[Misalignment] = Counter()
        self.relations: dict[str, list[RowRelation | None]] = {"train": [], "val": []}
        self.changed_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self.row_use = _RowUseCounter()
        self.separate_draws: SeparateDraws | None = None
        self.drawn_inputs: DrawnInputs | None = None
        self.loss_line: SourceLine | None = None
        self.line_recording = ExitStack()
        self.sampled_arguments, self.loader_arguments = set[int](), set[int]()

    def is_inspecting(self, split: str) -> bool:
        """Return whether a pass over a batch of a split is inspected."""
        return (
            self.is_active if split == "train" else split == "val" and self.validation_passes < _MAX_VALIDATION_PASSES
        )

    def on_batch(self, split: str, batch: Any) -> None:
        """Record a batch of the training or validation loader."""
        if self.is_inspecting(split):
            self.recent_batches.append(BatchSample.of(split, batch))

    def on_forward_begin(self, split: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record the inputs of a pass of the whole model."""
        self.close()
        if not self.is_inspecting(split) or not self.recent_batches or len(self.passes) >= _MAX_PASSES:
            return
        matches = list(self._matching_batches(tree_tensors((args, kwargs))))
        in_order = [match for match in matches if match.relation.order is None]
        match = next(iter(in_order or matches), None)
        self.relations[split].append(match.relation if match else None)
        self.validation_passes += split == "val"
        if match and split == "train":
            self.passes.append(match)
        is_changed = match is None or not match.relation.is_identity
        if split == "train" and is_changed and self.changed_inputs is None and torch.is_grad_enabled():
            self.changed_inputs = _copy_if_small(args, kwargs)

    def _matching_batches(self, inputs: Sequence[Tensor]) -> Iterator[_TrainingPass]:
        """Yield how each input derives from a tensor of the latest batches, the latest first."""
        all_samples = {number: RowSample.of(tensor) for number, tensor in enumerate(inputs[:_MAX_TENSORS])}
        samples = {number: sample for number, sample in all_samples.items() if sample}
        self.sampled_arguments |= samples.keys()
        for batch in reversed(self.recent_batches):
            for index, reference in enumerate(batch.samples):
                for number, sample in samples.items():
                    if relation := find_row_relation(sample, reference):
                        self.loader_arguments |= {number} if relation.is_identity else set()
                        yield _TrainingPass(batch, index, relation)

    def on_forward_end(self, output: Any) -> None:
        """Record the output of a training pass."""
        if not self.is_active or not self.passes:
            return
        scores = score_tensor(output)
        if not isinstance(scores, Tensor) or scores.grad_fn is None:
            return
        latest = self.passes[-1]
        if latest.outputs or not scores.is_floating_point() or not scores.dim() or len(scores) != latest.size:
            return
        latest.outputs = [sample for tensor in _normalized(scores.detach()) if (sample := RowSample.of(tensor))]
        latest.sequence_number = scores.grad_fn._sequence_nr()
        if sum(tensor.requires_grad for tensor in tree_tensors(output)) == 1:
            _record_gradient_rows(scores, latest.rows_with_gradient)
        if self.loss_line is None and (self.misaligned_steps or self.row_use.has_unused_rows):
            self.line_recording.enter_context(record_user_lines())

    def on_backward_begin(self, graph: Graph) -> None:
        """Record the operands of the losses in the graph of a backward pass, and the line that uses the output."""
        self.close()
        for node in graph.nodes:
            prediction, target = node.get_saved("self"), node.get_saved("target")
            if isinstance(prediction, Tensor) and isinstance(target, Tensor):
                self.on_loss_call((prediction, target))
                self._on_loss_of_slice(node.function, prediction, target)
        numbers = {forward_pass.sequence_number for forward_pass in self.passes}
        for node in graph.nodes if self.loss_line is None else ():
            input_numbers = {_sequence_number(next_function) for next_function, _ in node.function.next_functions}
            if numbers & input_numbers - {None}:
                self.loss_line = get_line_from_traceback(node.function.metadata.get("traceback_") or ())

    def on_loss_call(self, operands: Sequence[Any]) -> None:
        """Record the operands of a loss: the prediction and the target."""
        if not self.is_active or len(operands) < 2 or not all(isinstance(value, Tensor) for value in operands[:2]):
            return
        prediction, target = operands[:2]
        for forward_pass in reversed(self.passes):
            if forward_pass.has_output(prediction):
                targets = _as_rows(target, forward_pass.size)
                verdict = self._judge(forward_pass, targets) if targets is not None else None
                if verdict is not None:
                    self.verdicts.add(verdict)
                self.has_foreign_target |= verdict is None and targets is not None and len(targets) >= _MIN_TARGETS
                return

    def _on_loss_of_slice(self, function: Any, prediction: Tensor, target: Tensor) -> None:
        """Record the operands of a loss of a slice of the output, such as its first columns, of all rows."""
        origins = set(_origins_of_rows(function)) if self.is_active and prediction.dim() else set()
        for forward_pass in self.passes:
            is_slice = forward_pass.sequence_number in origins and len(prediction) == forward_pass.size
            if is_slice and not forward_pass.has_output(prediction):
                targets = _as_rows(target, forward_pass.size)
                verdict = self._judge(forward_pass, targets) if targets is not None else None
                # A slice may have a target of its own, such as the integer part of the loader's.
                if verdict is not None and verdict != "truncated":
                    self.verdicts.add(verdict)

    def _judge(self, forward_pass: _TrainingPass, targets: RowSample) -> Misalignment | Literal["aligned"] | None:
        """Return whether targets belong to the rows of the input; None if they are none of the loader's."""
        order = forward_pass.relation.order
        pairs = [
            (reference, reference if order is None else RowSample(reference.values[order], reference.row_size))
            for reference in forward_pass.targets
        ]
        # Two targets of a batch may hold the same values at other rows, so all are compared in their order first.
        if any(targets.equals(reordered) for _, reordered in pairs):
            return "aligned"
        for reference, reordered in pairs:
            if targets.equals(reference):
                return "inputs"
            if is_reordered(targets, reference):
                return "targets"
            if _is_truncated(targets, reordered):
                return "truncated"
        if len(targets) < _MIN_TARGETS or bool((targets.values == targets.values[0]).all()):
            return None
        others = (batch for batch in self.recent_batches if batch is not forward_pass.batch)
        return "other batch" if any(targets.equals(sample) for batch in others for sample in batch.samples) else None

    def on_step_end(self) -> None:
        """Record an optimizer step."""
        self.close()
        if self.verdicts:
            self.checked_steps += 1
            if "aligned" not in self.verdicts:
                self.misaligned_steps.update(verdict for verdict in self.verdicts if verdict != "aligned")
        self.foreign_target_steps += self.has_foreign_target and not self.verdicts
        self.has_foreign_target = False
        for forward_pass in self.passes:
            if forward_pass.rows_with_gradient and not forward_pass.batch.has_mask:
                has_targets = any(len(targets) == forward_pass.size for targets in forward_pass.targets)
                if has_targets and forward_pass.relation.order is None:
                    reference = forward_pass.batch.samples[forward_pass.input_index]
                    self.row_use.add(forward_pass.rows_with_gradient, reference)
        self.passes.clear()
        self.verdicts.clear()

    def close(self) -> None:
        """End the recording of lines, if it is active."""
        self.line_recording.close()

    def summary(self) -> BatchAlignment:
        """Return all counts."""
        scales = {split: scale for split, relations in self.relations.items() if (scale := _constant_scale(relations))}
        return BatchAlignment(
            self.checked_steps,
            dict(self.misaligned_steps),
            self.row_use.summary(),
            scales,
            self.changed_inputs,
            any(relation is not None and relation.is_identity for relation in self.relations["train"]),
            self.loss_line,
            self.row_use.steps_without_gradient,
            frozenset(self.sampled_arguments - self.loader_arguments),
            self.foreign_target_steps,
            self.separate_draws,
            self.drawn_inputs if not any(self.relations["train"]) else None,
        )


class _RowUseCounter:
    """Collects which rows of the output ever had a gradient, by batch size."""

    def __init__(self) -> None:
        self.has_gradient: dict[int, Tensor] = {}
        self.steps: Counter[int] = Counter()
        self.steps_without_gradient = 0
        self.first_inputs: dict[int, RowSample] = {}
        self.has_different_batches: set[int] = set()

    def add(self, rows_with_gradient: Sequence[Tensor], inputs: RowSample) -> None:
        """Add the rows with gradient in the backward passes of a step; a step without any gradient does not count."""
        rows, size = torch.stack(list(rows_with_gradient)).any(0).cpu(), len(inputs)
        if not rows.any():
            self.steps_without_gradient += 1
            return
        self.steps[size] += 1
        self.has_gradient[size] = self.has_gradient.get(size, torch.zeros_like(rows)) | rows
        if not inputs.equals(self.first_inputs.setdefault(size, inputs)):
            self.has_different_batches.add(size)

    @property
    def has_unused_rows(self) -> bool:
        """True if more than half of the rows of some batch size had no gradient so far."""
        is_without_gradient = self.steps_without_gradient > sum(self.steps.values())
        return is_without_gradient or any(rows.double().mean() < 0.5 for rows in self.has_gradient.values())

    def summary(self) -> UnusedRows:
        """Return the unused rows of the most frequent batch size; none unless different batches had that size."""
        size = max(self.has_different_batches, key=lambda size: self.steps[size], default=0)
        return UnusedRows(int((~self.has_gradient[size]).sum()), size, self.steps[size]) if size else UnusedRows()


def _is_truncated(targets: RowSample, reference: RowSample) -> bool:
    """Check whether targets are those of the loader without their fractions, and are not rounded on purpose."""
    if not targets.is_comparable_with(reference):
        return False
    is_cut = torch.equal(targets.values, reference.values.trunc())
    return is_cut and not torch.equal(targets.values, reference.values.round())


def _record_gradient_rows(output: Tensor, rows: list[Tensor]) -> None:
    """Append to ``rows`` which rows of an output receive a nonzero gradient, for each backward pass."""
    index = output.output_nr

    def record(gradients: tuple[Tensor | None, ...]) -> None:
        gradient = gradients[index]
        if gradient is not None:
            rows.append((gradient.detach() != 0).flatten(1).any(1) if gradient.dim() > 1 else gradient.detach() != 0)

    assert output.grad_fn is not None
    output.grad_fn.register_prehook(record)


def _selects_rows(tensor: Tensor) -> bool:
    """Check whether a tensor of a batch is a mask, or labels of which some are negative, as for unlabeled samples.

    Either has one value for each row: a mask of positions leaves out no whole row.
    """
    if not tensor.dim() or tensor.numel() != len(tensor):
        return False
    return tensor.dtype == torch.bool or (tensor.dtype == torch.int64 and bool((tensor < 0).any()))


def _normalized(scores: Tensor) -> list[Tensor]:
    """Return scores, and what torch's losses may save of them: their log-softmax and their sigmoid."""
    if scores.numel() > _MAX_OUTPUT_VALUES:
        return [scores]
    axes = {1, scores.dim() - 1} if scores.dim() > 1 else set()
    return [scores, scores.sigmoid(), *(scores.log_softmax(axis) for axis in sorted(axes))]


def _as_rows(tensor: Tensor, count: int) -> RowSample | None:
    """Sample a tensor as ``count`` rows, such as a flattened batch of sequences; None if it has no such rows."""
    return RowSample.of(tensor.detach().reshape(count, -1)) if tensor.numel() and not tensor.numel() % count else None


def _sequence_number(function: Any) -> int | None:
    return function._sequence_nr() if hasattr(function, "_sequence_nr") else None


def _origins_of_rows(function: Any) -> Iterator[int]:
    """Yield the sequence numbers of the functions whose rows the first operand of a function has in their order.

    Only selections along other axes than the first one and functions of single rows lie between them. A selection along
    the first axis is no origin: its outputs hold other rows than each other.
    """
    while function is not None and function.next_functions:
        function = function.next_functions[0][0]
        name = function.name().rpartition("Backward")[0] if function is not None else ""
        if name in _SELECTIONS and not _is_along_later_axis(function):
            return
        if (number := _sequence_number(function)) is not None:
            yield number
        if name not in _SELECTIONS | _ELEMENTWISE:
            return


def _is_along_later_axis(function: Any) -> bool:
    """Check whether a selection is along another axis than the first; a slice of the first would lose rows."""
    return function.name().startswith("Slice") or getattr(function, "_saved_dim", 1) != 0


def _copy_if_small(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Copy the arguments of a pass without their graphs; None if they are large."""
    if sum(tensor.numel() for tensor in tree_tensors((args, kwargs))) > _MAX_STORED_VALUES:
        return None
    copies: tuple[tuple[Any, ...], dict[str, Any]] = tree_map(
        (args, kwargs), lambda leaf: leaf.detach().clone() if isinstance(leaf, Tensor) else leaf
    )
    return copies


def _constant_scale(relations: Sequence[RowRelation | None]) -> _FedScale | None:
    """Return the scale and offset that all passes share; None if they differ or are unknown."""
    known = [relation for relation in relations if relation is not None]
    if len(known) < max(2, len(relations)):
        return None
    scales, offsets = [relation.scale for relation in known], [relation.offset for relation in known]
    spread = max(max(scales) - min(scales), max(offsets) - min(offsets))
    if spread > 1e-2 * max(map(abs, [*scales, *offsets])):
        return None
    return _FedScale(scales[0], offsets[0], len(known))
