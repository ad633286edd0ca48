"""The five measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.explain.attribute import one_engine, result
from nbdebug.explain.engines import ENGINES
from nbdebug.explain.given import inputs_of, with_leaves
from nbdebug.explain.prepare import aim, caller, copied, problem_of
from nbdebug.explain.problem import Problem
from nbdebug.explain.quiet import quiet
from nbdebug.explain.result import Attribution
from nbdebug.explain.scores import scored
from nbdebug.explain.trust.curves import area, curves
from nbdebug.explain.trust.measure import Light, Measure, Trust, light, rank_correlation
from nbdebug.explain.trust.randomize import randomized
from nbdebug.setup import Setup

NOISE = 0.01  # of each feature's spread in the background
WORST: tuple[Light, ...] = ("red", "yellow", "green", "gray")


def examine(
    setup_or_model: Any,
    inputs: Any,
    found: Attribution,
    background: Any = None,
    *,
    other: str | None = None,
    score: Callable[[Any], Any] | None = None,
    rows: int | None = None,
) -> Trust:
    """Whether to believe ``found``, which ``attribute`` gave for the same model, inputs and background.

    ``other`` is the engine it is compared with. The same classes are explained throughout. Nothing of the user's
    changes. Raises SetupError where the inputs are not those that were explained.
    """
    owned = setup_or_model.owned if isinstance(setup_or_model, Setup) else ()
    problem = problem_of(setup_or_model, inputs, background, None, score, rows)
    if problem.size != len(found):
        raise SetupError(f"found has {len(found)} samples; expected {problem.size}. Pass the inputs that it explains.")
    with quiet(problem.model, owned):
        aim(copied(problem), found.classes.tolist(), "probability" if found.space == "probability" else "logits")
        measures = [completeness(found)]
        measures.append(guarded("agreement", lambda: agreement(problem, found, other)))
        measures.append(guarded("deletion and insertion", lambda: counted(problem, found)))
        measures.append(guarded("randomization", lambda: randomization(problem, found, setup_or_model)))
        measures.append(guarded("stability", lambda: stability(problem, found)))
    return concluded(measures)


def guarded(name: str, measure: Callable[[], Measure]) -> Measure:
    """A measurement, or why it could not be taken."""
    try:
        return measure()
    except (SetupError, RuntimeError, TypeError) as error:
        return Measure(name, None, "gray", f"not measured: {str(error).splitlines()[0][:200]}")


def again(problem: Problem, method: str) -> Attribution:
    """What a method finds of a problem."""
    return result(problem, method, one_engine(problem, method, {}), "the given classes", 0.0)


def completeness(found: Attribution) -> Measure:
    """What the sum misses."""
    if found.completeness is None:
        return Measure("completeness", None, "gray", f"{found.method} adds up to nothing; it gives an order, no shares")
    value = float(found.completeness.max())
    said = "of what it explains is missed by the sum of the attributions in the worst sample; 0 is exact"
    return Measure("completeness", value, light(value, 0.01, 0.05), said)


def agreement(problem: Problem, found: Attribution, other: str | None) -> Measure:
    """The rank correlation with another engine."""
    other = other or ("occlusion" if found.method != "occlusion" else "expected_gradients")
    if other not in ENGINES:
        raise SetupError(f"other is {other!r}; expected {', '.join(ENGINES)}. Choose one.")
    rival = again(problem, other)
    if rival.flat.shape != found.flat.shape:  # each number of an embedding, or a part fewer
        raise SetupError(f"{other} gives attributions of another shape than {found.method}; expected the same.")
    value = rank_correlation(found.flat, rival.flat)
    said = f"is the rank correlation with {other}, median over samples; 1 is the same order, 0 none"
    return Measure("agreement", value, light(value, 0.6, 0.3, low_is_good=False), said)


def counted(problem: Problem, found: Attribution) -> Measure:
    """How much faster the score falls and comes than in random order."""
    again_parts(problem, found)
    courses = curves(problem, found.flat)
    value = area(courses["insertion"]) - area(courses["deletion"])
    said = (
        "is the area of insertion over that of deletion, as a share of the way from the background's score to the "
        f"sample's; random order gives 0, and its own curve has {area(courses['random']):.2f}"
    )
    return Measure("deletion and insertion", value, light(value, 0.2, 0.05, low_is_good=False), said, courses)


def again_parts(problem: Problem, found: Attribution) -> None:
    """Fills in the parts that an attribution belongs to."""
    from nbdebug.explain.prepare import find_parts, plain_parts

    problem.parts = []
    if ENGINES[found.method].gradients:
        find_parts(problem)
    else:
        problem.parts = plain_parts(problem)
    if sum(int(np.prod(part.shape)) for part in problem.parts) != found.flat.shape[1]:
        raise SetupError("several embeddings take one input; expected a part for each attribution.")


def randomization(problem: Problem, found: Attribution, given: Any) -> Measure:
    """How alike the attributions of a model with random weights are. Adebayo et al. 2018, arXiv:1810.03292."""
    if not isinstance(problem.model, nn.Module):
        raise SetupError("a black box has no weights to randomize; expected a torch.nn.Module.")
    twin = randomized(problem.model).eval()
    other = replace(problem, model=twin, call=caller(given, twin))
    other.outputs = other.all_outputs(other.batch)
    other.scored = scored(other.outputs, found.classes.tolist(), "logits")
    rival = again(other, found.method)
    value = rank_correlation(found.flat, rival.flat)
    said = (
        "is the rank correlation with those of a copy with random weights; near 0 says that they come from what was "
        "learned, near 1 that they show the input alone"
    )
    return Measure("randomization", value, light(abs(value), 0.5, 0.75), said)


def stability(problem: Problem, found: Attribution, times: int = 3) -> Measure:
    """How far attributions move under noise of a hundredth of each feature's spread."""
    real = {n: leaf for n, (_, leaf) in enumerate(inputs_of(problem.batch)) if is_real(leaf)}
    if not real:
        raise SetupError("the inputs are integers, which have no small noise; expected real numbers.")
    random = torch.Generator().manual_seed(0)
    changes = []
    for _ in range(times):
        noisy = {n: leaf + NOISE * spread(problem, n, leaf) * drawn(leaf, random) for n, leaf in real.items()}
        moved = again(replace(problem, batch=with_leaves(problem.batch, noisy), parts=[]), found.method)
        length = np.maximum(np.linalg.norm(found.flat, axis=1), 1e-12)
        changes.append(np.linalg.norm(moved.flat - found.flat, axis=1) / length)
    value = float(np.median(np.concatenate(changes)))
    said = f"of the attributions changes under noise of {NOISE:.0%} of each feature's spread, median"
    return Measure("stability", value, light(value, 0.05, 0.2), said)


