"""From what a user gives to a problem: the model run once, its parts found, its target chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.arguments import function, whole
from nbdebug.attribution.given import as_batch, count, inputs_of, of_same_dtype, same_form, with_leaves
from nbdebug.attribution.parts import Listener, Part, embedded_parts, real_parts, refuse_lost_integers
from nbdebug.attribution.problem import Problem, cut
from nbdebug.attribution.quiet import SMALL, home, usable
from nbdebug.attribution.refuse import refuse_broken, refuse_names
from nbdebug.attribution.rows import forms, joined, per_sample
from nbdebug.attribution.scores import Target, by_name, scored
from nbdebug.exceptions import SetupError
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup
from nbdebug.setup.trees import tensors

SAMPLES = 100  # of a background that is drawn from the training loader


def model_of(given: Any) -> Any:
    """The model in what a user gives: of a Setup, of torch.compile, itself, or a fitted estimator."""
    if isinstance(given, Setup):
        return given.eager
    inner = getattr(given, "_orig_mod", given)
    if isinstance(inner, nn.Module) or callable(inner) or hasattr(inner, "predict"):
        return inner
    raise SetupError(
        f"model is a {type(given).__name__}; expected a Setup, a torch.nn.Module, a function or a fitted estimator."
    )


def problem_of(
    given: Any,
    inputs: Any,
    background: Any = None,
    labels: Any = None,
    score: Callable[[Any], Any] | None = None,
    rows: int | None = None,
) -> Problem:
    """The problem without its target; nothing is run yet, but a loader for the background."""
    model = model_of(given)
    function("score", score, "the model's output", "Pass lambda y: y[0]")
    rows = None if rows is None else whole("rows", rows)
    batch = as_batch(inputs, model)
    if labels is None and batch.targets:
        labels = batch.target
    if background is None and isinstance(given, Setup) and given.has_data:
        background = drawn(given)
    other = None if background is None else as_batch(background, model, "background")
    if other is not None:
        same_form(batch, other)
        other = of_same_dtype(batch, other)
    notes = []
    if isinstance(model, nn.Module):
        model, said = usable(model)
        notes += [said] if said else []
        batch = widened(Batch(batch.args, batch.kwargs).to(home(model)), bool(said))
        other = None if other is None else widened(Batch(other.args, other.kwargs).to(home(model)), bool(said))
    names = (given.class_names, given.feature_names) if isinstance(given, Setup) else (None, None)
    return Problem(model, caller(given, model), batch, other, score, labels, rows, names, notes, given=given)


def widened(batch: Batch, wide: bool) -> Batch:
    """The inputs in float32 where the model that they go to was made so."""
    if not wide:
        return batch
    small = {n: leaf.float() for n, (_, leaf) in enumerate(inputs_of(batch)) if getattr(leaf, "dtype", None) in SMALL}
    return with_leaves(batch, small)


def drawn(setup: Setup, most: int = SAMPLES) -> Batch | None:
    """The inputs of the first samples of the training loader, which keeps them all; None where it has none."""
    found: list[Batch] = []
    taken = 0
    with Preserve(*setup.owned, loaders=(setup.train_loader,)):
        for batch in setup.batches(most, "train"):
            one = cut(batch, torch.arange(min(count(batch), most - taken)))
            if found and forms(one) != forms(found[0]):
                continue
            found.append(one)
            taken += count(one)
            if taken >= most:
                break
    return joined(found) if found else None


def caller(given: Any, model: Any) -> Callable[[Batch], Any]:
    """How a batch goes through the model."""
    if isinstance(given, Setup):
        return lambda batch: given.predict(batch, model)
    if isinstance(model, nn.Module):
        return lambda batch: model(*batch.args, **batch.kwargs)
    function = getattr(model, "predict_proba", None) or getattr(model, "predict", None) or model
    return lambda batch: answered(function, batch)


def answered(function: Callable[..., Any], batch: Batch) -> Tensor:
    """What a function of arrays gives, as a tensor."""
    args = [one.detach().cpu().numpy() if isinstance(one, Tensor) else one for one in batch.args]
    found = function(*args, **batch.kwargs)
    return found if isinstance(found, Tensor) else torch.from_numpy(np.asarray(found, np.float64))


def aim(problem: Problem, target: Target, space: str) -> None:
    """Runs the samples once and chooses what is explained of them."""
    try:
        with torch.no_grad():
            problem.outputs = problem.all_outputs(problem.batch)
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        refuse_broken(problem, error)
        raise
    refuse_names(problem)
    problem.scored = scored(problem.outputs, by_name(target, problem.names[0]), space, problem.labels)
    refuse_not_finite(problem)


def refuse_not_finite(problem: Problem) -> None:
    """Raises SetupError for samples, background or outputs that are not finite."""
    for batch, whose in ((problem.batch, "sample"), (problem.background, "background sample")):
        for name, leaf in inputs_of(batch) if batch is not None else []:
            if isinstance(leaf, Tensor) and leaf.is_floating_point() and not bool(torch.isfinite(leaf).all()):
                row = int((~torch.isfinite(leaf.reshape(len(leaf), -1))).any(1).nonzero()[0]) if leaf.dim() else 0
                raise SetupError(f"{name} of {whose} {row} is not finite; expected numbers. Fill or drop such samples.")
    if not bool(torch.isfinite(problem.outputs).all()):
        row = int((~torch.isfinite(problem.outputs)).any(1).nonzero()[0])
        raise SetupError(
            f"the output for sample {row} is not finite; expected numbers. Run dbg.checkup() on the model."
        )


def find_parts(problem: Problem) -> None:
    """Fills in the parts of a module's input; a black box has none."""
    if not isinstance(problem.model, nn.Module):
        return
    problem.parts = list(real_parts(problem.batch, problem.background, problem.size))
    listener = Listener(problem.model)
    if listener.embeddings and any(not one.is_floating_point() for one in tensors(problem.batch.inputs)):
        # The embeddings must be given the very samples: all of them, and not a chunk.
        with torch.no_grad(), listener.listening():
            problem.call(problem.batch)
        problem.parts += embedded_parts(listener, problem.batch, problem.background, problem.size)
    refuse_lost_integers(problem.batch, problem.parts)


def plain_parts(problem: Problem) -> list[Part]:
    """Every input with a row for each sample, integers too, for methods that need no gradients."""
    other = inputs_of(problem.background) if problem.background is not None else []
    return [
        Part(name, number, leaf, other[number][1] if other else None)
        for number, (name, leaf) in enumerate(inputs_of(problem.batch))
        if per_sample(leaf, problem.size)
    ]


def copied(problem: Problem) -> Problem:
    """The same problem with inputs of its own, which no model can write into."""
    problem.batch = cut(problem.batch, torch.arange(problem.size))
    if problem.background is not None:
        problem.background = cut(problem.background, torch.arange(count(problem.background)))
    return problem
