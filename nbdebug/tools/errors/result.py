"""Results of the error browser, and the comparison of two of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nbdebug.exceptions import SetupError
from nbdebug.predictions.table import Query, Rows
from nbdebug.result import Result
from nbdebug.tools.errors.comparison import (
    accuracy_gain,
    check_same_targets,
    classify_changes,
    gain_text,
    match_rows,
    names_by_index,
    unmatched_note,
)
from nbdebug.tools.errors.data import ErrorData, check_classification, confused_pair_lines

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from torch.utils.data import Subset, SubsetRandomSampler

    from nbdebug.inference.outputs import Target
    from nbdebug.metrics import comparison
    from nbdebug.nearest_neighbors import Metric
    from nbdebug.tools.explain import Explanation
    from nbdebug.views.page import View

Render = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Errors(ErrorData, Result):
    """The predictions of a model on a data set, with a browser from each number to its samples.

    ``table`` has one row per sample; ``samples`` shows the samples, if available. ``headline`` summarizes the result in
    one line. ``dataset`` is what ``subset()`` selects from; ``setup`` made the predictions.
    """

    _live_fields: ClassVar[tuple[str, ...]] = ("samples", "dataset", "setup", "_try_labels", "_cache")

    @property
    def brief(self) -> str:
        """The line that replaces the browser when the same cell displays another one."""
        return str(self).partition("\n")[0]

    @property
    def selected(self) -> list[int]:
        """The keys of the samples selected in the browser: dataset indices, or else row numbers."""
        return self.table.keys(self.selected_rows)

    def rows(self, **query: Any) -> pandas.DataFrame:
        """Return the rows of a query as a frame: ``cells``, ``ranges``, ``values``, ``right``, ``sort``, ``count``.

        See ``nbdebug.predictions.table.Query``. Raises SetupError for an unknown column.
        """
        return self.frame(self.table.page(Query(**query)).rows)

    def frame(self, rows: Rows) -> pandas.DataFrame:
        """Return some rows as a frame indexed by sample key."""
        table = self.table.take(rows)
        return table.to_frame() if table.index is not None else table.to_frame().set_axis(rows)

    def tag(self, keys: Iterable[int], tag: str, note: str = "") -> None:
        """Tag samples by their keys, and set a note on them if ``note`` is given."""
        keys = list(keys)
        self.tags.tag(keys, tag)
        if note:
            self.tags.note(keys, note)

    def tagged(self, tag: str | None = None) -> pandas.DataFrame:
        """Return the rows with a tag, or with any tag, with their tags and notes."""
        keys = set(self.tags.tagged(tag))
        rows = self.rows_of(keys)
        row_keys = self.table.keys(rows)
        return self.frame(rows).assign(
            tags=[", ".join(sorted(self.tags.by_key.get(key, ()))) for key in row_keys],
            note=[self.tags.notes.get(key, "") for key in row_keys],
        )

    def save_tags(self, path: str | Path) -> None:
        """Save tags and notes as CSV, now and after each change; raise SetupError for other files."""
        self.tags.save(path)

    def subset(self, keys: Iterable[int] | str | None = None) -> Subset[Any]:
        """Return samples as a data set: by keys, by tag, or the selected ones; raise SetupError without a data set."""
        from torch.utils.data import Subset

        if self.dataset is None:
            raise SetupError("dataset is None; expected a data set. Pass inputs=, or a DataLoader.")
        return Subset(self.dataset, self.dataset_indices(keys))

    def without(self, keys: Iterable[int] | str | None = None) -> Subset[Any]:
        """Return the data set without the same samples; raise SetupError without a data set."""
        from torch.utils.data import Subset

        dataset = self.subset(()).dataset
        dropped = set(self.dataset_indices(keys))
        return Subset(dataset, [index for index in range(len(dataset)) if index not in dropped])  # type: ignore[arg-type]

    def relabeled(self, keys: Iterable[int] | str | None = None) -> dict[int, int]:
        """Return the predicted classes of the same samples by dataset index; raise SetupError without classes."""
        table, indices = check_classification(self.table), self.dataset_indices(keys)
        rows = self.rows_of(indices)
        return dict(zip(table.keys(rows), table.prediction[rows].tolist(), strict=True))

    def sampler(self, keys: Iterable[int] | str | None = None) -> SubsetRandomSampler:
        """Return a sampler that draws the same samples in random order."""
        from torch.utils.data import SubsetRandomSampler

        return SubsetRandomSampler(self.dataset_indices(keys))

    def dataset_indices(self, keys: Iterable[int] | str | None) -> Sequence[int]:
        """Return the dataset indices of samples: by tag, by keys, or the selected ones."""
        if isinstance(keys, str):
            return self.tags.tagged(keys)
        return self.selected if keys is None else [int(key) for key in keys]

    def compare(self, before: Errors) -> ErrorComparison:
        """Compare with ``before``, the errors of another model or an earlier epoch: which samples are fixed and broken.

        Raises SetupError if the samples of both cannot be matched.
        """
        return _compare_errors(self, before)

    def neighbors(
        self, key: int | None = None, k: int = 8, *, layer: Any = None, metric: Metric = "cosine"
    ) -> pandas.DataFrame:
        """Return the training samples nearest to a sample, by the input of the last linear layer or by ``layer``.

        Without ``key`` return all rows: ``train_distance`` is the share of training samples that are closer to their
        own neighbors, ``neighbors_disagree`` the share of neighbors with another label; likely label errors come first.
        Raises SetupError without a model or a data set.
        """
        from nbdebug.tools.errors.training_neighbors import neighbors_frame

        return neighbors_frame(self, key, k, layer, metric)

    def explain(self, key: int, method: str = "auto", target: Target = "predicted", **options: Any) -> Explanation:
        """Explain the prediction for one sample; takes the options of ``Debugger.explain``.

        Raises SetupError without a model, or if rows have no dataset index.
        """
        from nbdebug.tools.errors.page_requests import explain_sample

        return explain_sample(self, key, method=method, target=target, **options)

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request of the page."""
        from nbdebug.tools.errors.page_requests import answer_request

        return answer_request(self, request)

    def view(self) -> View:
        """Return the browser: overview, gallery, panels."""
        from nbdebug.tools.errors.presentation import create_view

        return create_view(self)

    def to_frame(self) -> pandas.DataFrame:
        """Return all columns, one row per sample."""
        return self.table.to_frame()

    def draw(self, ax: Axes) -> None:
        """Draw the confusion matrix, or a histogram of the losses."""
        from nbdebug.tools.errors.presentation import draw_overview

        draw_overview(self, ax)

    def to_text(self) -> str:
        """Return the result as plain text."""
        lines = [f"nbdebug errors: {self.headline}", *confused_pair_lines(self.table)]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.table.notes)])


