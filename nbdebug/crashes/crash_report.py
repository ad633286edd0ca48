"""The report on an exception: its findings, and the shapes up to the operation that raised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbdebug.crashes.shape_trace import TraceRow
from nbdebug.formatting import html_table
from nbdebug.report import Report

if TYPE_CHECKING:
    import pandas

_MARKS = {"ran": " ", "raised": "✕", "cut off": "…"}
_MAX_TEXT_ROWS = 40


@dataclass(frozen=True)
class CrashReport(Report):
    """The findings on an exception.

    ``trace`` holds the calls of the model's parts with their shapes, up to the one that raised.
    """

    title: str = "Crash"
    trace: tuple[TraceRow, ...] = ()

    def trace_frame(self) -> pandas.DataFrame:
        """Return one row per call of a module, up to the one that raised."""
        import pandas as pd

        return pd.DataFrame([vars(row) for row in self.trace], columns=["path", "kind", "inputs", "outputs", "status"])

    def block(self) -> str:
        """Return the first finding in a few lines: cause, line and fix; "" without one."""
        if not self.findings:
            return ""
        finding = self.findings[0]
        lines = [f"nbdebug {finding.code} {finding.name}: {finding.message}"]
        if location := str(finding.where):
            lines.append(f"  at     {location}: {(finding.where.source or '').strip()}")
        lines += [f"  cause  {finding.cause}"] if finding.cause else []
        lines += [f"  fix    {finding.fix_text}"] if finding.fix else []
        return "\n".join(line.replace("\n", "\n         ") for line in lines)

    def to_text(self) -> str:
        """Return the findings, and the shapes up to the operation that raised."""
        rows = self.trace[-_MAX_TEXT_ROWS:]
        width = max((len(_name(row)) for row in rows), default=0)
        lines = [f"  {_MARKS[row.status]} {_name(row):{width}}  {row.inputs} → {_outcome(row)}" for row in rows]
        picture = "\n".join(["shapes up to the operation that raised:", *lines]) if lines else ""
        return "\n\n".join(filter(None, [super().to_text(), picture]))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(include, exclude)
        rows = ((f"{_MARKS[row.status]} {_name(row)}", f"{row.inputs} → {_outcome(row)}") for row in self.trace)
        return {**bundle, "text/html": bundle["text/html"] + (html_table(rows) if self.trace else "")}


def _name(row: TraceRow) -> str:
    return f"{row.path} {row.kind}".strip()


def _outcome(row: TraceRow) -> str:
    return row.outputs if row.status == "ran" else row.status
