"""Result of a watched run, and its view."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from nbdebug.distributed.parallel_models import ModelPart
from nbdebug.finding import Finding
from nbdebug.formatting import round_number
from nbdebug.loss_curves.curve_shape import CurveShape, curve_shape
from nbdebug.records import Record
from nbdebug.report import Report, describe_findings
from nbdebug.result import Result
from nbdebug.serialization.schema import document, to_json
from nbdebug.trackers import RunExport
from nbdebug.views.saved_output import MAX_LINES, first_lines
from nbdebug.watching.curves import curves, describe_layers, snapshots
from nbdebug.watching.view import LayersView

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View


@dataclass(frozen=True)
class WatchResult(Result):
    """A watched run: its record, and the findings of the rules.

    ``overhead`` is the share of the run time that watching took, and ``loss_only_steps`` the number of steps that
    recorded only their loss to stay within a budget set by the user; ``errors`` lists what could not be watched, and
    why. ``test_seconds`` is the time that the tests of the trained model took after the run. ``warning`` says
    why nothing was judged, if the loop trained another model.
    """

    record: Record
    steps: int = 0
    interrupted: bool = False
    overhead: float = 0.0
    report: Report = field(default_factory=Report)
    errors: str = ""
    loss_only_steps: int = 0
    test_seconds: float = 0.0
    warning: str = ""

    @property
    def loss(self) -> list[tuple[int, float]]:
        """The loss as pairs of step and value."""
        return [(int(step), float(value)) for step, value in zip(*self.record.series("loss"), strict=True)]

    @property
    def shape(self) -> CurveShape:
        """The shape of the loss curve: a name and a sentence."""
        return curve_shape(self.record)

    def view(self) -> View:
        """Return the view: curves on top, every layer below."""

        return run_view(self.record, self.report.findings, self.status)

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per recorded step: step, loss, learning rate and other numbers; ``record`` has every layer."""
        import pandas as pd

        run = self.record.run
        frame = pd.DataFrame(run.values, columns=list(run.columns))
        frame.insert(0, "step", run.steps)
        return frame.rename(columns={"lr": "learning_rate"})

    def to_dict(self) -> dict[str, Any]:
        """Return the run as plain data, ready for JSON, with the content of its page; ``schema`` names its version.

        Curves and snapshots of the layers are thinned as on the page; ``record.to_frame()`` has every number.
        The format is described in docs/command_line.md.
        """
        run = {**self.summary(), "curves": curves(self.record), "events": [vars(event) for event in self.record.events]}
        layers = {"modules": describe_layers(self.record), **snapshots(self.record)}
        return document("Training", self.report.findings, run=run, layers=layers)

    def summary(self) -> dict[str, Any]:
        """Return the outcome of the run in a few numbers and sentences, ready for JSON."""
        losses = [value for _, value in self.loss]
        return {
            "steps": self.steps,
            "first_loss": round_number(losses[0]) if losses else None,
            "last_loss": round_number(losses[-1]) if losses else None,
            "shape": f"{self.shape.name}: {self.shape.sentence}" if losses else "",
            "interrupted": self.interrupted,
            "overhead": round_number(self.overhead),
            "loss_only_steps": self.loss_only_steps,
            "test_seconds": round_number(self.test_seconds),
            "warning": self.warning,
            "not_watched": self.errors,
            "not_measured": str(self.record.about.get("not measured", "")),
        }

    def export(self, tracker: Any) -> None:
        """Export the run to a tracker: curves, histograms, findings, the record and this page.

        The tracker is a ``SummaryWriter``, or the run that ``mlflow.start_run()``, ``wandb.init()`` or
        ``trackio.init()`` returns. Raises SetupError for anything else.
        """
        RunExport(tracker).finish(self)

    def to_json(self) -> str:
        """Return ``to_dict()`` as one line of JSON."""
        return to_json(self.to_dict())

    def draw(self, ax: Axes) -> None:
        """Draw the loss by step."""
        ax.plot(*zip(*self.loss, strict=True) if self.loss else ([], []))
        ax.set(xlabel="step", ylabel="loss")

    def to_text(self) -> str:
        """Return the result as plain text."""
        error_note = f"not watched: {self.errors}" if self.errors else ""
        reason = self.record.about.get("not measured")
        samples_note = f"not measured: {reason}" if reason else ""
        shape_note = f"{self.shape.name}: {self.shape.sentence}" if self.loss else ""
        faults = describe_findings(self.report.faults)
        parts = [self.warning, self._run_text, shape_note, error_note, samples_note, *faults]
        return "\n\n".join(filter(None, parts))

    def brief_text(self) -> str:
        """Return the complete text if it is short; otherwise the run, its shape, and a line for each fault."""
        text = self.to_text()
        if len(first_lines(text)) < MAX_LINES:
            return text
        faults = (fault.summary_line for fault in self.report.faults)
        return "\n".join([self.run_text, *faults])

    @property
    def run_text(self) -> str:
        """The run and the shape of its loss, without the findings."""
        shape_note = f"{self.shape.name}: {self.shape.sentence}" if self.loss else ""
        return "\n".join(filter(None, [self._run_text, self.warning, shape_note]))

    @property
    def headline(self) -> str:
        """One line: steps, loss and cost of the run, and its faults."""
        return f"{self._run_text}; {self.report.faults_text or 'no findings'}"

    @property
    def _run_text(self) -> str:
        is_stage = self.record.about.get("model part") == ModelPart.PIPELINE_STAGE.value
        without_loss = "the last stage has the loss" if is_stage else "no backward pass was recorded"
        losses = describe_losses([loss for _, loss in self.loss]) or without_loss
        return f"nbdebug watch: {self.steps} steps, {losses}{' (interrupted)' * self.interrupted}; {self.cost}"

    @property
    def status(self) -> str:
        """One line: a warning, or steps and cost."""
        if self.warning:
            return self.warning
        return f"{self.steps} steps{', interrupted' if self.interrupted else ''}; {self.cost}"

    @property
    def cost(self) -> str:
        """The overhead as text."""
        tests = f"; tests of the trained model {self.test_seconds:.1f} s" if self.test_seconds else ""
        return describe_cost(self.overhead, self.loss_only_steps) + tests


def describe_losses(losses: Sequence[float]) -> str:
    """Return text such as ``loss 2.31 → 0.29``; a record does not tell NaN from infinity. "" without losses."""
    if not losses:
        return ""
    first, last = (f"{loss:.4g}" if isfinite(loss) else "not finite" for loss in (losses[0], losses[-1]))
    return f"loss {first} → {last}"


def describe_cost(overhead: float, loss_only_steps: int) -> str:
    """Return the overhead as text, with the number of steps that recorded only the loss."""
    text = f"overhead {overhead:.1%}"
    only_loss = f"for {loss_only_steps:,} steps only the loss was recorded, to stay within budget"
    return f"{text}; {only_loss}" if loss_only_steps else text


def run_view(record: Record, findings: Iterable[Finding], status: str, live: bool = False) -> LayersView:
    """Return the view: curves on top, every layer below, and buttons while live."""
    finding_dicts = [finding.to_dict() for finding in findings]
    return LayersView(record=record, findings=finding_dicts, title="Training", status=status, controls=live)
