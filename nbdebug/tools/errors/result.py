"""What the error browser knows: the table, the samples, and what the user wrote on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdebug.exceptions import SetupError
from nbdebug.predictions.query import Query, Rows
from nbdebug.predictions.table import Table
from nbdebug.tools.errors.analyses import Analyses
from nbdebug.tools.errors.marks import Marks

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from torch.utils.data import Subset, SubsetRandomSampler

    from nbdebug.attribution.scores import Target
    from nbdebug.baselines import Baselines
    from nbdebug.neighbors.search import Metric
    from nbdebug.samples import Samples
    from nbdebug.setup import Setup
    from nbdebug.tools.errors.compare import Flips
    from nbdebug.tools.explain import Explanation
    from nbdebug.views.base import View


Render = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Errors(Analyses):
    """The predictions of a model on a data set, and the way from each number to the samples behind it.

    ``table`` has a row for each sample; ``samples`` fetches them, where they are at hand. ``headline`` is the result in
    a line. ``dataset`` is what ``subset()`` is a part of, ``setup`` what the predictions were made with.
    """

    table: Table
    headline: str
    samples: Samples | None = field(default=None, repr=False)
    dataset: Any = field(default=None, repr=False)
    marks: Marks = field(default_factory=Marks, repr=False)
    title: str = "What it gets wrong"
    seconds: float = 0.0
    chosen: list[int] = field(default_factory=list, repr=False)
    setup: Setup | None = field(default=None, repr=False)
    known: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def brief(self) -> str:
        """What is left of it under a cell that goes on to show another browser."""
        return str(self).partition("\n")[0]

    @property
    def selected(self) -> list[int]:
        """What is selected in the picture: places in the data set, where known, else rows."""
        return self.table.keys(self.chosen)

    def key(self, row: int) -> int:
        """By what a sample is known: its place in the data set, else its row."""
        return self.table.keys([row])[0]

    def rows(self, **asked: Any) -> pandas.DataFrame:
        """The rows of a query as a frame: ``cells``, ``ranges``, ``values``, ``right``, ``sort``, ``count`` …

        See ``nbdebug.predictions.query.Query``. Raises SetupError for a column that there is not.
        """
        return self.frame(self.table.page(Query(**asked)).rows)

    def frame(self, rows: Rows) -> pandas.DataFrame:
        """Some rows as a frame whose index is what samples are known by."""
        found = self.table.take(rows)
        return found.to_frame() if found.index is not None else found.to_frame().set_axis(rows)

    def tag(self, keys: Iterable[int], tag: str, note: str = "") -> None:
        """Tags samples, known as ``selected`` knows them, and writes a note on them where one is given."""
        keys = list(keys)
        self.marks.tag(keys, tag)
        if note:
            self.marks.note(keys, note)

    def tagged(self, tag: str | None = None) -> pandas.DataFrame:
        """The rows with a tag, or with any, with their tags and notes."""
        keys = set(self.marks.tagged(tag))
        rows = self.rows_of(keys)
        found = self.table.keys(rows)
        return self.frame(rows).assign(
            tags=[", ".join(sorted(self.marks.tags.get(key, ()))) for key in found],
            note=[self.marks.notes.get(key, "") for key in found],
        )

    def save_tags(self, path: str | Path) -> None:
        """Saves tags and notes as CSV, from now on with each change; raises SetupError for a file that is none."""
        self.marks.save(path)

    def rows_of(self, keys: Iterable[int]) -> Rows:
        """The rows of samples."""
        return self.table.rows_of(keys)

    def subset(self, keys: Iterable[int] | str | None = None) -> Subset[Any]:
        """The samples that are selected, or have a tag, or are given, as a data set; SetupError without samples."""
        from torch.utils.data import Subset

        if self.dataset is None:
            raise SetupError("dataset is None; expected samples to take a part of. Pass inputs=, or a DataLoader.")
        return Subset(self.dataset, self.places(keys))

    def sampler(self, keys: Iterable[int] | str | None = None) -> SubsetRandomSampler:
        """A sampler that draws them in random order."""
        from torch.utils.data import SubsetRandomSampler

        return SubsetRandomSampler(self.places(keys))

    def places(self, keys: Iterable[int] | str | None) -> Sequence[int]:
        """The places of samples in the data set: a tag's, those given, else the selected ones."""
        if isinstance(keys, str):
            return self.marks.tagged(keys)
        return self.selected if keys is None else [int(key) for key in keys]

    def baselines(self, *, seconds: float = 3.0) -> Baselines:
        """What the model has to beat on these rows, measured once; see ``nbdebug.baselines.baselines``."""
        from nbdebug.baselines import baselines

        given, found = self.known.get("baselines", (0.0, None))
        if found is None or seconds > given:
            found = baselines(self.setup, self, seconds=seconds)
            self.known["baselines"] = seconds, found
        measured: Baselines = found
        return measured

    def compare(self, before: Errors) -> Flips:
        """What is fixed and what is broken since ``before``, the browser of another model or an earlier epoch.

        Raises SetupError where the samples of both cannot be matched.
        """
        from nbdebug.tools.errors.compare import compare

        return compare(self, before)

    def neighbors(
        self, key: int | None = None, k: int = 8, *, layer: Any = None, metric: Metric = "cosine"
    ) -> pandas.DataFrame:
        """The training samples nearest to a sample, in the input of the last linear layer or the output of ``layer``.

        Without ``key`` all rows, with the share of training samples that are nearer to their own neighbors in
        ``train_distance`` and the share of neighbors with another label in ``neighbors_disagree``; wrong labels are
        likeliest at the top. Raises SetupError without a model or a data set.
        """
        from nbdebug.tools.errors.neighbors import frame

        return frame(self, key, k, layer, metric)

    def explain(self, key: int, method: str = "auto", target: Target = "predicted", **options: Any) -> Explanation:
        """Why the model says what it says of one of the samples; takes the options of ``Debugger.explain``.

        Raises SetupError without a model, and where it is not known which row is which sample.
        """
        from nbdebug.tools.errors.explained import explained

        return explained(self, key, method=method, target=target, **options)

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What a click in the picture does and is told."""
        from nbdebug.tools.errors.answers import answered

        return answered(self, asked)

    def view(self) -> View:
        """The browser: overview, gallery, panels."""
        from nbdebug.tools.errors.picture import view

        return view(self)

    def to_frame(self) -> pandas.DataFrame:
        """One row a sample, with all columns."""
        return self.table.to_frame()

    def draw(self, ax: Axes) -> None:
        """The overview: the counts of the grid."""
        from nbdebug.tools.errors.picture import draw

        draw(self, ax)

    def __str__(self) -> str:
        """The headline, what was most often taken for what, and the notes."""
        from nbdebug.tools.errors.by_class import pair_lines

        lines = [f"nbdebug errors: {self.headline}", *pair_lines(self.table)]
        return "\n".join([*lines, *(f"  note: {one}" for one in self.table.notes)])
