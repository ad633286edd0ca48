"""Reruns a frozen step and finds the cause of its non-finite values."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nbdebug.finding import Finding, Location
from nbdebug.measurements import Measurements
from nbdebug.measurements.non_finite import NonFiniteBatch
from nbdebug.preserve import Preserve
from nbdebug.replay.recorded_pass import Incident
from nbdebug.replay.rerun import (
    Rerun,
    data_finding,
    non_finite_origin,
    non_finite_weights,
    ranked_reruns,
    rerun_strategies,
    samples_at_fault,
)
from nbdebug.replay.ring_buffer import RingBuffer
from nbdebug.report import Report, rank_findings
from nbdebug.result import Result
from nbdebug.rule_engine import rule_registry
from nbdebug.rule_engine.fix_writer import FixWriter
from nbdebug.setup import Batch, Setup
from nbdebug.source.location import get_location
from nbdebug.views.images import named_bars

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

_DIVERGENCE_RATIO = 1e3  # ratio of the largest weight to the largest before training
_REPLAY_RULES = ("D103", "G405", "G406")
_MODEL_ONLY_NOTE = (
    "The loss of the loop is unknown, so only the model was rerun. Pass loss_fn= or step_fn= to the debugger."
)
_FINITE_GRADIENT_NOTE = (
    "The gradient was finite in the rerun: there the loss was not scaled, or the random numbers differed."
)


@dataclass(frozen=True)
class Replay(Result):
    """A step whose loss or gradient (``phase``) was not finite, rerun from its original state.

    ``loss`` is the original loss, ``rerun_loss`` that of the rerun; ``exact`` tells whether they are equal, None if the
    loss of the loop could not be rerun. ``samples`` are at fault, ``non_finite_weights`` were not finite before the
    step, ``largest_weights`` are the largest weights before training and before the step. ``notes`` state limitations,
    ``loop_location`` is the line of the loop. For the last ``loss_only_steps`` steps only the loss was recorded.
    """

    step: int
    phase: str
    loss: float | None = None
    rerun_loss: float | None = None
    exact: bool | None = None
    report: Report = field(default_factory=Report)
    samples: tuple[int, ...] = ()
    non_finite_weights: tuple[str, ...] = ()
    largest_weights: tuple[float, float] = (math.nan, math.nan)
    notes: tuple[str, ...] = ()
    loop_location: Location = field(default_factory=Location)
    loss_only_steps: int = 0

    @property
    def finding(self) -> Finding | None:
        """The cause, if one was found."""
        return next(iter(self.report.faults), None)

    @property
    def operation(self) -> str | None:
        """The first operation, forward or backward, that turned finite numbers into NaN or Inf."""
        operations = (finding.evidence.get("operation") for finding in self.report.findings)
        return next((finding for finding in operations if finding), None)

    @property
    def where(self) -> Location:
        """Location of the cause, else of the backward pass or the step of the loop."""
        return self.finding.where if self.finding else replace(self.loop_location, step=self.step)

    @property
    def diverged(self) -> bool:
        """True if the weights had diverged before this step."""
        before, after = self.largest_weights
        return after > _DIVERGENCE_RATIO * max(before, 1e-3)

    @property
    def verdict(self) -> str:
        """The cause in one or two sentences."""
        if self.non_finite_weights:
            budget_note = (
                f" For the last {self.loss_only_steps} steps only the loss was recorded, to stay within budget."
                if self.loss_only_steps
                else ""
            )
            ellipsis = ", …" if len(self.non_finite_weights) > 4 else ""
            return (
                "The weights were not finite before the step began: "
                f"{', '.join(self.non_finite_weights[:4])}{ellipsis}.{budget_note}"
            )
        if self.diverged:
            before, after = self.largest_weights
            return (
                f"The largest weight had grown from {before:.3g} to {after:.3g} before the step began: the run "
                "diverged, and no single operation is to blame."
            )
        if self.finding:
            return self.finding.message
        if self.loss_only_steps and self.rerun_loss is None:
            return "The weights were finite before the step began; its inputs were not recorded, to stay within budget."
        return "No operation was found that turns finite numbers into NaN or Inf."

    @property
    def summary(self) -> str:
        """The original observation and the result of the rerun."""
        value = f" ({self.loss:.6g})" if self.loss is not None else ""
        observation = f"The {self.phase} of step {self.step} was not finite{value if self.phase == 'loss' else ''}."
        if self.rerun_loss is None:
            return f"{observation} It could not be rerun."
        if self.exact:
            return f"{observation} A rerun from its original state gives the same loss, {self.rerun_loss:.6g}."
        if self.exact is None:
            return f"{observation} The model was rerun without the loss of the loop."
        original = "an unknown loss" if self.loss is None else f"{self.loss:.6g}"
        return (
            f"{observation} A rerun gives the loss {self.rerun_loss:.6g} instead of {original}: "
            "some other state differed."
        )

    def view(self) -> View:
        """Return a card for each finding."""
        from nbdebug.views.findings import FindingsView

        sentences = [self.summary, *([] if self.finding else [self.verdict]), *self.notes]
        return FindingsView(
            title=f"Replay of step {self.step}",
            subtitle=" ".join(sentences),
            findings=[finding.to_dict() for finding in self.report],
            checked=len(self.report.checked_rules),
        )

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per finding, by rank."""
        return self.report.to_frame()

    def draw(self, ax: Axes) -> None:
        """Draw the largest weight before training and before the step."""
        names, values = ("before training", f"before step {self.step}"), self.largest_weights
        named_bars(ax, names, [value if math.isfinite(value) else 0.0 for value in values])
        ax.set_xlabel("largest weight")

    def to_text(self) -> str:
        """Describe the observation, the cause and the limitations."""
        names_samples = any(finding.evidence.get("samples") for finding in self.report)
        sample_sentence = (
            f"In sample {', '.join(map(str, self.samples[:10]))}{', …' if len(self.samples) > 10 else ''}."
        )
        heading = f"nbdebug replay: {self.summary}"
        verdict = "" if self.finding and not (self.non_finite_weights or self.diverged) else self.verdict
        parts = [
            heading,
            verdict,
            *map(str, self.report),
            sample_sentence if self.samples and not names_samples else "",
            *self.notes,
        ]
        return "\n\n".join(filter(None, parts))


