"""Result of the data tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch.utils.data import Dataset, Subset

from nbdebug.exceptions import SetupError
from nbdebug.result import Result
from nbdebug.tools.data.checks import DataCheck, run_checks
from nbdebug.tools.data.profile_data import DEFAULT_REASONS, ProfileData, feature_rows_of_split

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View


@dataclass(frozen=True, eq=False)
class DataProfile(ProfileData, Result):
    """Result of ``data()``: the data that enter the model; see ``ProfileData`` for the fields."""

    _live_fields: ClassVar[tuple[str, ...]] = ("_browse", "_cache")

    @property
    def headline(self) -> str:
        """The most important observations in one line."""
        from nbdebug.tools.data.presentation import headline

        return headline(self)

    @property
    def checks(self) -> tuple[DataCheck, ...]:
        """All checks, each with what it would have shown, or what would decide it."""
        return run_checks(self)

    def keep(
        self, dataset: Dataset[Any], split: str = "train", reasons: Sequence[str] = DEFAULT_REASONS
    ) -> Subset[Any]:
        """Return the dataset of a split without the samples of ``drop_list(split, reasons)``.

        Raises SetupError for a dataset of another size than the one that was read, and as ``drop_list`` does.
        """
        dropped = set(self.drop_list(split, reasons))
        size = len(dataset)  # type: ignore[arg-type]
        if dropped and max(dropped) >= size:
            raise SetupError(
                f"dataset has {size:,} samples; expected the dataset of {split}_loader, of which sample "
                f"{max(dropped):,} is left out. Pass {split}_loader.dataset."
            )
        return Subset(dataset, [index for index in range(size) if index not in dropped])

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request of the page."""
        from nbdebug.tools.data.page_requests import answer_request

        return answer_request(self, request)

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
