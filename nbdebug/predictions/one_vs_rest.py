"""Probabilities and targets of one class against the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.metrics.roc import DEFAULT_THRESHOLD
from nbdebug.predictions.class_scores import Floats, detect_form, to_probabilities
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.predictions.multilabel import MultiLabelTable
from nbdebug.predictions.table import PredictionTable


@dataclass(frozen=True)
class OneVsRest:
    """The rows with a target and a probability: the probability, and whether the row is of the class.

    ``column`` is the table column for the probability. Rows at or above the ``threshold`` are predicted as the class.
    """

    name: str
    column: str
    probability: Floats
    target: NDArray[np.bool_]
    threshold: float = DEFAULT_THRESHOLD


def get_one_vs_rest(table: PredictionTable, class_name: int | str) -> OneVsRest | None:
    """Return a class of a table, by name or index, against the rest; None without probabilities.

    Raises SetupError for an unknown class.
    """
    names = get_class_names(table)
    if not names:
        return None
    class_index = get_class_index(names, class_name)
    probability = get_class_probability(table, class_index)
    if probability is None:
        return None
    column, is_known = _probability_column(names, class_index, table), np.isfinite(probability)
    if isinstance(table, MultiLabelTable):
        threshold = DEFAULT_THRESHOLD if table.thresholds is None else float(table.thresholds[class_index])
        return OneVsRest(
            names[class_index], column, probability[is_known], table.target[is_known, class_index], threshold
        )
    assert isinstance(table, ClassificationTable)
    is_known &= table.target >= 0
    return OneVsRest(names[class_index], column, probability[is_known], table.target[is_known] == class_index)


def get_class_names(table: PredictionTable) -> tuple[str, ...]:
    """Return the names of the classes or labels, if there are any."""
    if isinstance(table, ClassificationTable):
        return table.classes
    return table.labels if isinstance(table, MultiLabelTable) else ()


def _probability_column(names: tuple[str, ...], class_index: int, table: PredictionTable) -> str:
    """Return the column for a class: "chance" for the second of two classes, else "chance of" the class."""
    return (
        "chance"
        if len(names) == 2 and class_index == 1 and "chance" in table.columns
        else f"chance of {names[class_index]}"
    )


def add_probability_column(table: PredictionTable, class_name: int | str) -> None:
    """Add the probability of a class as a column, so that queries can use it."""
    class_index = get_class_index(get_class_names(table), class_name)
    probability = get_class_probability(table, class_index)
    if probability is not None:
        table.columns.setdefault(_probability_column(get_class_names(table), class_index, table), probability)


def has_probabilities(table: PredictionTable) -> bool:
    """Return whether the probabilities of every class are known."""
    if isinstance(table, MultiLabelTable):
        return table.chances is not None
    if not isinstance(table, ClassificationTable) or table.top is None:
        return False
    return table.scores is not None or table.top.shape[1] == len(table.classes)


def get_class_index(classes: tuple[str, ...], class_name: int | str) -> int:
    """Return the index of a class; raise SetupError for an unknown name or index."""
    if isinstance(class_name, str) and class_name in classes:
        return classes.index(class_name)
    if isinstance(class_name, (int, np.integer)) and 0 <= class_name < len(classes):
        return int(class_name)
    raise SetupError(
        f"class is {class_name!r}; expected one of {list_names(classes)}. Pass one of these names or its index."
    )


def list_names(classes: tuple[str, ...], limit: int = 10) -> str:
    """List the first names."""
    return ", ".join(classes[:limit]) + (f" … {len(classes) - limit} more" if len(classes) > limit else "")


def get_class_probability(table: PredictionTable, class_index: int) -> Floats | None:
    """Return the probability of a class in every row, NaN for non-finite scores; None if it is unknown."""
    if not has_probabilities(table):
        return None
    if isinstance(table, MultiLabelTable):
        return None if table.chances is None else np.asarray(table.chances[:, class_index], np.float32)
    assert isinstance(table, ClassificationTable)
    assert table.top is not None
    assert table.chances is not None
    if table.top.shape[1] == len(table.classes):
        column = (table.top == class_index).argmax(1)
        return np.asarray(table.chances[np.arange(len(table)), column], np.float32)
    assert table.scores is not None
    if class_index >= table.scores.shape[1]:
        return np.where(np.isnan(table.chances[:, 0]), np.nan, 0).astype(np.float32)
    return np.asarray(get_all_probabilities(table)[:, class_index], np.float32)


def get_all_probabilities(table: ClassificationTable) -> Floats:
    """Return the probabilities, rows × classes, NaN in rows with a non-finite score; requires stored scores."""
    assert table.scores is not None
    is_non_finite = np.asarray(~np.isfinite(table.scores).all(1))
    class_probabilities = to_probabilities(np.where(is_non_finite[:, None], 0, table.scores), detect_form(table.scores))
    return np.where(is_non_finite[:, None], np.float32(np.nan), class_probabilities)
