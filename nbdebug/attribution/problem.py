"""The attribution problem: a model as a function of its input parts, and where its gradients stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.attribution.input_features import InputPart, embeddings_replaced
from nbdebug.exceptions import USE_BLACK_BOX_METHOD, NotDifferentiable, SetupError
from nbdebug.hooks.module_hooks import hooked
from nbdebug.inference.chunking import SAVED_PER_INPUT_VALUE, ChunkRunner, is_out_of_memory
from nbdebug.inference.inputs import ModelInputs
from nbdebug.inference.outputs import TargetScore, output_table
from nbdebug.inference.progress import count_rows
from nbdebug.setup import Batch, Setup
from nbdebug.tensors.memory import memory_address
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.validation import describe_type

_COUNTING_ROWS = 2  # rows of the counting pass: some models squeeze a batch of one


@dataclass
class Problem:
    """Samples, their background, and ``call(batch)``, which returns the model's output.

    ``parts`` is empty for a black box. ``outputs`` are those of the samples, samples × outputs. ``setup_or_model`` is
    the setup or model as passed by the user. ``saved_per_row`` is the number of values that a row saves for its
    gradient, 0 until counted; ``row_limits`` collects the row limits found when memory ran out.
    """

    model: Any
    call: Callable[[Batch], Any]
    inputs: ModelInputs
    background: ModelInputs | None
    score: Callable[[Any], Any] | None = None
    labels: Any = None
    rows: int | None = None
    names: tuple[list[str] | None, list[str] | None] = (None, None)
    notes: list[str] = field(default_factory=list)
    parts: list[InputPart] = field(default_factory=list)
    outputs: Tensor = field(default_factory=lambda: torch.zeros(0))
    target_score: TargetScore = None  # type: ignore[assignment]
    setup_or_model: Any = None
    saved_per_row: int = 0
    row_limits: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of samples."""
        return self.inputs.size

    @property
    def owned(self) -> tuple[Any, ...]:
        """Objects of the user's setup, other than the model, that a run may change."""
        return self.setup_or_model.mutable_objects if isinstance(self.setup_or_model, Setup) else ()

    @property
    def scores(self) -> Tensor:
        """The explained score of each sample, float64, on the CPU."""
        all_samples = torch.arange(self.size, device=self.device)
        return self.target_score.select(self.outputs, all_samples).detach().to("cpu", torch.float64)

    @property
    def module(self) -> nn.Module:
        """The model as a module; raises SetupError if it is not one."""
        if not isinstance(self.model, nn.Module):
            raise SetupError(f"model is {describe_type(self.model)}; expected a torch.nn.Module.")
        return self.model

    @property
    def device(self) -> torch.device:
        """Device of the samples."""
        return self.inputs.named_tensors[0][1].device

    def chunk_runner(self) -> ChunkRunner:
        """Return a runner that splits rows into chunks which fit into memory."""
        values = max(self.inputs.values_per_sample, sum(part.values[0].numel() for part in self.parts))
        return ChunkRunner(
            self.saved_per_row or SAVED_PER_INPUT_VALUE * values, self.device, self.rows, self.row_limits
        )

    def predict(self, inputs: ModelInputs) -> Tensor:
        """Run the model and ``score``, rows × outputs; wrap unexpected errors in SetupError."""
        rows = inputs.size
        count_rows(rows)
        try:
            return output_table(self.call(inputs.batch), rows, self.score)
        except (RuntimeError, MemoryError, SetupError):
            raise
        except Exception as error:
            message = f"{type(error).__name__}: {str(error)[:160]}"
            raise SetupError(
                f"the model raised {message} on {rows} rows; expected scores. Run model(x) on samples such as these."
            ) from error

    def predict_all(self, inputs: ModelInputs) -> Tensor:
        """Return the outputs of any number of samples, without gradients."""
        outputs: list[Tensor] = []

        def work(start: int, stop: int) -> None:
            with torch.no_grad():
                outputs.append(self.predict(inputs.take(torch.arange(start, stop))).detach().clone())

        self.chunk_runner().run(inputs.size, work)
        return torch.cat(outputs)

    def outputs_at(self, points: list[Tensor], sample_indices: Tensor) -> Tensor:
        """Return outputs of rows: ``points`` replace the parts, the rest comes from the samples ``sample_indices``.

        The model gets copies, because it may modify its inputs in place.
        """
        replacements = {
            number: leaf.index_select(0, sample_indices)
            for number, _, leaf in self.inputs.sample_leaves
            if not self.is_part(number)
        }
        copies = [point.clone() for point in points]
        for part, point in zip(self.parts, copies, strict=True):
            if part.call is None:
                replacements[part.leaf] = point
        with embeddings_replaced(self.parts, copies):
            return self.predict(self.inputs.with_leaves(replacements))

    def is_part(self, leaf: int) -> bool:
        """Check for a leaf of the inputs that is a part itself."""
        return any(part.leaf == leaf and part.call is None for part in self.parts)

    @property
    def shares_background_outputs(self) -> bool:
        """Check that samples differ in the parts only, so that the background scores are the same for all."""
        return all(self.is_part(number) for number, _, _ in self.inputs.sample_leaves)

    def scores_at(self, points: list[Tensor], sample_indices: Tensor) -> Tensor:
        """Return the explained score of each row."""
        return self.target_score.select(self.outputs_at(points, sample_indices), sample_indices)

    def gradients(self, points: list[Tensor], sample_indices: Tensor) -> tuple[Tensor, list[Tensor | None]]:
        """Return the explained score of each row and its gradients by the parts; None if none arrives."""
        points = [point.detach().requires_grad_() for point in points]
        score = self.scores_at(points, sample_indices)
        if not score.requires_grad:
            return score, [None] * len(points)
        return score.detach(), list(torch.autograd.grad(score.sum(), points, allow_unused=True))


