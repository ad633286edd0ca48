"""Measure baselines on the rows that the model was evaluated on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.baselines.comparison import (
    HIGHER_IS_BETTER,
    MODEL,
    MetricComparison,
    PredictorScores,
    Rows,
    compare_scores,
)
from nbdebug.baselines.input_features import (
    MAX_ROWS,
    InputRows,
    concatenate_padded,
    feature_matrix,
    read_rows,
    read_training_rows,
    standardize,
)
from nbdebug.baselines.models import BaselineTask, get_baseline_task
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.formatting import format_value
from nbdebug.preserve import Preserve
from nbdebug.result import Result
from nbdebug.setup.loaders import get_visited_indices, is_map_style
from nbdebug.setup.losses import ignore_index
from nbdebug.views.images import named_bars
from nbdebug.views.table import Column, FoldableTable, TableRow

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.predictions.table import PredictionTable
    from nbdebug.setup import Setup

_MIN_TRAINING_ROWS = 20  # minimum number of training rows
_VALUE_FIELDS = ("value", "low", "high", "gain", "gain_low", "gain_high")


@dataclass
class _LearnerResults:
    """The targets of the training rows that were read, and the scores of the models trained on them."""

    train_targets: Any = None
    train_rows: int = 0
    scores: list[PredictorScores] = field(default_factory=list)


def _score_learners(
    setup: Setup,
    table: PredictionTable,
    dataset: Any,
    task: BaselineTask,
    rows: Rows,
    deadline: float,
    notes: list[str],
) -> _LearnerResults:
    """Train and score as many models as time allows; append the reasons for omissions to ``notes``."""
    results, seconds_left = _LearnerResults(), deadline - time.perf_counter()
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader)):
        try:
            evaluated_rows, excluded_indices = _split_rows(setup, table, dataset, rows, notes)
            train = read_training_rows(setup, deadline - 0.75 * seconds_left, excluded_indices)
            results.train_targets = task.prepare_targets(train.targets, ignore_index(setup.loss_fn))
            results.train_rows = len(train)
        except (NotChecked, SetupError) as reason:
            notes.append(f"the training rows could not be read: {reason}")
            return results
        try:
            if len(train) < _MIN_TRAINING_ROWS:
                raise NotChecked(f"{len(train)} training rows are too few")
            inputs = _read_evaluated_inputs(setup, table, dataset, evaluated_rows, deadline - 0.5 * seconds_left)
            _fit_and_score(task, train, results, inputs, evaluated_rows, deadline, notes)
        except (NotChecked, SetupError) as reason:
            notes.append(f"no simple model was trained: {reason}")
    return results


def _split_rows(
    setup: Setup, table: PredictionTable, dataset: Any, rows: Rows, notes: list[str]
) -> tuple[Rows, frozenset[int]]:
    """Return the rows to evaluate on, and the dataset indices to leave out of training.

    If the model is evaluated on its own training rows and they cover all training data, the simple models train on
    every second row and are evaluated on the others.
    """
    loader = setup.train_loader
    if dataset is None or dataset is not getattr(loader, "dataset", None) or not is_map_style(loader):
        return rows, frozenset()
    evaluated_rows = rows
    if len(set(get_visited_indices(loader)) - set(table.keys(rows))) < len(rows) / 2:
        evaluated_rows = np.sort(np.random.default_rng(0).permutation(rows)[::2])
        notes.append("your model was trained on these rows; simple models are evaluated on every second, held-out row")
    return evaluated_rows, frozenset(table.keys(evaluated_rows))


def _read_evaluated_inputs(
    setup: Setup, table: PredictionTable, dataset: Any, rows: Rows, deadline: float
) -> InputRows:
    """Read the inputs of the evaluated rows in random order, so that those read in time are representative."""
    if dataset is None or table.index is None:
        raise NotChecked("the inputs of the evaluated rows cannot be read by index")
    order = np.random.default_rng(0).permutation(len(rows))
    dataset_indices = table.keys(rows[order])
    inputs = read_rows(setup, dataset, _get_collate_fn(setup, dataset), dataset_indices, deadline)
    return InputRows(inputs.parts, inputs.targets, order[: len(inputs)])


def _get_collate_fn(setup: Setup, dataset: Any) -> Callable[..., Any]:
    """Return the collate function of the loader of that dataset, else of the training loader."""
    from torch.utils.data import default_collate

    own_loader = setup.loader_for_dataset(dataset)
    collate_fn: Callable[..., Any] = getattr(
        setup.train_loader if own_loader is None else own_loader, "collate_fn", default_collate
    )
    return collate_fn


def _fit_and_score(
    task: BaselineTask,
    train: InputRows,
    results: _LearnerResults,
    evaluated: InputRows,
    rows: Rows,
    deadline: float,
    notes: list[str],
) -> None:
    if len(train.parts) != len(evaluated.parts):
        raise NotChecked("training rows and evaluated rows have different numbers of input tensors")
    features = feature_matrix([concatenate_padded(pair) for pair in zip(train.parts, evaluated.parts, strict=True)])
    is_labeled = _has_target(results.train_targets)
    x, evaluated_features = standardize(features[: len(train)][is_labeled], features[len(train) :])
    order = np.argsort(evaluated.rows)
    for scores in task.score_learners(
        x, results.train_targets[is_labeled], rows[evaluated.rows[order]], evaluated_features[order], deadline, notes
    ):
        results.scores.append(scores)
    if len(evaluated) < len(rows):
        notes.append(f"time limit reached: simple models were evaluated on {len(evaluated)} of {len(rows)} rows")


def _has_target(targets: Any) -> Any:
    return targets >= 0 if targets.dtype.kind in "iu" else np.isfinite(targets)


@dataclass(frozen=True, eq=False)
class Baselines(Result):
    """A model compared with each baseline on the same rows.

    ``comparisons`` has one entry per predictor and metric, those of the model first; ``descriptions`` describes each
    predictor. ``only`` maps a baseline to the rows of the table that it predicts better than the model, best first.
    ``notes`` say what was left out and why.
    """

    task: str
    comparisons: tuple[MetricComparison, ...]
    descriptions: Mapping[str, str]
    only: Mapping[str, Rows] = field(default_factory=dict, repr=False)
    rows: int = 0
    trained_on: int = 0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics, the main one of the task first."""
        return tuple(dict.fromkeys(comparison.metric for comparison in self.comparisons))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the baselines."""
        return tuple(dict.fromkeys(comparison.name for comparison in self.comparisons if comparison.name != MODEL))

    def get(self, name: str, metric: str) -> MetricComparison | None:
        """Return one metric of one predictor; None if it has none."""
        return next(
            (comparison for comparison in self.comparisons if comparison.name == name and comparison.metric == metric),
            None,
        )

    def best(self, metric: str) -> MetricComparison | None:
        """Return the best baseline by a metric."""
        candidates = [
            comparison for comparison in self.comparisons if comparison.metric == metric and comparison.name != MODEL
        ]
        return max(
            candidates,
            key=lambda comparison: comparison.value if metric in HIGHER_IS_BETTER else -comparison.value,
            default=None,
        )

    @property
    def headline(self) -> str:
        """Return the comparison with the best baseline in one line."""
        metric = self.metrics[0]
        model, best = self.get(MODEL, metric), self.best(metric)
        assert model is not None
        if best is None:
            return f"{metric} {format_metric(metric, model.value)}; no baseline could be measured"
        best_text = f"{best.name} ({self.descriptions[best.name]}): {format_metric(metric, best.value)}"
        return f"{metric} {format_metric(metric, model.value)}, {_describe_gain(best)} the best baseline, {best_text}"

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per predictor and metric: the value, and the gain of the model, with their intervals."""
        import pandas as pd

        return pd.DataFrame([vars(comparison) for comparison in self.comparisons])

    def view(self) -> FoldableTable:
        """Return the comparisons as a table."""
        names = ("metric", "value", "from", "to", "better by", "from", "to")
        columns = [Column("predictor"), Column(names[0]), *(Column(name, "number") for name in names[1:])]
        rows = [self.table_row(comparison) for comparison in self.comparisons]
        return FoldableTable(
            title="Baselines", status=self.headline, columns=columns, rows=rows, note=" ".join(self.notes)
        )

    def table_row(self, comparison: MetricComparison) -> TableRow:
        """Return one row of the table."""
        values = [getattr(comparison, name) for name in _VALUE_FIELDS]
        rounded = [float(format_value(value)) for value in (values if comparison.name != MODEL else values[:3])]
        return TableRow(
            comparison.name, (comparison.metric, *rounded), details=(("", self.descriptions[comparison.name]),)
        )

    def draw(self, ax: Axes) -> None:
        """Draw the main metric as bars with intervals."""
        metric = self.metrics[0]
        comparisons = [comparison for comparison in self.comparisons if comparison.metric == metric]
        values = np.array([comparison.value for comparison in comparisons])
        error_lengths = np.array(
            [
                [max(comparison.value - comparison.low, 0), max(comparison.high - comparison.value, 0)]
                for comparison in comparisons
            ]
        ).T
        colors = ["tab:blue" if comparison.name == MODEL else "tab:gray" for comparison in comparisons]
        named_bars(
            ax, [comparison.name for comparison in comparisons], values, xerr=error_lengths, color=colors, capsize=3
        )
        ax.set(xlabel=metric, title=self.headline)

    def to_text(self) -> str:
        """Return the result as plain text."""
        metric = self.metrics[0]
        lines = [f"nbdebug baselines: {self.headline}"]
        for item in self.comparisons:
            if item.metric == metric:
                interval = f"({format_metric(metric, item.low)} to {format_metric(metric, item.high)})"
                lines.append(
                    f"  {item.name:9} {format_metric(metric, item.value):>8} {interval:20} "
                    f"{self.descriptions[item.name]}"
                )
        return "\n".join([*lines, *(f"  note: {item}" for item in self.notes)])


