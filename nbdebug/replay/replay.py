"""Runs a frozen step again and finds what is to blame."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nbdebug import registry
from nbdebug.evidence.non_finite import NonFinite
from nbdebug.finding import Finding
from nbdebug.graph.source import where_of
from nbdebug.preserve import Preserve
from nbdebug.replay.again import Again, guilty, origin, truest
from nbdebug.replay.incident import Incident
from nbdebug.replay.result import Replay
from nbdebug.replay.suspects import blamed, ruined
from nbdebug.replay.ways import ways
from nbdebug.report import Report, ranked
from nbdebug.setup import Batch, Setup

RULES = ("D103", "G405", "G406")
ALONE = "The loss of the loop is not known, so that only the model was run. Pass loss_fn= or step_fn= to the debugger."

FINITE = "Its gradient was finite this time: as that of a loss that nobody scales, or of other random numbers."


def replay(setup: Setup, incident: Incident) -> Replay:
    """The first operation that was not finite, its line and the samples; nothing of the user's is changed."""
    with Preserve(*setup.owned, loaders=(setup.train_loader, setup.val_loader)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        incident.put_back()
        gone = ruined(setup)
        before = gone if incident.weights is not None else ()
        notes, step = tuple(incident.notes), incident.step
        start = Replay(
            step,
            incident.phase,
            incident.loss,
            ruined=before,
            largest=incident.largest,
            notes=notes,
            place=where_of(incident.line),
            unheard=incident.unheard,
        )
        return told(setup, start, truest(setup, incident) if before or not gone else [], incident)


def told(setup: Setup, start: Replay, runs: list[Again], incident: Incident) -> Replay:
    """A replay with what the second runs gave."""
    again, found = next(iter(runs), None), list[Finding]()
    try:
        if not start.ruined:
            again, found = findings(setup, runs, incident)
    except Exception as error:
        start = replace(start, notes=(*start.notes, f"Looking into it raised {type(error).__name__}: {error}"))
    if start.diverged:
        found = [replace(one, severity="note", explains=()) for one in found]
    report = Report(ranked(found), asked=frozenset(RULES))
    if again is None:
        return replace(start, report=report, samples=listed(found))
    return replace(
        start,
        again=again.loss,
        exact=again.exact,
        report=report,
        samples=() if start.diverged else samples(again, incident, found),
        notes=(*start.notes, *doubts(again, incident)),
    )


def doubts(again: Again, incident: Incident) -> Iterator[str]:
    """What limits what a second run tells."""
    if not again.way.whole:
        yield ALONE
    elif incident.phase == "gradient" and again.exact and again.what is None:
        yield FINITE


def samples(again: Again, incident: Incident, found: list[Finding]) -> tuple[int, ...]:
    """The samples that are at fault: as a finding tells, else by running each alone."""
    known = listed(found)
    if not known and found and again.what and again.way.whole:
        return tuple(map(again.way.batch.sample, guilty(again, incident)))
    return known


def listed(found: list[Finding]) -> tuple[int, ...]:
    """The samples that a finding tells."""
    return tuple(next((one.evidence["samples"] for one in found if one.evidence.get("samples")), ()))


def findings(setup: Setup, runs: list[Again], incident: Incident) -> tuple[Again | None, list[Finding]]:
    """The run that tells most; what is wrong with its batch, and the operation that it or the graph of the loss names.

    A run that is not faithful may be NaN only by what stands for the target, and then tells nothing.
    """
    looked = ((one, operations(one, incident)) for one in runs if one.shows(incident.phase))
    again, found = next((pair for pair in looked if pair[1]), (next(iter(runs), None), []))
    batch = again.way.batch if again else first_batch(setup, incident)
    data = blamed(batch, incident, again)
    if incident.blame and not found:
        seen = NonFinite("loss", incident.loss or 0.0, 0, batch, incident.blame, incident.step)
        found = said("G405", non_finite=seen)
    return again, [*([data] if data else []), *found]


def operations(again: Again, incident: Incident) -> list[Finding]:
    """The operation, forward or backward, that a run names."""
    seen, gradient = origin(again, incident)
    return said("G405", non_finite=seen) + said("G406", gradient_origin=gradient)


def first_batch(setup: Setup, incident: Incident) -> Batch:
    """The batch of an incident that could not be run again."""
    found = (way.batch for one in incident.passes for way in ways(setup, one))
    return next(found, Batch(()))


def said(code: str, **given: Any) -> list[Finding]:
    """What one rule says of some evidence."""
    return registry.find(code)(given)
