"""Build an attribution problem from user arguments, and check it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.attribution.input_features import EmbeddingRecorder, InputPart, check_has_parts, embedded_parts, real_parts
from nbdebug.attribution.problem import Problem
from nbdebug.exceptions import SetupError
from nbdebug.inference.dataset_sampling import first_training_samples
from nbdebug.inference.inputs import ModelInputs, as_inputs, check_same_shapes
from nbdebug.inference.model_runner import forward_error, get_forward, get_model, runs_in_training
from nbdebug.inference.outputs import Target, resolve_class_name, select_target_score
from nbdebug.setup import Batch, Setup
from nbdebug.setup.class_names import check_count
from nbdebug.setup.evaluation_mode import LOW_PRECISION_DTYPES, differentiable_model, model_device
from nbdebug.validation import validate_callable, validate_int


def _raise_forward_error(problem: Problem, error: Exception) -> None:
    """Raise the error for a model that raised, unless the error already explains itself."""

    def run() -> Any:
        return problem.predict(problem.inputs)

    raised = error.__cause__ if isinstance(error, SetupError) else error
    if not isinstance(raised, Exception):
        return
    if raised is error or (isinstance(problem.model, nn.Module) and runs_in_training(problem.model, run)):
        raise forward_error(problem.model, problem.inputs.batch, raised, run) from raised


def _check_names(problem: Problem) -> None:
    """Raise SetupError unless there is one name per output and per table column.

    ``score`` may change the number of columns; then class names are dropped, with a note.
    """
    classes, features = problem.names
    columns = problem.outputs.shape[1]
    if problem.score is None and columns > 1:
        check_count("class_names", classes, columns, "outputs of the model")
    elif classes and 1 < columns != len(classes):
        problem.names = None, features
        problem.notes.append(f"score gives {columns} columns but class_names has {len(classes)} names: not used")
    (_, first), *others = problem.inputs.named_tensors
    if not others and first.dim() == 2 and first.is_floating_point():
        check_count("feature_names", features, first.shape[1], "columns of the input")


def build_problem(
    setup_or_model: Any,
    inputs: Any,
    background: Any = None,
    labels: Any = None,
    score: Callable[[Any], Any] | None = None,
    rows: int | None = None,
) -> Problem:
    """Build the problem without its target, on copies of the inputs; the model is not run yet."""
    model = get_model(setup_or_model)
    validate_callable("score", score, "the model's output", "Pass lambda y: y[0]")
    rows = None if rows is None else validate_int("rows", rows)
    if labels is None and isinstance(inputs, Batch):
        labels = inputs.target
    inputs = as_inputs(inputs, model)
    if background is None and isinstance(setup_or_model, Setup) and setup_or_model.has_training_data:
        background = first_training_samples(setup_or_model)
    if background is not None:
        background = as_inputs(background, model, "background")
        check_same_shapes(inputs, background)
    note = ""
    if isinstance(model, nn.Module):
        model, note = differentiable_model(model)
    names = (
        (setup_or_model.class_names, setup_or_model.feature_names)
        if isinstance(setup_or_model, Setup)
        else (None, None)
    )
    return Problem(
        model,
        get_forward(setup_or_model, model),
        _copy_for_model(inputs, inputs, model, bool(note)),
        None if background is None else _copy_for_model(background, inputs, model, bool(note)),
        score,
        labels,
        rows,
        names,
        [note] if note else [],
        setup_or_model=setup_or_model,
    )


def _copy_for_model(inputs: ModelInputs, explained: ModelInputs, model: Any, to_float32: bool) -> ModelInputs:
    """Copy inputs with the dtypes of the explained ones to the device of the model.

    ``to_float32`` converts low precision, as the model was converted. No model can modify the originals.
    """
    device = model_device(model) if isinstance(model, nn.Module) else None
    converted = {}
    for index, (leaf, reference) in enumerate(zip(inputs.leaves, explained.leaves, strict=True)):
        if isinstance(leaf, Tensor):
            leaf = leaf.to(device, reference.dtype if isinstance(reference, Tensor) else leaf.dtype)
            converted[index] = leaf.float() if to_float32 and leaf.dtype in LOW_PRECISION_DTYPES else leaf
    return inputs.with_leaves(converted).copy()


def resolve_target(problem: Problem, target: Target, space: str) -> None:
    """Run the samples once and select the score to explain."""
    try:
        with torch.no_grad():
            problem.outputs = problem.predict_all(problem.inputs)
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        _raise_forward_error(problem, error)
        raise
    _check_names(problem)
    problem.target_score = select_target_score(
        problem.outputs, resolve_class_name(target, problem.names[0]), space, problem.labels
    )
    _check_finite(problem)


def _check_finite(problem: Problem) -> None:
    for inputs, owner in ((problem.inputs, "sample"), (problem.background, "background sample")):
        for name, leaf in inputs.named_tensors if inputs is not None else []:
            if leaf.is_floating_point() and not bool(torch.isfinite(leaf).all()):
                row = int((~torch.isfinite(leaf.reshape(len(leaf), -1))).any(1).nonzero()[0]) if leaf.dim() else 0
                raise SetupError(f"{name} of {owner} {row} is not finite; expected numbers. Fill or drop such samples.")
    if not bool(torch.isfinite(problem.outputs).all()):
        row = int((~torch.isfinite(problem.outputs)).any(1).nonzero()[0])
        raise SetupError(
            f"the output for sample {row} is not finite; expected numbers. Run dbg.checkup() on the model."
        )


def find_gradient_parts(problem: Problem) -> None:
    """Fill in the parts of a module's input; a black box has none."""
    if not isinstance(problem.model, nn.Module):
        return
    problem.parts = list(real_parts(problem.inputs, problem.background))
    recorder = EmbeddingRecorder(problem.model)
    if recorder.embeddings and any(not tensor.is_floating_point() for _, tensor in problem.inputs.named_tensors):
        # Run all samples at once: the ids of each embedding call are matched against the whole input.
        with torch.no_grad(), recorder.recording():
            problem.call(problem.inputs.batch)
        problem.parts += embedded_parts(recorder, problem.inputs, problem.background)
    check_has_parts(problem.inputs, problem.parts)


def get_plain_parts(problem: Problem) -> list[InputPart]:
    """Return every input with one row per sample, integers too, for gradient-free methods."""
    return [
        InputPart(name, number, leaf, None if problem.background is None else problem.background.leaves[number])
        for number, name, leaf in problem.inputs.sample_leaves
    ]