def _describe_gain(best: MetricComparison) -> str:
    """Describe whether the model is better than a baseline, and by how much."""
    low, high = sorted((best.gain_low, best.gain_high), key=abs)
    if best.gain_low <= 0 <= best.gain_high:
        ends = (
            f"{format_metric(best.metric, best.gain_low, True)} to {format_metric(best.metric, best.gain_high, True)}"
        )
        return f"not significantly better ({ends}) than"
    unit = " points" if best.metric in HIGHER_IS_BETTER else ""
    ends = " to ".join(format_metric(best.metric, abs(end), True).lstrip("+") for end in (low, high))
    return f"{'better' if best.gain_low > 0 else 'worse'} by {ends}{unit} than"


def format_metric(metric: str, value: float, signed: bool = False) -> str:
    """Format a value of a metric: proportions in percent, or in percentage points for a difference."""
    if metric in HIGHER_IS_BETTER:
        return f"{100 * value:+.1f}" if signed else f"{value:.1%}"
    return f"{value:+.4g}" if signed else f"{value:.4g}"


def measure_baselines(
    setup: Setup | None, table: PredictionTable, dataset: Any = None, *, seconds: float = 3.0
) -> Baselines:
    """Score constant predictions, the model's shuffled predictions and simple models on the same rows.

    For classes: the majority class, a guess by class frequency, logistic regression and nearest neighbors. For numbers:
    mean, median, ridge regression and nearest neighbors. The simple models are trained on up to 5,000 training rows and
    take about ``seconds``; without a ``setup`` they are left out. ``dataset`` holds the inputs of the rows, at the
    indices of the table. No user object is changed. Raises SetupError for a table of another task.
    """
    start = time.perf_counter()
    task = get_baseline_task(table)
    rows = _sample_rows(task.is_evaluated)
    if not len(rows):
        raise SetupError("the table has 0 rows with a target; expected at least 1. Check targets and ignore_index.")
    learner_results, notes = _LearnerResults(), list[str]()
    if setup is not None:
        learner_results = _score_learners(setup, table, dataset, task, rows, start + seconds, notes)
    else:
        notes.append("no Debugger and so no training rows: constants are computed from the evaluated rows themselves")
    model = task.score_model(rows)
    baseline_scores = [
        *task.score_constants(rows, learner_results.train_targets),
        task.score_shuffled(rows),
        *learner_results.scores,
    ]
    if len(rows) < task.is_evaluated.sum():
        notes.append(f"evaluated on {len(rows)} of {int(task.is_evaluated.sum())} rows, drawn at random")
    return Baselines(
        task=table.task,
        comparisons=tuple(compare_scores(model, baseline_scores)),
        descriptions={scores.name: scores.description for scores in (model, *baseline_scores)},
        only={scores.name: better_rows for scores, better_rows in _rows_better_than_model(model, baseline_scores)},
        rows=len(rows),
        trained_on=learner_results.train_rows,
        notes=tuple(notes),
        seconds=time.perf_counter() - start,
    )


def _sample_rows(is_evaluated: Any) -> Rows:
    """Return up to 5,000 random rows that have a target, in order."""
    rows = np.flatnonzero(is_evaluated)
    if len(rows) <= MAX_ROWS:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, MAX_ROWS, replace=False))


def _rows_better_than_model(
    model: PredictorScores, baselines: list[PredictorScores]
) -> Iterator[tuple[PredictorScores, Rows]]:
    """Yield the rows that a baseline predicts correctly and the model does not; for numbers, those it is closer on."""
    for baseline in baselines:
        positions = np.searchsorted(model.rows, baseline.rows)
        if baseline.correct is not None and model.correct is not None:
            yield baseline, baseline.rows[baseline.correct & ~model.correct[positions]]
        elif baseline.correct is None and "mean absolute error" in baseline.scores and baseline.name != "blind":
            model_errors, baseline_errors = (scores.scores["mean absolute error"] for scores in (model, baseline))
            gain = model_errors[positions] - baseline_errors
            order = np.argsort(-gain, kind="stable")
            yield baseline, baseline.rows[order][: int((gain > 0).sum())]
