"""The view of a tool that has nothing to show yet: how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from nbdebug.formatting import html_paragraph, to_json_value
from nbdebug.views.page import View


@dataclass
class ProgressView(View):
    """A title, the number of processed samples (of the total, if known) or a ``text``, and a Stop button.

    Without ``stoppable``, the tool has ended, and the bar is hidden.
    """

    module: ClassVar[str] = "views/progress.js"

    title: str = ""
    done: int = 0
    total: int | None = None
    stoppable: bool = True
    text: str = ""
    done_share: float | None = None

    @property
    def progress_text(self) -> str:
        """How far the tool is."""
        return self.status

    @property
    def status(self) -> str:
        """The progress as text."""
        if self.text:
            return self.text
        return f"{self.done:,} of {self.total:,} samples" if self.total else f"{self.done:,} samples"

    def state(self) -> dict[str, Any]:
        """Return title, text and the share that is done."""
        share = min(self.done / self.total, 1.0) if self.total else self.done_share
        return {"title": to_json_value(self.title), "status": self.status, "share": share, "stoppable": self.stoppable}

    def html(self) -> str:
        """Return the same as text."""
        return html_paragraph(self.title) + html_paragraph(self.status)
