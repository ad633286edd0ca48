"""View of a triage: the cause, what is left, and what each stage ruled out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from nbdebug.formatting import html_list, html_paragraph, html_table, to_json_value
from nbdebug.views.findings import FindingsView
from nbdebug.views.page import View


@dataclass
class TriageView(View):
    """Findings as cards; causes left, each with its test; causes ruled out, each with the rules; stages with costs.

    ``running`` shows a Stop button.
    """

    module: ClassVar[str] = "triage/page.js"
    height: ClassVar[int] = 200

    title: str = "Triage"
    status: str = ""
    symptom: str = ""
    findings: Sequence[Mapping[str, Any]] = ()
    left: Sequence[tuple[str, str]] = ()
    ruled_out: Sequence[tuple[str, str]] = ()
    stages: Sequence[tuple[str, str]] = ()
    next_test: str = ""
    established: bool = False
    running: bool = False

    def state(self) -> dict[str, Any]:
        """Return the texts, the cards and the tables."""
        names = ("title", "status", "symptom", "next_test", "established", "running")
        tables = ("left", "ruled_out", "stages")
        return {
            **{name: to_json_value(getattr(self, name)) for name in names},
            **{name: [to_json_value(list(row)) for row in getattr(self, name)] for name in tables},
            "findings": FindingsView(findings=self.findings).state()["findings"],
        }

    def html(self) -> str:
        """Return headings, findings and tables."""
        top = html_paragraph(f"{self.title} {self.status}") + html_paragraph(f"Symptom: {self.symptom}")
        cards = FindingsView(title="Findings", findings=self.findings).html() if self.findings else ""
        test = html_paragraph(f"Next test: {self.next_test}") if self.next_test else ""
        left = html_paragraph("Not decided:") + html_list([name for name, _ in self.left]) if self.left else ""
        ruled_out = html_paragraph("Ruled out:") + html_table(self.ruled_out) if self.ruled_out else ""
        return top + cards + left + test + ruled_out + html_table(self.stages)