def saved_values_per_row(problem: Problem) -> int:
    """Return the values that one row saves for its gradient by the parts; runs one forward pass of two rows.

    Each storage is counted once. If memory runs out, returns the count up to then.
    """
    parameter_addresses = {memory_address(tensor) for tensor in problem.module.parameters()}
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        address = memory_address(tensor)
        if address not in parameter_addresses:
            sizes[address] = max(sizes.get(address, 0), tensor.numel())
        return tensor

    sample_indices = torch.zeros(_COUNTING_ROWS, dtype=torch.long, device=problem.device)
    points = [part.values.index_select(0, sample_indices).requires_grad_() for part in problem.parts]
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            problem.outputs_at(points, sample_indices)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    return sum(sizes.values()) // _COUNTING_ROWS


def gradient_barrier(problem: Problem) -> str:
    """Describe the first layer that blocks the gradient; empty if there is none."""
    model = problem.module
    names = {module: name or type(module).__name__ for name, module in model.named_modules()}
    barriers: list[str] = []

    def inspect_call(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if not torch.is_grad_enabled():
            barriers.append(f"layer {names[module]!r} runs under torch.no_grad()")
        elif not list(module.children()) and _blocks_gradient(args, output):
            barriers.append(f"the gradient ends in layer {names[module]!r}")

    first_sample = torch.zeros(1, dtype=torch.long, device=problem.device)
    with hooked({module: inspect_call for module in names if module is not model}):
        problem.outputs_at([part.values[:1].clone().requires_grad_() for part in problem.parts], first_sample)
    return barriers[0] if barriers else ""


def _blocks_gradient(args: Any, output: Any) -> bool:
    """Check for a call with gradients in its inputs but not in its output."""
    return any(tensor.requires_grad for tensor in tree_tensors(args)) and not any(
        tensor.requires_grad for tensor in tree_tensors(output)
    )


def check_gradients_arrive(problem: Problem, missing: list[bool]) -> None:
    """Raise NotDifferentiable if the score depends on a part that no gradient reaches."""
    for part_index, part in enumerate(problem.parts):
        if missing[part_index] and _score_depends_on(problem, part_index):
            barrier = gradient_barrier(problem) or f"no gradient reaches {part.name}, although the score depends on it"
            raise NotDifferentiable(
                f"{barrier}; expected differentiable operations. Remove no_grad, detach, .data, rounding or argmax "
                f"there. {USE_BLACK_BOX_METHOD}."
            )


def check_nonzero_gradients(values: list[Tensor], gaps: Tensor) -> None:
    """Raise NotDifferentiable if all gradients are zero although the score is not constant."""
    if any(bool(gradient.any()) for gradient in values) or not bool((gaps.abs() > 1e-6).any()):
        return
    raise NotDifferentiable(
        "the gradient of the score is zero everywhere, though the score differs between samples and background; "
        f"expected no step functions, such as rounding or thresholds, between input and score. {USE_BLACK_BOX_METHOD}."
    )


def _score_depends_on(problem: Problem, part_index: int) -> bool:
    """Check for a change in the score when a part of the first samples is replaced."""
    rows = torch.arange(min(len(problem.parts[part_index].values), 8), device=problem.device)
    points = [part.values[rows] for part in problem.parts]
    background = problem.parts[part_index].background
    replaced_points = list(points)
    replaced_points[part_index] = points[part_index] + 1 if background is None else background[rows % len(background)]
    with torch.no_grad():
        return not torch.equal(problem.scores_at(points, rows), problem.scores_at(replaced_points, rows))
