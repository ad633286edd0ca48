"""From the attempts to a verdict: what it was, what it was not, and what cannot be told."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from nbdebug.tools.overfit.floor import Floor
from nbdebug.tools.overfit.goal import Goal
from nbdebug.tools.overfit.result import Attempt, Cause, Outcome

# Of the gap at two thirds of an attempt: what has shrunk by less in the last third needs many times as long.
STALLED = 0.9
NO_PROGRESS = 0.05
FEW_STEPS = 100


@dataclass(frozen=True)
class Facts:
    """All that the verdict stands on.

    ``held`` of ``trainable`` parameters are in the user's optimizers; ``doubts`` are reasons why a loss above the goal
    proves nothing here; ``own`` says whether the first attempt had the user's optimizers; ``needed`` is the number of
    target values, ``size`` that of examples, of which ``asked`` were wanted.
    """

    floor: Floor
    goal: Goal
    attempts: tuple[Attempt, ...]
    own: bool
    trainable: int
    held: int
    needed: int
    size: int
    asked: int
    contradictions: tuple[tuple[int, int], ...] = ()
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    stopped: bool = False

    @property
    def best(self) -> Attempt:
        """The attempt that came lowest."""
        return min(self.attempts, key=end)


@dataclass(frozen=True)
class Verdict:
    """An outcome with what fails and one sentence."""

    outcome: Outcome
    cause: Cause
    headline: str


def end(attempt: Attempt) -> float:
    """Where an attempt came to: the typical loss of its last recorded steps, in the better mode."""
    last = [point.best for point in attempt.points[-3:] if math.isfinite(point.best)]
    return median(last) if last and attempt.ended != "not finite" else math.inf


def judge(facts: Facts) -> Verdict:
    """The verdict."""
    winner = next((one for one in facts.attempts if one.met), None)
    if winner is not None and facts.floor.blind:
        return Verdict("cannot tell", "", f"The goal was met, but {facts.floor.blindness}.")
    if winner is not None:
        return passed(facts, winner)
    if facts.stopped:
        said = f"Stopped at loss {end(facts.best):.4g}, before the goal of {shown(facts.goal.loss)}."
        return Verdict("cannot tell", "", said)
    return failed(facts)


def passed(facts: Facts, winner: Attempt) -> Verdict:
    """The batch was memorized; whether the user's own settings can do it is another question."""
    said = f"memorized in {len(winner.losses)} steps by {winner.name}, down to loss {winner.points[-1].best:.4g}"
    first = facts.attempts[0]
    if winner is first or not facts.own:
        return Verdict("pass", "", f"The examples were {said}.")
    if first.ended == "not finite":
        broke = f"{first.name} made the loss {first.losses[-1]} at step {len(first.losses) - 1}"
        return Verdict("fail", "settings", capital(f"{broke}; the examples can be {said}."))
    if progress(first, facts.goal) < NO_PROGRESS and len(first.losses) >= FEW_STEPS:
        moved = f"{first.losses[0]:.4g} to {end(first):.4g} in {len(first.losses)} steps"
        return Verdict("fail", "settings", capital(f"{first.name} took the loss from {moved}; they can be {said}."))
    return Verdict("pass", "", f"The examples were {said}; {first.name} came to {end(first):.4g}.")


def failed(facts: Facts) -> Verdict:
    """Why the goal was not met, the plainest reason first."""
    last, best = facts.attempts[-1], facts.best
    if not facts.trainable:
        return Verdict("fail", "no gradient", "No parameter requires a gradient: nothing can be learned.")
    if last.ended == "not finite":
        said = f"The loss became {last.losses[-1]} at step {len(last.losses) - 1} with {last.name}."
        return Verdict("fail", "not finite", said)
    if last.ended == "no gradient":
        return Verdict("fail", "no gradient", "The loss is not connected to any parameter: it has no gradient.")
    if all(not point.gradient for point in last.points):
        return Verdict("fail", "no gradient", f"All gradients are zero, at a loss of {end(best):.4g}.")
    reached = f"The loss came to {end(best):.4g}, not to the goal of {shown(facts.goal.loss)}"
    if facts.doubts:
        return Verdict("cannot tell", "", f"{reached}.")
    if facts.trainable < facts.needed and not last.dead:
        counted = f"{facts.trainable:,} trainable parameters cannot hold {facts.needed:,} target values"
        return Verdict("fail", "capacity", f"{reached}: {counted}.")
    return Verdict("fail", "model", f"{reached}, and no longer fell; these examples allow {shown(facts.floor.value)}.")


def progress(attempt: Attempt, goal: Goal) -> float:
    """The share of the way from the first loss to the goal that an attempt went."""
    way = attempt.losses[0] - (goal.loss if goal.loss is not None else 0.0)
    return (attempt.losses[0] - end(attempt)) / way if way > 0 else 1.0


def still_falling(attempt: Attempt, floor: float) -> bool:
    """Whether the loss was well on its way when the steps were used up, or there were too few of them to tell."""
    if len(attempt.losses) < FEW_STEPS:
        return True
    gaps = [point.best - floor for point in attempt.points]
    third = len(gaps) // 3
    return median(gaps[-3:]) < STALLED * median(gaps[-third - 2 : -third + 1])


def capital(text: str) -> str:
    """A sentence that begins with a capital."""
    return text[:1].upper() + text[1:]


def shown(value: float | None) -> str:
    """A loss, or that it is not known."""
    return "an unknown floor" if value is None else f"{value:.4g}"