def is_real(leaf: Any) -> bool:
    """Whether noise can be added."""
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.dim() > 0


def drawn(leaf: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Noise like a leaf."""
    return torch.randn(leaf.shape, generator=random).to(leaf)


def spread(problem: Problem, number: int, leaf: torch.Tensor) -> torch.Tensor:
    """The deviation of each number in the background, else of all of them in the samples."""
    if problem.background is not None and len(other := inputs_of(problem.background)[number][1]) > 1:
        deviation: torch.Tensor = other.std(0)
        return deviation
    return leaf.std(unbiased=False)


def concluded(measures: Sequence[Measure]) -> Trust:
    """The worst light and a sentence."""
    lights = {one.light for one in measures}
    worst = next(one for one in WORST if one in lights)
    names = {shade: " and ".join(m.name for m in measures if m.light == shade) for shade in WORST}
    if worst == "red":
        said = f"Conclude nothing from these attributions; against them: {names['red']}"
    elif worst == "yellow":
        said = f"The largest attributions may be named, not their order or sizes; not clear: {names['yellow']}"
    else:
        said = (
            "These attributions describe what the model does with this input; not that it is right, nor what causes it"
        )
    if names["gray"] and worst != "red":
        said += f"; not measured: {names['gray']}"
    return Trust(tuple(measures), worst, f"{said}.")