def replay(setup: Setup, incident: Incident) -> Replay:
    """Find the first non-finite operation, its line and the samples, without changing the user's objects."""
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        incident.restore()
        ruined_weights = non_finite_weights(setup)
        weights_before = ruined_weights if incident.weights is not None else ()
        notes, step = tuple(incident.notes), incident.step
        initial_result = Replay(
            step,
            incident.phase,
            incident.loss,
            non_finite_weights=weights_before,
            largest_weights=incident.largest_weights,
            notes=notes,
            loop_location=get_location(incident.line),
            loss_only_steps=incident.loss_only_steps,
        )
        return _replay_with_findings(
            setup,
            initial_result,
            ranked_reruns(setup, incident) if weights_before or not ruined_weights else [],
            incident,
        )


def _replay_with_findings(setup: Setup, initial_result: Replay, reruns: list[Rerun], incident: Incident) -> Replay:
    """Return the replay with the results of the reruns."""
    rerun, cause_findings = next(iter(reruns), None), list[Finding]()
    try:
        if not initial_result.non_finite_weights:
            rerun, cause_findings = _find_causes(setup, reruns, incident)
    except Exception as error:
        initial_result = replace(
            initial_result, notes=(*initial_result.notes, f"The analysis raised {type(error).__name__}: {error}")
        )
    if initial_result.diverged:
        cause_findings = [replace(finding, severity="note", explains=()) for finding in cause_findings]
    fixes = FixWriter(Measurements(setup, budget="quick"), {})
    cause_findings = [fixes.write(rule_registry.find_rule(finding.code), finding) for finding in cause_findings]
    report = Report(rank_findings(cause_findings), checked_rules=frozenset(_REPLAY_RULES))
    if rerun is None:
        return replace(initial_result, report=report, samples=_samples_named_by(cause_findings))
    return replace(
        initial_result,
        rerun_loss=rerun.loss,
        exact=rerun.exact,
        report=report,
        samples=() if initial_result.diverged else _samples_of_findings(rerun, incident, cause_findings),
        notes=(*initial_result.notes, *_limitations(rerun, incident)),
    )


