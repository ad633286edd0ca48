"""How far a pass over data has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from nbdebug.views.base import View
from nbdebug.views.markup import paragraph
from nbdebug.views.plain import plain


@dataclass
class ProgressView(View):
    """A title, how many samples are done, of how many, where that is known, and a button to stop."""

    module: ClassVar[str] = "progress.js"

    title: str = ""
    done: int = 0
    total: int | None = None
    stoppable: bool = True

    @property
    def status(self) -> str:
        """How far it has come, in words."""
        return f"{self.done:,} of {self.total:,} samples" if self.total else f"{self.done:,} samples"

    def state(self) -> dict[str, Any]:
        """Title, words, and the share that is done."""
        share = min(self.done / self.total, 1.0) if self.total else None
        return {"title": plain(self.title), "status": self.status, "share": share, "stoppable": self.stoppable}

    def html(self) -> str:
        """The same as text."""
        return paragraph(self.title) + paragraph(self.status)
