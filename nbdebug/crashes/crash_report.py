"""The report on an exception: its findings, and the shapes up to the operation that raised."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from nbdebug.report import Report
from nbdebug.views.findings import FindingsView
from nbdebug.views.shape_graph import ShapeTrace, TraceRow

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.findings import CheckupProgress
    from nbdebug.views.page import View


@dataclass
class CrashView(FindingsView):
    """Cards of findings as in a checkup; ``trace`` holds the calls."""

    module: ClassVar[str] = "crashes/page.js"

    trace: ShapeTrace = field(default_factory=ShapeTrace)

    def state(self) -> dict[str, Any]:
        """Return the cards and the calls."""
        return {**super().state(), "trace": self.trace.state()}

    def html(self) -> str:
        """Return headings, paragraphs and a table of the calls."""
        return super().html() + self.trace.html()


@dataclass(frozen=True)
class CrashReport(Report):
    """The findings on an exception.

    ``trace`` holds the calls of the model's parts with their shapes, up to the one that raised.
    """

    title: str = "Crash"
    trace: ShapeTrace = field(default_factory=ShapeTrace)
    has_chart: ClassVar[bool] = True

    def trace_frame(self) -> pandas.DataFrame:
        """Return one row per call of a module or an operation, up to the one that raised."""
        import pandas as pd

        return pd.DataFrame([vars(row) for row in self.trace], columns=[column.name for column in fields(TraceRow)])

    def block(self) -> str:
        """Return the first finding in a few lines: cause, line and fix; "" without one."""
        if not self.findings:
            return ""
        finding = self.findings[0]
        tried, repeated = finding.evidence.get("fix tried"), finding.evidence.get("repeated")
        lines = [f"nbdebug {finding.code} {finding.name}: {finding.message}"]
        if location := str(finding.where):
            lines.append(f"  at     {location}: {(finding.where.source or '').strip()}")
        lines += [f"  cause  {finding.cause}"] if finding.cause else []
        lines += [f"         (the step was repeated {repeated})"] if repeated else []
        lines += [f"  fix    {finding.fix}"] if finding.fix else []
        lines += [f"         ({tried})"] if tried else []
        return "\n".join(line.replace("\n", "\n         ") for line in lines)

    def view(self, progress: CheckupProgress | None = None) -> View:
        """Return ranked cards, and below them the graph of the calls."""
        findings = [finding.to_dict() for finding in self.findings]
        not_checked = [vars(rule) for rule in self.not_checked]
        return CrashView(
            title=self.title,
            subtitle=self.subject,
            findings=findings,
            not_checked=not_checked,
            checked=len(self.checked_rules),
            progress=progress,
            trace=self.trace,
        )

    def draw(self, ax: Axes) -> None:
        """Draw the graph of the last calls; if they are unknown, a bar for each severity."""
        if self.trace:
            self.trace.draw(ax)
        else:
            super().draw(ax)

    def to_text(self) -> str:
        """Return the findings, what trials have shown, and the shapes up to the operation that raised."""
        tried = [f"fix tried: {f.evidence['fix tried']}" for f in self.findings if "fix tried" in f.evidence]
        return "\n\n".join(filter(None, [super().to_text(), *tried, self.trace.to_text()]))
