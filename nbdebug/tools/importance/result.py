"""Feature importance of the whole model, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbdebug.result import Result
from nbdebug.tools.importance.data import ImportanceData

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nbdebug.tools.importance.drift import By, Drift
    from nbdebug.views.page import View

_MAX_TEXT_ROWS = 10


@dataclass(frozen=True, eq=False)
class Importance(ImportanceData, Result):
    """Importance of each feature, which can be shown, drawn and compared; see ``ImportanceData`` for the fields."""

    def compare(self, before: Importance, *, by: By = "share", names: Sequence[str] = ("before", "now")) -> Drift:
        """Return the changes since ``before``: the same model at another epoch, or another window of data.

        Raises SetupError if there are no common features.
        """
        from nbdebug.tools.importance.drift import drift

        return drift([before, self], names, by=by)

    def view(self) -> View:
        """Return the page: bars, beeswarm, dependence, and maps of images."""
        from nbdebug.tools.importance.presentation import importance_view

        return importance_view(self)

    def draw(self, ax: Axes) -> None:
        """Draw the first features as bars with intervals."""
        from nbdebug.tools.importance.presentation import draw_importance

        draw_importance(self, ax)

    @property
    def headline(self) -> str:
        """The result in one line."""
        from nbdebug.tools.importance.presentation import headline

        return headline(self)

    def to_text(self) -> str:
        """Return the result as plain text."""
        from nbdebug.tools.importance.presentation import importance_text

        return importance_text(self, _MAX_TEXT_ROWS)
