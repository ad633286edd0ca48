"""One function for all engines."""

from __future__ import annotations

import time
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
import torch

from nbdebug.arguments import refusal, whole
from nbdebug.attribution.chunks import no_room, ran_out
from nbdebug.attribution.engines import ENGINES, chosen, refuse_unknown
from nbdebug.attribution.found import Found
from nbdebug.attribution.given import inputs_of
from nbdebug.attribution.prepare import aim, copied, find_parts, plain_parts, problem_of
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.quiet import quiet
from nbdebug.attribution.refusals import NotDifferentiable, NotExplained
from nbdebug.attribution.result import Array, Attribution
from nbdebug.attribution.scores import Target
from nbdebug.exceptions import SetupError

GIVEN = ("passes", "permutations", "evaluations")  # counts without which an engine cannot run
COUNTS = (*GIVEN, "nodes", "samples", "size", "stride", "most")
ERRORS = ("error", "completeness", "standard_error")


def attribute(
    setup_or_model: Any,
    inputs: Any,
    target: Target = "predicted",
    method: str = "auto",
    background: Any = None,
    *,
    space: str = "logits",
    labels: Any = None,
    score: Callable[[Any], Any] | None = None,
    rows: int | None = None,
    **options: Any,
) -> Attribution:
    """How much each number of the inputs contributes to the score of a class; nothing of the user's changes.

    ``target`` is a class, one for each sample, "predicted" or "true" (with ``labels``). ``background`` are samples to
    compare with; from a Setup the first of its training loader. ``score(output)`` picks samples × classes from an
    output of another form, ``rows`` is how many rows go through the model at once. ``options`` are those of the
    engine. "auto" takes expected gradients, and where none arrive what needs none. Raises SetupError for what cannot
    be explained, with what can.
    """
    begun = time.perf_counter()
    refuse_unknown(method)
    problem = problem_of(setup_or_model, inputs, background, labels, score, rows)
    try:
        with quiet(problem.model, problem.owned):
            aim(copied(problem), target, space)
            name, found = run(problem, method, options)
            return result(problem, name, found, described(target), time.perf_counter() - begun)
    except (RuntimeError, MemoryError) as error:
        if not ran_out(error):
            raise
        raise no_room(error) from error


def run(problem: Problem, method: str, options: dict[str, Any]) -> tuple[str, Found]:
    """What the method finds; of "auto" the first that applies."""
    if method != "auto":
        return method, one_engine(problem, method, options)
    refused: list[str] = []
    for name in chosen(problem):
        try:
            found = one_engine(problem, name, options)
        except (NotDifferentiable, NotExplained) as error:
            refused.append(f"{name} does not apply: {str(error).split('; expected')[0]}")
            last = error
            continue
        found.notes[:0] = refused
        return name, found
    raise last


def one_engine(problem: Problem, method: str, options: dict[str, Any]) -> Found:
    """What one engine finds; raises NotExplained where it does not apply."""
    engine = ENGINES[method]
    if engine.background and problem.background is None:
        raise SetupError(
            f"background is None; expected samples to compare with, for {method}. Pass background=x_train[:100]."
        )
    problem.parts = []
    if engine.gradients:
        find_parts(problem)
        if not problem.parts:
            raise NotDifferentiable(
                f"the model is a {type(problem.model).__name__}; expected a torch.nn.Module for {method}. "
                "Use method='shapley', 'occlusion', 'tree', or shap's 'permutation', 'kernel' and 'partition'."
            )
    else:
        problem.parts = plain_parts(problem)
    unknown = set(options) - set(engine.options)
    if unknown:
        known = ", ".join(engine.options) or "none"
        raise SetupError(f"{method} has no option {min(unknown)!r}; expected {known}. Leave it out.")
    refuse_options(options)
    return engine.run(problem, **options)


def refuse_options(options: dict[str, Any]) -> None:
    """Raises SetupError for a count that is no whole number, or an error that is no number; engines know the rest."""
    for name, value in options.items():
        if name in COUNTS and (value is not None or name in GIVEN):
            whole(name, value)
        if name in ERRORS and (isinstance(value, bool) or not isinstance(value, Real) or not float(value) >= 0):
            raise refusal(name, value, "a number of 0 or more")


def described(target: Target) -> str:
    """The target in words."""
    if isinstance(target, str):
        return f"the {target} class"
    return f"class {target}" if isinstance(target, int) else "the given classes"


def result(problem: Problem, name: str, found: Found, target: str, seconds: float) -> Attribution:
    """What was found as plain data."""
    class_names, feature_names = problem.names
    return Attribution(
        name, target, problem.scored.space,
        by_input(problem, found.values), given(problem),
        problem.scored.classes.cpu().numpy(), problem.scores.numpy(),
        None if found.base is None else found.base.numpy(),
        None if found.completeness is None else found.completeness.numpy(),
        None if found.error is None else found.error.numpy(),
        None if found.standard_errors is None else by_input(problem, found.standard_errors),
        None if found.background_errors is None else by_input(problem, found.background_errors),
        found.nodes, found.lines, found.converged, (*problem.notes, *found.notes),
        tuple(class_names) if class_names else None, tuple(feature_names) if feature_names else None, seconds,
        problem.outputs.detach().to("cpu", torch.float64).numpy(),
    )  # fmt: skip


def by_input(problem: Problem, values: list[torch.Tensor]) -> dict[str, Array]:
    """The attributions of parts by input; columns with embeddings of their own stand side by side."""
    joined: dict[str, Array] = {}
    for part, one in zip(problem.parts, values, strict=True):
        found = one.numpy()
        if part.column is not None:
            whole = np.zeros(tuple(inputs_of(problem.batch)[part.leaf][1].shape))
            whole[:, part.column] = found
            found = whole
        joined[part.name] = joined[part.name] + found if part.name in joined else found
    return joined


def given(problem: Problem) -> dict[str, Array]:
    """The inputs that were explained."""
    wanted = {part.name for part in problem.parts}
    return {name: leaf.detach().cpu().numpy() for name, leaf in inputs_of(problem.batch) if name in wanted}