@dataclass(frozen=True, eq=False)
class ErrorComparison(Errors):
    """The errors of the later of two models, with the earlier prediction for each sample.

    The table has two more columns: ``before``, the earlier predicted class, and ``change``: broken, fixed, both wrong
    or both right, "" without a target. ``gain`` is the difference in accuracy with its interval and McNemar's test.
    ``rows(values={"change": ["broken"]})`` are the broken samples.
    """

    title: str = "Comparison of two models"

    @property
    def gain(self) -> comparison.PairedComparison:
        """Counts of fixed and broken rows, and the difference in accuracy with its interval and test."""
        return accuracy_gain(self.table)

    def draw(self, ax: Axes) -> None:
        """Draw the fixed and broken samples of each class, the most changed classes first."""
        from nbdebug.tools.errors.comparison import draw_changes

        draw_changes(check_classification(self.table), ax)
        ax.set_title(self.headline)


def _compare_errors(after: Errors, before: Errors) -> ErrorComparison:
    """Compare two results sample by sample.

    Samples are matched by dataset index, or else by row. Raises SetupError if only one has indices, a sample occurs
    twice, targets differ, or no sample is shared.
    """
    new, old = check_classification(after.table), check_classification(before.table)
    new_rows, old_rows = match_rows(new, old)
    if not len(new_rows):
        raise SetupError("the two tables share no sample; expected the same samples. Run both on one loader.")
    new_matched, old_matched = new.take(new_rows), old.take(old_rows)
    check_same_targets(new_matched, old_matched)
    before_names, change = (
        names_by_index(old_matched.classes, old_matched.prediction),
        classify_changes(old_matched, new_matched),
    )
    table = new_matched.with_columns({"before": before_names, "change": change}).replace(
        notes=(*new.notes, *unmatched_note(len(new_rows), len(new), len(old)))
    )
    return ErrorComparison(table, gain_text(accuracy_gain(table)), after.samples, after.dataset, after.tags)
