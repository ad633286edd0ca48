"""Result of the data tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbdebug.result import Result
from nbdebug.tools.data.profile_data import ProfileData, feature_rows_of_split

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View


@dataclass(frozen=True, eq=False)
class DataProfile(ProfileData, Result):
    """What enters the model, from a seeded sample of each split; see ``ProfileData`` for the fields."""

    @property
    def headline(self) -> str:
        """The most important observations in one line."""
        from nbdebug.tools.data.presentation import headline

        return headline(self)

    def view(self) -> View:
        """Return the page: tables and sample cards in tabs."""
        from nbdebug.tools.data.presentation import build_view

        return build_view(self)

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per split, leaf and feature, with its statistics."""
        import pandas as pd

        return pd.DataFrame([row for split in self.splits for row in feature_rows_of_split(split)])

    def draw(self, ax: Axes) -> None:
        """Draw the mean and the standard deviation of each input feature in each split."""
        from nbdebug.tools.data.presentation import draw_profile

        draw_profile(self, ax)

    def to_text(self) -> str:
        """Return the result as plain text."""
        from nbdebug.tools.data.presentation import profile_text

        return profile_text(self)
