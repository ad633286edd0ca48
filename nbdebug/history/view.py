"""View of a diagnosis: losses and scores by epoch or step, and the findings below."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nbdebug.formatting import html_paragraph, to_json_value
from nbdebug.views.findings import FindingsView
from nbdebug.views.line_chart import LineChart
from nbdebug.views.page import View

_Points = Iterable[tuple[float, float]]


@dataclass
class DiagnosisView(View):
    """Curves and findings; ``series`` maps a label, which ends in "loss" or "score", to points.

    ``findings`` are ``Finding.to_dict()``; ``marks`` are positions with a text, of the chart of "loss" or "score".
    """

    module: ClassVar[str] = "history/page.js"
    height: ClassVar[int] = 300

    title: str = "Diagnosis"
    status: str = ""
    x_label: str = "epoch"
    series: Mapping[str, _Points] = field(default_factory=dict)
    marks: Mapping[str, Sequence[tuple[float, str]]] = field(default_factory=dict)
    findings: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()

    def state(self) -> dict[str, Any]:
        """Return the charts, the cards and the notes."""
        cards = self._cards().state()
        return {
            "title": to_json_value(self.title),
            "status": to_json_value(self.status),
            "charts": [chart.state() for chart in self._charts()],
            "findings": cards["findings"],
            "notes": to_json_value(list(self.notes)),
        }

    def html(self) -> str:
        """Return the curves as tables, the findings and the notes."""
        charts = "".join(chart.html() for chart in self._charts())
        notes = "".join(map(html_paragraph, self.notes))
        return html_paragraph(f"{self.title} {self.status}") + charts + self._cards().html() + notes

    def _charts(self) -> list[LineChart]:
        """Return a chart of the losses and one of the scores, without empty lines."""
        charts = []
        for quantity in ("loss", "score"):
            lines = {name: list(points) for name, points in self.series.items() if name.endswith(quantity)}
            if lines := {name: points for name, points in lines.items() if points}:
                marks = self.marks.get(quantity, ())
                charts.append(LineChart(quantity, self.x_label, quantity, series=lines, marks=marks))
        return charts

    def _cards(self) -> FindingsView:
        return FindingsView(title="Findings", findings=self.findings)
