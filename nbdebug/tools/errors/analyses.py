"""What the error browser can say of the whole table, as data; each is measured when it is asked for first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbdebug.predictions.disk.stored import Stored
from nbdebug.predictions.table import Table
from nbdebug.result import Result

if TYPE_CHECKING:
    import pandas

    from nbdebug.metrics.calibration import Reliability
    from nbdebug.metrics.curves import Curves
    from nbdebug.metrics.scaling import Scaling
    from nbdebug.metrics.thresholds import Thresholds
    from nbdebug.slices import Slices
    from nbdebug.slices.fairness import Fairness


MOST = 100_000


class Analyses(Result):
    """The questions that can be put to a table of predictions; ``known`` keeps what has been answered."""

    table: Table
    known: dict[Any, Any]

    @property
    def part(self) -> Table:
        """The table; of one on disk 100,000 rows, drawn at random once, where the values of all rows are needed."""
        if not isinstance(self.table, Stored):
            return self.table
        if "part" not in self.known:
            self.known["part"] = self.table.sample(MOST)
        found: Table = self.known["part"]
        return found

    def per_class(self) -> pandas.DataFrame:
        """One row a class: precision, recall and F1 with the ends of their intervals, support and predicted."""
        from nbdebug.tools.errors.by_class import class_frame

        return class_frame(self.table)

    def pairs(self, most: int = 20) -> pandas.DataFrame:
        """Which class was taken for which, the most often first."""
        from nbdebug.tools.errors.by_class import pair_frame

        return pair_frame(self.table, most)

    def curves(self, of: int | str | None = None) -> Curves:
        """The ROC and the precision-recall curve of a class against the rest; of two, the second if none is named.

        Raises SetupError without scores of all classes, and where no rows or all are of the class.
        """
        from nbdebug.tools.errors.by_class import curves_of

        return curves_of(self.part, of)

    def thresholds(self, of: int | str | None = None) -> Thresholds:
        """What each threshold on the chance of a class comes to. Raises SetupError without scores of all classes."""
        from nbdebug.tools.errors.by_class import thresholds_of

        return thresholds_of(self.part, of)

    def calibration(self, of: int | str | None = None) -> Reliability:
        """Confidence against accuracy in bins; of a class, its chance against how often a row is of it.

        Raises SetupError without scores.
        """
        from nbdebug.tools.errors.by_class import calibration_of

        return calibration_of(self.part, of)

    def temperature(self) -> Scaling:
        """The temperature by which to divide logits, judged on rows that it was not fitted on; SetupError as above."""
        from nbdebug.tools.errors.by_class import scaling_of

        return scaling_of(self.part)

    def slices(self, **options: Any) -> Slices:
        """The parts of the data that are worse than the rest, by one or two columns: see ``nbdebug.slices.search``."""
        from nbdebug.slices import search, with_clusters

        key = ("slices", *sorted(options.items()))
        if key not in self.known:
            with_clusters(self.part)
            self.known[key] = search(self.part, **options)
        found: Slices = self.known[key]
        return found

    def fairness(self, by: str, positive: str | int | None = None) -> Fairness:
        """The rates of each group of a column and their gaps: see ``nbdebug.slices.fairness``."""
        from nbdebug.slices.fairness import fairness

        key = ("fairness", by, positive)
        found: Fairness = self.known.pop(key, None) or fairness(self.part, by, positive)
        self.known[key] = found  # the last one asked for stands last, and is what the picture shows first
        return found
