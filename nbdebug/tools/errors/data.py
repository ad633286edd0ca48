"""The data of the error browser: the table, its samples and tags, and analyses of the whole table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.metrics.calibration import CalibrationCurve, TemperatureScaling, calibration_curve, temperature_scaling
from nbdebug.metrics.classification import (
    Counts,
    PerClassMetrics,
    accuracy,
    balanced_accuracy,
    cohen_kappa,
    confused_pairs,
    f1_score,
    matthews_correlation,
    per_class_metrics,
)
from nbdebug.metrics.roc import ClassCurves, Thresholds, class_curves, sweep_thresholds
from nbdebug.predictions.class_scores import detect_form
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.predictions.multilabel import MultiLabelTable
from nbdebug.predictions.one_vs_rest import (
    OneVsRest,
    add_probability_column,
    get_class_names,
    get_one_vs_rest,
    list_names,
)
from nbdebug.predictions.parquet_table import ParquetTable
from nbdebug.predictions.table import PredictionTable, Rows
from nbdebug.statistics.intervals import wilson_interval
from nbdebug.tools.errors.tags import Tags

if TYPE_CHECKING:
    import pandas

    from nbdebug.baselines.baselines import Baselines
    from nbdebug.metrics.calibration import CalibrationCurve, TemperatureScaling
    from nbdebug.metrics.roc import ClassCurves, Thresholds
    from nbdebug.result import Result
    from nbdebug.sample_display import SampleDisplay
    from nbdebug.setup import Setup
    from nbdebug.slices import Slices
    from nbdebug.slices.fairness import Fairness

TryLabels = Callable[[Any, str, str], "Result"]  # of a browser, a tag and an action
_ValueWithInterval = tuple[float, float, float]
_NAN = float("nan")
MAX_SAMPLED_ROWS = 100_000


@dataclass(frozen=True)
class ClassScores:
    """Scores of each class or label, the correct rows ``hits``, and the overall scores.

    ``overall`` maps a metric to its value and interval, NaN where there is none. ``apart`` is True for multi-label
    tables, whose labels are not confused with each other.
    """

    names: tuple[str, ...]
    scores: PerClassMetrics
    hits: Counts
    overall: dict[str, _ValueWithInterval]
    is_multilabel: bool


def class_scores(table: PredictionTable) -> ClassScores | None:
    """Return the scores of a classification or multi-label table; None for other tables."""
    if isinstance(table, (ClassificationTable, ParquetTable)):
        matrix = table.matrix
        return ClassScores(
            table.classes,
            per_class_metrics(matrix),
            np.diag(matrix),
            _overall_class_scores(matrix),
            is_multilabel=False,
        )
    if not isinstance(table, MultiLabelTable):
        return None
    overall = {
        name.replace("_", " "): (metric.value, metric.low, metric.high) for name, metric in table.metrics.items()
    }
    return ClassScores(table.labels, table.per_label_metrics, table.counts[:, 0], overall, is_multilabel=True)


def _overall_class_scores(matrix: Counts) -> dict[str, _ValueWithInterval]:
    low, high = wilson_interval(int(np.trace(matrix)), int(matrix.sum()))
    metrics = {
        "balanced accuracy": balanced_accuracy(matrix),
        "macro F1": f1_score(matrix),
        "weighted F1": f1_score(matrix, "weighted"),
        "Matthews correlation": matthews_correlation(matrix),
        "Cohen's kappa": cohen_kappa(matrix),
    }
    without_intervals = {name: (value, _NAN, _NAN) for name, value in metrics.items()}
    return {"accuracy": (accuracy(matrix), float(low), float(high)), **without_intervals}


def check_classification(table: PredictionTable) -> ClassificationTable:
    """Return the table if it is a single-label classification; raise SetupError otherwise."""
    if not isinstance(table, ClassificationTable):
        raise SetupError(f"the task of the table is {table.task or 'unknown'}; expected classification. Use rows().")
    return table


def _class_scores_frame(table: PredictionTable) -> pandas.DataFrame:
    """Return one row per class: precision, recall and F1 with intervals, and the counts."""
    scores = class_scores(table)
    if scores is None:
        raise SetupError(f"the task of the table is {table.task or 'unknown'}; expected classes or labels. Use rows().")
    return scores.scores.to_frame(scores.names)


def _confused_pairs_frame(table: PredictionTable, max_pairs: int) -> pandas.DataFrame:
    """Return the confused pairs of classes, the most frequent first."""
    import pandas as pd

    classification = table if isinstance(table, ParquetTable) else check_classification(table)
    pairs = confused_pairs(classification.matrix, max_pairs)
    names = [
        {"target": classification.classes[pair.target], "prediction": classification.classes[pair.prediction]}
        for pair in pairs
    ]
    rows = [{**vars(pair), **name} for pair, name in zip(pairs, names, strict=True)]
    return pd.DataFrame(rows, columns=["target", "prediction", "count", "share", "low", "high", "back"])


def confused_pair_lines(table: PredictionTable, max_pairs: int = 3) -> list[str]:
    """Return a line for each of the most confused pairs; none for other tasks or two classes."""
    if not isinstance(table, (ClassificationTable, ParquetTable)) or len(table.classes) < 3:
        return []
    named_pairs = (
        (table.classes[pair.target], table.classes[pair.prediction], pair)
        for pair in confused_pairs(table.matrix, max_pairs)
    )
    return [
        f"  {a} predicted as {b}: {pair.count:,} ({pair.share:.1%} of {a}), {b} as {a}: {pair.back:,}"
        for a, b, pair in named_pairs
    ]


def _one_vs_rest(table: PredictionTable, of: int | str | None) -> OneVsRest:
    """Return one class against the rest, by default the second of two; raise SetupError without probabilities."""
    if of is None and not (isinstance(table, ClassificationTable) and len(table.classes) == 2):
        class_names = list_names(get_class_names(table)) or "no classes"
        raise SetupError(f"of is None; expected one of {class_names}. Give its name or number.")
    scores = get_one_vs_rest(table, 1 if of is None else of)
    if scores is None:
        raise SetupError(
            "the table has no probability of that class; expected scores of all classes. Pass scores as predictions=."
        )
    return scores


def _get_class_curves(table: PredictionTable, of: int | str | None) -> ClassCurves:
    """Return the curves of a class against the rest; raise SetupError if no rows or all rows are of it."""
    scores = _one_vs_rest(table, of)
    result = class_curves(scores.probability, scores.target)
    if result is None:
        counts = f"{int(scores.target.sum())} of {len(scores.target)} rows"
        raise SetupError(
            f"class {scores.name!r} has {counts}; expected rows of it and of others. Choose another class."
        )
    return result


def _class_thresholds(table: PredictionTable, of: int | str | None) -> Thresholds:
    """Return the counts at each threshold; the probability of the class becomes a column of the table."""
    scores = _one_vs_rest(table, of)
    add_probability_column(table, 1 if of is None else of)
    return sweep_thresholds(scores.probability, scores.target, scores.threshold)


def _compute_calibration(table: PredictionTable, of: int | str | None) -> CalibrationCurve:
    """Return the calibration of the confidence, or of the probability of one class."""
    if of is not None:
        scores = _one_vs_rest(table, of)
        return compute_reliability(scores.probability, scores.target)
    classification = check_classification(table)
    confidence = classification.columns.get("confidence")
    if confidence is None:
        raise SetupError("the table has no confidence; expected scores. Pass scores as predictions=.")
    has_target = (classification.target >= 0) & np.isfinite(confidence)
    return compute_reliability(confidence[has_target], classification.right[has_target])


def compute_reliability(confidence: np.ndarray, right: np.ndarray) -> CalibrationCurve:
    """Return the reliability diagram of some rows; raise SetupError without rows."""
    if not len(confidence):
        raise SetupError("no row has both a target and a confidence; expected some. Check the labels and the scores.")
    return calibration_curve(confidence, right)


def fit_temperature(table: PredictionTable) -> TemperatureScaling:
    """Fit a temperature and evaluate it on held-out rows; raise SetupError without all scores."""
    classification = check_classification(table)
    if classification.scores is None:
        raise SetupError("the table has no scores; expected all, up to 16 million. Use fewer rows.")
    has_target = (classification.target >= 0) & np.isfinite(classification.scores).all(1)
    if int(has_target.sum()) < 2:
        raise SetupError(
            f"{int(has_target.sum())} rows have a target and scores; expected 2 or more. Check labels and scores."
        )
    scores = classification.scores[has_target]
    if detect_form(scores) == "probabilities":
        scores = np.log(np.maximum(scores, np.finfo(np.float32).tiny))
    return temperature_scaling(scores, classification.target[has_target].astype(np.int64))


@dataclass(frozen=True, eq=False)
class ErrorData:
    """The predictions of a model on a data set; panels, cards and page requests read them.

    ``table`` has one row per sample; ``samples`` shows the samples, if available. ``headline`` summarizes the result in
    one line. ``dataset`` is what ``subset()`` selects from; ``setup`` made the predictions. ``_try_labels`` trains
    copies with and without the labels of a tag, when the page asks for it.
    """

    table: PredictionTable
    headline: str
    samples: SampleDisplay | None = field(default=None, repr=False)
    dataset: Any = field(default=None, repr=False)
    tags: Tags = field(default_factory=Tags, repr=False)
    title: str = "Model errors"
    seconds: float = 0.0
    selected_rows: list[int] = field(default_factory=list, repr=False)
    setup: Setup | None = field(default=None, repr=False)
    _try_labels: TryLabels | None = field(default=None, repr=False)
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    def key(self, row: int) -> int:
        """Return the key of a row: its dataset index, or else the row number."""
        return self.table.keys([row])[0]

    def rows_of(self, keys: Iterable[int]) -> Rows:
        """Return the rows of samples by key."""
        return self.table.rows_with_keys(keys)

    @property
    def sampled_table(self) -> PredictionTable:
        """The table; if it is on disk, a random sample of 100,000 rows, for analyses that need all values in memory."""
        if not isinstance(self.table, ParquetTable):
            return self.table
        if "part" not in self._cache:
            self._cache["part"] = self.table.sample(MAX_SAMPLED_ROWS)
        table: PredictionTable = self._cache["part"]
        return table

    def per_class(self) -> pandas.DataFrame:
        """Return precision, recall and F1 with intervals, support and predicted counts, one row per class."""
        return _class_scores_frame(self.table)

    def pairs(self, most: int = 20) -> pandas.DataFrame:
        """Return the confused pairs of classes, the most frequent first."""
        return _confused_pairs_frame(self.table, most)

    def curves(self, of: int | str | None = None) -> ClassCurves:
        """Return the ROC and precision-recall curves of a class against the rest, by default the second of two.

        Raises SetupError without scores of all classes, or if no rows or all rows are of the class.
        """
        return _get_class_curves(self.sampled_table, of)

    def thresholds(self, of: int | str | None = None) -> Thresholds:
        """Return the counts at each threshold on a class probability; raise SetupError without all scores."""
        return _class_thresholds(self.sampled_table, of)

    def calibration(self, of: int | str | None = None) -> CalibrationCurve:
        """Return accuracy per confidence bin; of a class, its frequency per bin of its probability.

        Raises SetupError without scores.
        """
        return _compute_calibration(self.sampled_table, of)

    def temperature(self) -> TemperatureScaling:
        """Fit a temperature to the logits and evaluate it on held-out rows; raise SetupError without scores."""
        return fit_temperature(self.sampled_table)

    def slices(self, **options: Any) -> Slices:
        """Return subsets with more errors than the rest, by one or two columns; see ``nbdebug.slices.search``."""
        from nbdebug.slices import add_clusters, search_slices

        key = ("slices", *sorted(options.items()))
        if key not in self._cache:
            add_clusters(self.sampled_table)
            self._cache[key] = search_slices(self.sampled_table, **options)
        weak_slices: Slices = self._cache[key]
        return weak_slices

    def fairness(self, by: str, positive: str | int | None = None) -> Fairness:
        """Return the rates of each group of a column and their gaps; see ``nbdebug.slices.fairness``."""
        from nbdebug.slices.fairness import measure_fairness

        key = ("fairness", by, positive)
        result: Fairness = self._cache.pop(key, None) or measure_fairness(self.sampled_table, by, positive)
        self._cache[key] = result  # the latest request comes last; the panel shows it first
        return result

    def baselines(self, *, seconds: float = 3.0) -> Baselines:
        """Return simple baselines on these rows, measured once; see ``measure_baselines``."""
        from nbdebug.baselines.baselines import measure_baselines

        spent_seconds, cached = self._cache.get("baselines", (0.0, None))
        if cached is None or seconds > spent_seconds:
            cached = measure_baselines(self.setup, self.table, self.dataset, seconds=seconds)
            self._cache["baselines"] = seconds, cached
        result: Baselines = cached
        return result
