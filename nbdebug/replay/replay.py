"""Runs a frozen step again and finds what is to blame."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from nbdebug import registry
from nbdebug.evidence.non_finite import NonFinite
from nbdebug.finding import Finding
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


def replay(setup: Setup, incident: Incident) -> Replay:
    """The first operation that was not finite, its line and the samples; nothing of the user's is changed."""
    with Preserve(*setup.owned, loaders=(setup.train_loader, setup.val_loader)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        incident.put_back()
        gone = ruined(setup)
        before = gone if incident.weights is not None else ()
        notes, step = tuple(incident.notes), incident.step
        start = Replay(step, incident.phase, incident.loss, ruined=before, largest=incident.largest, notes=notes)
        return told(setup, start, truest(setup, incident) if before or not gone else None, incident)


def told(setup: Setup, start: Replay, again: Again | None, incident: Incident) -> Replay:
    """A replay with what the second run gave."""
    try:
        found = [] if start.ruined else findings(setup, again, incident)
    except Exception as error:
        found, start = [], noted(start, f"Looking into it raised {type(error).__name__}: {error}")
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
        notes=start.notes if again.way.whole else (*start.notes, ALONE),
    )


def noted(start: Replay, text: str) -> Replay:
    """The same with another note."""
    return replace(start, notes=(*start.notes, text))


def samples(again: Again, incident: Incident, found: list[Finding]) -> tuple[int, ...]:
    """The samples that are at fault: as a finding tells, else by running each alone."""
    known = listed(found)
    if not known and found and again.what and again.way.whole:
        return tuple(map(again.way.batch.sample, guilty(again, incident)))
    return known


def listed(found: list[Finding]) -> tuple[int, ...]:
    """The samples that a finding tells."""
    return tuple(next((one.evidence["samples"] for one in found if one.evidence.get("samples")), ()))


def findings(setup: Setup, again: Again | None, incident: Incident) -> list[Finding]:
    """What is wrong with the batch, and the operation that a second run, or else the graph of the loss, names."""
    batch = again.way.batch if again else first_batch(setup, incident)
    data = blamed(batch, incident, again)
    found = [data] if data else []
    if again and again.what and (again.what == "loss" or incident.phase == "gradient"):
        seen, gradient = origin(again, incident)
        found += said("G405", non_finite=seen) + said("G406", gradient_origin=gradient)
    if incident.blame and not any(one.code != "D103" for one in found):
        seen = NonFinite("loss", incident.loss or 0.0, 0, batch, incident.blame, incident.step)
        found += said("G405", non_finite=seen)
    return found


def first_batch(setup: Setup, incident: Incident) -> Batch:
    """The batch of an incident that could not be run again."""
    found = (way.batch for one in incident.passes for way in ways(setup, one))
    return next(found, Batch(()))


def said(code: str, **given: Any) -> list[Finding]:
    """What one rule says of some evidence."""
    return registry.find(code)(given)
