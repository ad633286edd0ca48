"""The decision that a mutant is a mistake: an exact fact, or clearly worse numbers.

Facts that a run shows, beside those of the unmutated program:

gradients pile up       most updates use gradients of earlier updates
no step                 the optimizer never steps
steps on nothing        most gradients are cleared between the backward pass and the step
parameters stay         a parameter that moves in the unmutated program does not move
trains in eval mode     of a model with dropout or batch normalization
evaluates in train mode
random in eval mode     two answers to one input differ by 0.1 % of the largest value
splits overlap          more than five rows are in both splits
only the record differs same weights, other numbers printed or kept
raises                  training raises
computes otherwise      other weights; for mistakes by definition, such as two softmaxes
by construction         the text alone is a mistake
"""

from __future__ import annotations

import math
from typing import Any

from benchmarks.mutants.operators.registry import Operator

LEAST_SHARE = 0.1  # of what training gains over the untrained model


def mistake(operator: Operator, plain: list[dict[str, Any]], mutant: list[dict[str, Any]]) -> str | None:
    """Return the reason why a mutant is a mistake, from runs with the same seeds; None if it is none."""
    if any(run.get("failure") for run in mutant):
        return None
    if operator.fact == "raises":
        return mutant[0]["raised"] or _worse(plain, mutant, operator.data)
    if any(run["raised"] for run in mutant):
        return None
    if operator.fact == "by construction" or operator.fact in _facts(plain[0], mutant[0]):
        return operator.fact
    return _worse(plain, mutant, operator.data)


def fact_decides(operator: Operator, plain: dict[str, Any], mutant: dict[str, Any]) -> bool:
    """Check whether one run decides: it raises, or a fact holds."""
    if mutant.get("failure") or mutant["raised"]:
        return True
    return operator.fact == "by construction" or operator.fact in _facts(plain, mutant)


def _facts(plain: dict[str, Any], mutant: dict[str, Any]) -> set[str]:
    facts = set(mutant["facts"]) - set(plain["facts"])
    if set(plain["moved"]) - set(mutant["moved"]):
        facts.add("parameters stay")
    if mutant["weights"] != plain["weights"]:
        facts.add("computes otherwise")
    elif mutant["record"] != plain["record"]:
        facts.add("only the record differs")
    return facts


def may_be_worse(operator: Operator, plain: dict[str, Any], mutant: dict[str, Any]) -> bool:
    """Check whether a mutant is clearly worse on the first seed, so that a second seed is worth its time."""
    return _worse_number(plain, mutant, [plain], operator.data) is not None


def _worse(plain: list[dict[str, Any]], mutant: list[dict[str, Any]], data: str) -> str | None:
    """Return the numbers of the first seed if a mutant is clearly worse on each of two seeds."""
    reasons = [_worse_number(base, run, plain, data) for base, run in zip(plain, mutant, strict=True)]
    return reasons[0] if len(reasons) > 1 and all(reasons) else None


def _worse_number(
    plain: dict[str, Any], mutant: dict[str, Any], all_plain: list[dict[str, Any]], data: str
) -> str | None:
    """Return the number by which a mutant is clearly worse than its unmutated program with the same seed.

    Clearly means: by a tenth of what training gains, by 3 % of the loss, and worse than all unmutated runs.
    """
    after = mutant["own"] if data == "own" else mutant["true"]
    base, start = plain["true"], plain["untrained"]
    if not (after and base and start and all(run["true"] for run in all_plain)):
        return None
    highest = max(run["true"]["loss"] for run in all_plain)
    margin = max(LEAST_SHARE * abs(start["loss"] - base["loss"]), 0.03 * abs(base["loss"]))
    if not math.isfinite(after["loss"]) or after["loss"] > max(base["loss"] + margin, highest):
        return f"loss {after['loss']:.3g} for {base['loss']:.3g}"
    if "accuracy" in after and "accuracy" in base:
        lowest = min(run["true"].get("accuracy", 0.0) for run in all_plain)
        drop = max(0.03, LEAST_SHARE * (base["accuracy"] - start.get("accuracy", 0.0)))
        if after["accuracy"] < min(base["accuracy"] - drop, lowest):
            return f"accuracy {after['accuracy']:.3f} for {base['accuracy']:.3f}"
    return None


def is_same_program(plain: dict[str, Any], rewritten: dict[str, Any]) -> bool:
    """Check whether a rewrite computes what its program computes: it is neither clearly worse nor clearly better."""
    base, after, start = plain["own"], rewritten["own"], plain["untrained"]
    if rewritten["weights"] == plain["weights"]:
        return True
    if not (base and after and start) or not math.isfinite(after["loss"]):
        return False
    gain = abs(start["loss"] - base["loss"])
    return bool(abs(after["loss"] - base["loss"]) <= max(LEAST_SHARE * gain, 0.05 * abs(base["loss"])))
