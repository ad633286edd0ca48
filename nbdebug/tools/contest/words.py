"""What is said of a contest: a sentence, its reasons, and what else is part of the comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nbdebug.setup import Setup
from nbdebug.tools.contest.result import Entry, Verdict


def headline(entries: Sequence[Entry], verdict: Verdict, by: str, steps: int) -> str:
    """The outcome in a sentence."""
    if verdict == "stopped":
        return "Stopped before there was anything to compare."
    if verdict == "none":
        return f"Nothing learns in {steps} steps beyond chance."
    best, tied = entries[0], [one for one in entries if one.rank == 1]
    loss = f"{'validation' if by == 'val' else 'training'} loss"
    if verdict == "clear":
        return f"{titled(best)} ends lowest: {loss} {value(best, by):.4g} after {steps} steps."
    lowest, highest = min(value(one, by) for one in tied), max(value(one, by) for one in tied)
    names = listed([one.name for one in tied])
    return f"{names} cannot be told apart: {loss} {lowest:.4g} to {highest:.4g} after {steps} steps."


def reasons(entries: Sequence[Entry], verdict: Verdict, by: str) -> Iterator[str]:
    """What speaks for the outcome, and what against trusting it."""
    if verdict == "none":
        yield "run overfit() to see whether the model can learn anything, and checkup() for why it does not"
    if verdict == "tie":
        yield "more seeds tell finer differences apart, if they matter"
    if verdict in ("clear", "tie"):
        yield from of_yours(entries)
        yield from of_next(entries, verdict, by)
    if lost := [one for one in entries if one.lost]:
        yield listed([f"{one.name} {one.words}" for one in lost])
    if shaky := [one.name for one in entries if not one.stable and not one.lost]:
        yield f"{listed(shaky)}: the loss rose by more than a quarter of its way down; a lower rate is steadier"
    if dull := [one.name for one in entries if one.state == "does not learn" and verdict != "none"]:
        yield f"{listed(dull)}: no fall of the loss beyond chance"
    if falling := [one.name for one in entries if one.falling]:
        yield f"still falling at the end: {listed(falling)}; with more steps the order may change"


def of_yours(entries: Sequence[Entry]) -> Iterator[str]:
    """Whether the user's own optimizer should go."""
    own = next((one for one in entries if one.origin == "yours"), None)
    if own is None or own.rank == 0:
        return
    if own.rank == 1:
        yield "nothing is better than yours beyond chance: keep it"
    else:
        behind = own.rank - 1
        yield f"yours is behind {'all' if behind == len(entries) - 1 else behind} of the {len(entries) - 1} others"


def of_next(entries: Sequence[Entry], verdict: Verdict, by: str) -> Iterator[str]:
    """How far the winner is ahead."""
    behind = [one for one in entries if one.rank > 1 and one.state == "learns"]
    if verdict == "clear" and behind:
        yield f"next is {titled(behind[0])}, with {value(behind[0], by):.4g}"


def notes(setup: Setup, entries: Sequence[Entry], steps: int, seeds: int, sample: int) -> Iterator[str]:
    """How the candidates were compared, and what that cannot show."""
    yield "all begin at your weights, and get the same batches; a seed changes their order and dropout, not the weights"
    if sample:
        yield f"the validation loss is of the same {sample} samples each time, in eval mode"
    if seeds == 1:
        yield "one seed: the intervals hold the noise of its batches, not that of other orders; give seeds=3"
    if any(one.origin == "default" for one in entries):
        names = listed([one.name for one in entries if one.origin == "default"])
        yield f"no rate was found for {names}: torch's default was taken; give rates={{name: rate}}"
    if setup.scheduler is not None:
        yield "your own schedule is not part of it: its whole length is not these few steps"
    yield (
        f"{steps} steps favor what falls fast: small rates and late decay look worse than they end "
        "(Wu et al. 2018, arXiv:1803.02021)"
    )


def value(one: Entry, by: str) -> float:
    """What a candidate is ranked by."""
    found = one.val if by == "val" else one.train
    return float("nan") if found is None else found


def titled(one: Entry) -> str:
    """A candidate with its rate."""
    return one.name if one.rate is None else f"{one.name} at {one.rate:.2g}"


def listed(names: Sequence[str]) -> str:
    """Names as one speaks them."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
