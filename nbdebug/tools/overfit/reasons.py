"""What is said beside a verdict: numbers, gaps, hand-over to other rules, and what it cannot have been."""

from __future__ import annotations

from nbdebug.tools.overfit.result import Attempt
from nbdebug.tools.overfit.verdict import Facts, Verdict, end, shown

SETTINGS = "the settings are to blame: see O501 and O502 for the rate, O503 and O504 for the parameters"


def reasons(facts: Facts, verdict: Verdict) -> tuple[str, ...]:
    """The reasons for a verdict, and what else was seen."""
    found = [*about_batch(facts), *about_loss(facts), *facts.doubts, *about_settings(facts, verdict), *facts.notes]
    winner = next((one for one in facts.attempts if one.met), None)
    return (*found, *(gaps(winner) if winner is not None else ()))


def about_batch(facts: Facts) -> list[str]:
    """The examples themselves."""
    found = []
    if facts.size != facts.asked:
        found.append(f"{facts.size} examples, not {facts.asked}: as many as the first batches could give")
    if facts.contradictions:
        one, other = facts.contradictions[0]
        lead = f"{len(facts.contradictions)} examples contradict another one"
        found.append(f"{lead}: numbers {one} and {other} share their input, not their target")
    return found


def about_loss(facts: Facts) -> list[str]:
    """Floor and chance."""
    floor, chance = facts.floor.value, facts.floor.chance
    if floor is None or chance is None:
        return []
    return [f"the loss of these examples can come to {floor:.4g}, and to {chance:.4g} with one output for all of them"]


def about_settings(facts: Facts, verdict: Verdict) -> list[str]:
    """The user's optimizers beside Adam."""
    if verdict.cause != "settings":
        return []
    short = f"the optimizer holds {facts.held:,} of {facts.trainable:,} trainable parameters"
    return [SETTINGS, *([short] if facts.held < facts.trainable else [])]


def gaps(winner: Attempt) -> list[str]:
    """A mode that did not come along."""
    last = winner.points[-1]
    right = "" if last.eval_accuracy is None else f" with accuracy {last.eval_accuracy:.2f}"
    if winner.met == ("train",):
        return [f"only in train mode: in eval mode (batch normalization) the loss stays at {last.eval_loss:.4g}{right}"]
    if winner.met == ("eval",):
        return [f"only in eval mode: in train mode (dropout) the loss stays at {last.loss:.4g}"]
    return []


def ruled_out(facts: Facts, verdict: Verdict) -> tuple[str, ...]:
    """What the failure cannot be; nothing for another verdict."""
    if verdict.outcome != "fail":
        return ()
    best = facts.best
    found = []
    if not facts.contradictions:
        found.append("contradictory labels: no two examples share their input and differ in target")
    if facts.floor.value is not None:
        found.append(f"a floor of the loss: {shown(facts.floor.value)} can be had, whatever smoothing and weights")
    if verdict.cause in ("model", "capacity"):
        found += about_training(facts, best)
    if verdict.cause != "capacity" and facts.trainable >= facts.needed > 0:
        found.append(f"capacity: {facts.trainable:,} trainable parameters for {facts.needed:,} target values")
    if verdict.cause == "settings":
        found.append(f"the model: {facts.attempts[-1].name} met the goal from the same weights")
    return tuple(found)


def about_training(facts: Facts, best: Attempt) -> list[str]:
    """What a healthy attempt that came to nothing rules out."""
    last = best.points[-1]
    found = [f"dropout and batch statistics: loss {last.eval_loss:.4g} in eval mode, {last.loss:.4g} in train mode"]
    if last.gradient:
        found.append(f"missing gradients: their norm is {last.gradient:.3g} at the end")
    if facts.own and len(facts.attempts) > 1:
        last_try = facts.attempts[-1]
        found.append(f"optimizer settings: {last_try.name} came to {end(last_try):.4g} from the same weights")
    return found
