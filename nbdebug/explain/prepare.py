"""From what a user gives to a problem: the model run once, its parts found, its target chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.explain.given import as_batch, count, inputs_of, same_form
from nbdebug.explain.parts import Listener, Part, embedded_parts, real_parts, refuse_lost_integers
from nbdebug.explain.problem import Problem, cut
from nbdebug.explain.quiet import home, usable
from nbdebug.explain.scores import Target, scored
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
    batch = as_batch(inputs, model)
    if labels is None and batch.targets:
        labels = batch.target
    if background is None and isinstance(given, Setup):
        background = drawn(given)
    other = None if background is None else as_batch(background, model, "background")
    if other is not None:
        same_form(batch, other)
    notes = []
    if isinstance(model, nn.Module):
        model, said = usable(model)
        notes += [said] if said else []
        batch = Batch(batch.args, batch.kwargs).to(home(model))
        other = None if other is None else Batch(other.args, other.kwargs).to(home(model))
    names = (given.class_names, given.feature_names) if isinstance(given, Setup) else (None, None)
    return Problem(model, caller(given, model), batch, other, score, labels, rows, names, notes)


def drawn(setup: Setup) -> Any:
    """The first samples of the training loader, which keeps them all."""
    from nbdebug.preserve import Preserve

    found: list[Batch] = []
    with Preserve(*setup.owned, loaders=(setup.train_loader,)):
        for batch in setup.batches(SAMPLES, "train"):
            found.append(batch)
            if sum(count(one) for one in found) >= SAMPLES:
                break
    if not found:
        return None
    leaves = [[leaf for _, leaf in inputs_of(one)] for one in found]
    same = [parts for parts in leaves if shapes(parts) == shapes(leaves[0])]
    joined = {n: torch.cat(parts)[:SAMPLES] for n, parts in enumerate(zip(*same, strict=True)) if splits(parts[0])}
    from nbdebug.explain.given import with_leaves

    return with_leaves(found[0], joined)


def shapes(parts: list[Any]) -> list[Any]:
    """The shapes of samples."""
    return [tuple(one.shape[1:]) if isinstance(one, Tensor) else None for one in parts]


def splits(leaf: Any) -> bool:
    """Whether a leaf has samples."""
    return isinstance(leaf, Tensor) and leaf.dim() > 0


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
    with torch.no_grad():
        problem.outputs = problem.all_outputs(problem.batch)
    problem.scored = scored(problem.outputs, target, space, problem.labels)
    refuse_not_finite(problem)


def refuse_not_finite(problem: Problem) -> None:
    """Raises SetupError for samples or outputs that are not finite."""
    for name, leaf in inputs_of(problem.batch):
        if isinstance(leaf, Tensor) and leaf.is_floating_point() and not bool(torch.isfinite(leaf).all()):
            row = int((~torch.isfinite(leaf.reshape(len(leaf), -1))).any(1).nonzero()[0]) if leaf.dim() else 0
            raise SetupError(f"{name} of sample {row} is not finite; expected numbers. Fill or drop such samples.")
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
        if isinstance(leaf, Tensor) and leaf.dim() and len(leaf) == problem.size
    ]


def copied(problem: Problem) -> Problem:
    """The same problem with inputs of its own, which no model can write into."""
    problem.batch = cut(problem.batch, torch.arange(problem.size))
    if problem.background is not None:
        problem.background = cut(problem.background, torch.arange(count(problem.background)))
    return problem
