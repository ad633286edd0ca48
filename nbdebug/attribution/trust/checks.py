"""What is measured of the attributions as they are: whether they add up, agree with others, and order what counts."""

from __future__ import annotations

import numpy as np

from nbdebug.attribution.result import Array
from nbdebug.attribution.trust.bounds import AGREEMENT, COMPLETENESS, DELETION, RELIABLE
from nbdebug.attribution.trust.case import Case
from nbdebug.attribution.trust.curves import area, courses
from nbdebug.attribution.trust.measure import Measure, rank_correlation
from nbdebug.exceptions import SetupError


def completeness(case: Case) -> Measure:
    """What the sum misses."""
    found = case.found
    if found.base is None or found.completeness is None:
        raise SetupError(f"{found.method} adds up to nothing; it gives an order, no shares.")
    explained = found.scores - found.base
    size = np.maximum(np.abs(explained), np.abs(found.flat).max(1)).clip(1e-12)
    value = float((np.abs(found.flat.sum(1) - explained) / size).max())
    worst = " in the worst sample" if len(found) > 1 else ""
    said = f"of what is explained, or of the largest attribution, is missed by their sum{worst}; 0 is exact"
    return Measure("completeness", value, COMPLETENESS.light(value), said)


def agreement(case: Case, other: str | None) -> Measure:
    """The rank correlation with another engine."""
    values, (name, rival) = case.values, case.rival(other)
    if other is None and rank_correlation(*case.orders.halves) < RELIABLE:
        raise SetupError("random orders do not agree with each other; expected more of them. Pass other= or patience=.")
    value = rank_correlation(values, rival)
    said = f"is the rank correlation with {name}{over(case)}; 1 is the same order, 0 none"
    return Measure("agreement", value, AGREEMENT.light(value), said)


def deletion(case: Case) -> Measure:
    """How much faster the score falls and comes than in random order, as a share of what is possible."""
    found = courses(case.problem, case.cells, case.values)
    best = courses(case.problem, case.cells, case.orders.values)
    gap, most = (area(one["insertion"]) - area(one["deletion"]) for one in (found, best))
    clear = most > 1e-6 * np.abs(found["deletion"]).max().clip(1e-12)
    if not clear.any():
        raise SetupError("no order of what is exchanged is better than a random one; expected a score that depends.")
    value = float(np.median((gap / most)[clear]))
    said = (
        "is how much more the score holds when what counts least goes first than when what counts most does, as a "
        f"share of what the contributions in random orders reach{over(case)}; a random order gives 0"
    )
    return Measure("deletion and insertion", value, DELETION.light(value), said, drawn(case, found))


def drawn(case: Case, found: dict[str, Array]) -> dict[str, Array]:
    """The curves, median over samples, from 1, the score of the sample, to 0, where all is exchanged."""
    steps = len(found["deletion"]) - 1
    course = case.orders.course[np.linspace(0, case.cells.count, steps + 1).round().astype(int)]
    whole, nothing = found["deletion"][0], found["deletion"][-1]
    clear = np.abs(whole - nothing) > 1e-3 * np.abs(whole - nothing).max().clip(1e-12)
    lines = {**found, "random": course}
    share = {name: np.median((one - nothing)[:, clear] / (whole - nothing)[clear], 1) for name, one in lines.items()}
    return {"share": np.linspace(0, 1, steps + 1), **share}


def over(case: Case) -> str:
    """What a number of several samples is."""
    return ", median over samples" if len(case.found) > 1 else ""
