"""Page of a data profile: panels with tables and groups of sample cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from nbdebug.formatting import html_list, html_paragraph, html_table, to_json_value
from nbdebug.tools.data.distributions import FeatureDistribution
from nbdebug.views.page import View
from nbdebug.views.table import FoldableTable

_MAX_PLAIN_GROUPS, _MAX_HISTOGRAMS = 40, 24


@dataclass(frozen=True)
class SampleCard:
    """One sample: lines of text above and below its rendering, which is JSON of ``nbdebug.sample_display``."""

    caption: str
    content: Mapping[str, Any] | None = None
    detail: str = ""


@dataclass(frozen=True)
class CardRow:
    """Samples that belong together, such as a pair of duplicates, and what they have in common."""

    cards: Sequence[SampleCard]
    text: str = ""


@dataclass(frozen=True)
class CardGroup:
    """A heading with rows of samples; ``note`` says how they were chosen, ``hidden`` how many rows are left out.

    ``samples`` are the dataset indices of all samples by split, which the error browser shows when the page asks for
    the group by its ``number``.
    """

    title: str
    rows: Sequence[CardRow]
    note: str = ""
    hidden: int = 0
    samples: Mapping[str, Sequence[int]] = field(default_factory=dict)
    number: int = -1

    def state(self) -> dict[str, Any]:
        """Return the group as JSON."""
        rows = [
            {
                "text": to_json_value(row.text),
                "cards": [
                    {
                        "caption": to_json_value(card.caption),
                        "detail": to_json_value(card.detail),
                        "shown": card.content,
                    }
                    for card in row.cards
                ],
            }
            for row in self.rows
        ]
        return {
            "kind": "cards",
            "title": to_json_value(self.title),
            "note": to_json_value(self.note),
            "hidden": self.hidden,
            "rows": rows,
            "number": self.number,
            "samples": [[split, len(indices)] for split, indices in self.samples.items()],
        }

    def html(self) -> str:
        """Return the texts of the rows."""
        body = [
            [row.text, *(" ".join(filter(None, (card.caption, card.detail))) for card in row.cards)]
            for row in self.rows[:_MAX_PLAIN_GROUPS]
        ]
        return html_paragraph(self.title) + html_paragraph(self.note) + html_table(body)


@dataclass(frozen=True)
class CodeBlock:
    """Code to copy, with a label."""

    label: str
    source: str

    def state(self) -> dict[str, Any]:
        """Return the block as JSON."""
        return {"kind": "code", "label": self.label, "source": to_json_value(self.source)}

    def html(self) -> str:
        """Return the code as text."""
        return html_paragraph(f"{self.label}: {self.source}")


@dataclass(frozen=True)
class HistogramGroup:
    """A heading with the histograms of features, those of the splits beside each other, on the same axes."""

    title: str
    distributions: Sequence[FeatureDistribution]
    note: str = ""

    def state(self) -> dict[str, Any]:
        """Return the counts of the first features as JSON."""
        shown = [to_json_value(item.state()) for item in self.distributions[:_MAX_HISTOGRAMS]]
        hidden = len(self.distributions) - len(shown)
        texts = {"title": self.title, "note": to_json_value(self.note)}
        return {"kind": "histograms", **texts, "hidden": hidden, "histograms": shown}

    def html(self) -> str:
        """Return the distributions as texts."""
        texts = [str(to_json_value(item.to_text())) for item in self.distributions[:_MAX_HISTOGRAMS]]
        return html_paragraph(self.title) + html_list(texts) + html_paragraph(self.note)


Section = FoldableTable | CardGroup | CodeBlock | HistogramGroup


@dataclass(frozen=True)
class DataPanel:
    """A tab of the page; ``flagged`` is the number of things in it that need attention."""

    name: str
    title: str
    sections: Sequence[Section]
    flagged: int = 0

    def state(self) -> dict[str, Any]:
        """Return the panel as JSON."""
        return {
            "name": self.name,
            "title": f"{self.title} ({self.flagged})" if self.flagged else self.title,
            "sections": [_section_state(section) for section in self.sections],
        }


def _section_state(section: Section) -> dict[str, Any]:
    if isinstance(section, FoldableTable):
        return {"kind": "table", "state": section.state()}
    return section.state()


@dataclass
class DataProfileView(View):
    """The page: a headline with its reasons, and a tab for each panel.

    The samples of the ``browsable`` splits can be shown in the error browser.
    """

    module: ClassVar[str] = "tools/data/page.js"
    sheets: ClassVar[tuple[str, ...]] = ("tools/errors", "tools/data")
    height: ClassVar[int] = 320

    title: str = "Data"
    status: str = ""
    headline: str = ""
    tone: Literal["good", "note", "warning"] = "good"
    reasons: Sequence[str] = ()
    notes: Sequence[str] = ()
    panels: Sequence[DataPanel] = ()
    browsable: Sequence[str] = ()
    stoppable: bool = False

    def state(self) -> dict[str, Any]:
        """Return the state of the page as JSON values."""
        names = ("title", "status", "headline", "tone", "stoppable")
        lists = {name: to_json_value(list(getattr(self, name))) for name in ("reasons", "notes")}
        texts = {name: to_json_value(getattr(self, name)) for name in names}
        panels = [panel.state() for panel in self.panels]
        return {**texts, **lists, "panels": panels, "browsable": list(self.browsable)}

    def html(self) -> str:
        """Return the texts and tables of all panels, for readers without scripts."""
        top = html_paragraph(f"{self.title} {self.status}") + html_paragraph(self.headline) + html_list(self.reasons)
        panels = "".join(
            html_paragraph(panel.title) + "".join(section.html() for section in panel.sections) for panel in self.panels
        )
        return top + panels + html_list(self.notes)