def _limitations(rerun: Rerun, incident: Incident) -> Iterator[str]:
    """Yield the limitations of a rerun."""
    if not rerun.strategy.includes_loss:
        yield _MODEL_ONLY_NOTE
    elif incident.phase == "gradient" and rerun.exact and rerun.non_finite_phase is None:
        yield _FINITE_GRADIENT_NOTE


def _samples_of_findings(rerun: Rerun, incident: Incident, findings: list[Finding]) -> tuple[int, ...]:
    """Return the samples at fault: from a finding, else by rerunning each sample on its own."""
    named_samples = _samples_named_by(findings)
    if not named_samples and findings and rerun.non_finite_phase and rerun.strategy.includes_loss:
        return tuple(map(rerun.strategy.batch.dataset_index, samples_at_fault(rerun, incident)))
    return named_samples


def _samples_named_by(findings: list[Finding]) -> tuple[int, ...]:
    """Return the samples that a finding names."""
    return tuple(next((finding.evidence["samples"] for finding in findings if finding.evidence.get("samples")), ()))


def _find_causes(setup: Setup, reruns: list[Rerun], incident: Incident) -> tuple[Rerun | None, list[Finding]]:
    """Return the most informative rerun, and findings on its batch and the operation that it or the graph names.

    A rerun that does not match the original may be NaN only because of a substitute target; it is then ignored.
    """
    examined_reruns = (
        (rerun, _find_operation_findings(rerun, incident)) for rerun in reruns if rerun.reproduces(incident.phase)
    )
    rerun, operation_findings = next((pair for pair in examined_reruns if pair[1]), (next(iter(reruns), None), []))
    batch = rerun.strategy.batch if rerun else _first_batch(setup, incident)
    batch_finding = data_finding(batch, incident, rerun)
    if incident.operation and not operation_findings:
        non_finite = NonFiniteBatch("loss", incident.loss or 0.0, 0, batch, incident.operation, incident.step)
        operation_findings = _rule_findings("G405", non_finite_batch=non_finite)
    return rerun, [*([batch_finding] if batch_finding else []), *operation_findings]


def _find_operation_findings(rerun: Rerun, incident: Incident) -> list[Finding]:
    """Return findings on the first non-finite operation of a rerun, forward or backward."""
    non_finite, gradient_origin = non_finite_origin(rerun, incident)
    return _rule_findings("G405", non_finite_batch=non_finite) + _rule_findings("G406", gradient_origin=gradient_origin)


def _first_batch(setup: Setup, incident: Incident) -> Batch:
    """Return the batch of an incident that could not be rerun."""
    batches = (
        strategy.batch for recorded_pass in incident.passes for strategy in rerun_strategies(setup, recorded_pass)
    )
    return next(batches, Batch(()))


def _rule_findings(code: str, **measurements: Any) -> list[Finding]:
    """Return the findings of one rule."""
    return rule_registry.find_rule(code)(measurements)


def freeze_abandoned_pass(ring: RingBuffer) -> None:
    """Create an incident from a pass without a backward pass, if its loss is not finite in a rerun."""
    incident = ring.abandoned_pass()
    if incident is None:
        return
    rerun_loss = replay(ring.setup, incident).rerun_loss
    if rerun_loss is not None and not math.isfinite(rerun_loss):
        incident.loss = incident.passes[-1].loss = rerun_loss
        ring.incidents.append(incident)
