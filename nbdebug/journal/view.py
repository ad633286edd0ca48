"""View of a journal: problem, hypotheses, experiments, results, and forms that add to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any, ClassVar

from nbdebug.formatting import html_paragraph, to_json_value
from nbdebug.journal.entries import STATUSES, Entry, Experiment, Hypothesis, entry_line
from nbdebug.views.page import View

SIGNS = {"open": "○", "supported": "✓", "refuted": "✕", "dropped": "–"}
_MAX_OTHERS = 200  # of the latest results and notes; the file has all


@dataclass
class JournalView(View):
    """The content of a journal; ``path`` is None if it is not open."""

    module: ClassVar[str] = "journal/page.js"
    sheets: ClassVar[tuple[str, ...]] = ("journal",)
    height: ClassVar[int] = 200
    title: ClassVar[str] = "Debugging journal"

    path: Path | None
    problem: str
    hypotheses: Sequence[Hypothesis]
    experiments: Sequence[Experiment]
    entries: Sequence[Entry]

    @property
    def status(self) -> str:
        """The file, or how to open one."""
        return str(self.path or "not open: call dbg.journal.open('journal.md')")

    def state(self) -> dict[str, Any]:
        """Return the entries, the hypotheses and experiments as they are now, and the words for a status."""
        return to_json_value(  # type: ignore[no-any-return]
            {
                "title": self.title,
                "status": self.status,
                "is_open": self.path is not None,
                "signs": {status: SIGNS[status] for status in STATUSES},
                "problem": self.problem,
                "hypotheses": [{**asdict(item), "about": _about_hypothesis(item)} for item in self.hypotheses],
                "experiments": [{**asdict(item), "about": _about_experiment(item)} for item in self.experiments],
                "others": [{"time": time, "text": text} for time, text in self._others()],
            }
        )

    def html(self) -> str:
        """Return the same as paragraphs and lists."""
        hypotheses = [
            f"{SIGNS[item.status]} {item.name} {item.status}: {item.claim} {_about_hypothesis(item)}"
            for item in self.hypotheses
        ]
        experiments = [
            f"{item.name}: {'; '.join(item.changes)} {_about_experiment(item)} {item.conclusion}"
            for item in self.experiments
        ]
        others = [f"{time} {text}" for time, text in self._others()]
        lists = {"Hypotheses": hypotheses, "Experiments": experiments, "Results and notes": others}
        head = html_paragraph(f"{self.title}: {self.status}") + html_paragraph(self.problem)
        return head + "".join(_list_html(name, items) for name, items in lists.items() if items)

    def _others(self) -> Iterator[tuple[str, str]]:
        """Yield the time and the text of the latest results and notes."""
        entries = [entry for entry in self.entries if entry.kind in ("result", "note", "guide")]
        return ((entry.time, entry_line(entry)) for entry in entries[-_MAX_OTHERS:])


def _about_hypothesis(item: Hypothesis) -> str:
    prior = f"prior {item.prior:g}" if item.prior is not None else ""
    prediction = f"predicts: {item.prediction}" if item.prediction else ""
    reason = f"{item.status}: {item.reason}" if item.reason else ""
    return " · ".join(filter(None, (prior, prediction, reason)))


def _about_experiment(item: Experiment) -> str:
    tests = f"tests {item.hypothesis}" if item.hypothesis else ""
    seen = " → ".join(filter(None, (item.before, item.after)))
    return " · ".join(filter(None, (tests, seen)))


def _list_html(name: str, items: list[str]) -> str:
    return f"<p><b>{name}</b></p><ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"
