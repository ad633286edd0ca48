"""The five measurements, each taken or told why not."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from nbdebug.attribution.prepare import aim, copied, problem_of
from nbdebug.attribution.quiet import quiet
from nbdebug.attribution.result import Attribution
from nbdebug.attribution.trust.again import randomization, stability
from nbdebug.attribution.trust.case import Case
from nbdebug.attribution.trust.checks import agreement, completeness, deletion
from nbdebug.attribution.trust.conclude import concluded
from nbdebug.attribution.trust.measure import Measure, Trust
from nbdebug.attribution.watch import unlimited
from nbdebug.exceptions import SetupError, first_line


def examine(
    setup_or_model: Any,
    inputs: Any,
    found: Attribution,
    background: Any = None,
    *,
    other: str | None = None,
    score: Callable[[Any], Any] | None = None,
    rows: int | None = None,
    options: Mapping[str, Any] | None = None,
    patience: float = 30.0,
) -> Trust:
    """Whether to believe ``found``, which ``attribute`` gave for the same model, inputs and background.

    ``other`` is the engine it is compared with, instead of Shapley values by random orders; ``options`` are those that
    ``found`` was found with. An engine that takes longer than half of ``patience`` in seconds is not asked again. The
    same classes are explained throughout. Nothing of the user's changes. What cannot be measured is gray, with the
    reason. Raises SetupError where the inputs are not those that were explained.
    """
    begun = time.perf_counter()
    problem = problem_of(setup_or_model, inputs, background, None, score, rows)
    if problem.size != len(found):
        raise SetupError(f"found has {len(found)} samples; expected {problem.size}. Pass the inputs that it explains.")
    case = Case(problem, found, options or {}, patience)
    with quiet(problem.model, problem.owned), unlimited():
        aim(copied(problem), found.classes.tolist(), "probability" if found.space == "probability" else "logits")
        measures = [
            guarded("completeness", lambda: completeness(case)),
            guarded("agreement", lambda: agreement(case, other)),
            guarded("deletion and insertion", lambda: deletion(case)),
            guarded("randomization", lambda: randomization(case)),
            guarded("stability", lambda: stability(case)),
        ]
    return concluded(measures, time.perf_counter() - begun)


def guarded(name: str, measure: Callable[[], Measure]) -> Measure:
    """A measurement, or why it could not be taken: whatever a user's model raises is no reason to lose the others."""
    try:
        return measure()
    except torch.OutOfMemoryError:
        return Measure(name, None, "gray", "not measured: memory ran out")
    except Exception as error:
        return Measure(name, None, "gray", f"not measured: {first_line(error, 200).split('; expected')[0]}")
