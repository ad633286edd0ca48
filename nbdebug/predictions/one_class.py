"""One class against the rest, or one label of several: the chance that each row was given of it, and which have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.metrics.thresholds import USUAL
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.scores import Floats, form_of, probabilities
from nbdebug.predictions.table import Table


@dataclass(frozen=True)
class OneClass:
    """The rows that have a target and a chance: what the chance is, and whether the row is of the class.

    ``column`` is the column of the table that holds the chance, where ``keep_chance`` made one; from the ``usual``
    threshold on a row is taken for the class.
    """

    name: str
    column: str
    chance: Floats
    target: NDArray[np.bool_]
    usual: float = USUAL


@runtime_checkable
class Labeled(Protocol):
    """A table whose rows may have several labels at once; targets and chances are rows × labels."""

    labels: tuple[str, ...]
    target: NDArray[np.bool_]
    chances: Floats | None
    thresholds: Floats | None


def one_class(table: Table, of: int | str) -> OneClass | None:
    """A class of a table against the rest, by its name or number; None where no chances are known.

    Raises SetupError for a class that there is not.
    """
    names = names_of(table)
    if not names:
        return None
    number = place(names, of)
    chance = chance_of(table, number)
    if chance is None:
        return None
    column, known = column_of(names, number, table), np.isfinite(chance)
    if isinstance(table, Labeled):
        usual = USUAL if table.thresholds is None else float(table.thresholds[number])
        return OneClass(names[number], column, chance[known], table.target[known, number], usual)
    assert isinstance(table, Predictions)
    known &= table.target >= 0
    return OneClass(names[number], column, chance[known], table.target[known] == number)


def names_of(table: Table) -> tuple[str, ...]:
    """The names of the classes, or of the labels; none where there are no such."""
    if isinstance(table, Predictions):
        return table.classes
    return table.labels if isinstance(table, Labeled) else ()


def column_of(names: tuple[str, ...], number: int, table: Table) -> str:
    """The column for the chance of a class: "chance" of the second of two classes, else "chance of" the class."""
    return "chance" if len(names) == 2 and number == 1 and "chance" in table.columns else f"chance of {names[number]}"


def keep_chance(table: Table, of: int | str) -> None:
    """Makes the chance of a class a column of the table, so that rows can be asked for by it."""
    number = place(names_of(table), of)
    chance = chance_of(table, number)
    if chance is not None:
        table.columns.setdefault(column_of(names_of(table), number, table), chance)


def has_chances(table: Table) -> bool:
    """Whether the chances of every class are known."""
    if isinstance(table, Labeled):
        return table.chances is not None
    if not isinstance(table, Predictions) or table.top is None:
        return False
    return table.scores is not None or table.top.shape[1] == len(table.classes)


def place(classes: tuple[str, ...], of: int | str) -> int:
    """The number of a class; raises SetupError where there is none of that name or number."""
    if isinstance(of, str) and of in classes:
        return classes.index(of)
    if isinstance(of, (int, np.integer)) and 0 <= of < len(classes):
        return int(of)
    raise SetupError(f"class is {of!r}; expected one of {listed(classes)}. Take a name or a number of these.")


def listed(classes: tuple[str, ...], most: int = 10) -> str:
    """The first names."""
    return ", ".join(classes[:most]) + (f" … {len(classes) - most} more" if len(classes) > most else "")


def chance_of(table: Table, number: int) -> Floats | None:
    """The chance of a class in every row, NaN where a score is no number; None where it is not known."""
    if not has_chances(table):
        return None
    if isinstance(table, Labeled):
        return None if table.chances is None else np.asarray(table.chances[:, number], np.float32)
    assert isinstance(table, Predictions)
    assert table.top is not None
    assert table.chances is not None
    if table.top.shape[1] == len(table.classes):
        at = (table.top == number).argmax(1)
        return np.asarray(table.chances[np.arange(len(table)), at], np.float32)
    assert table.scores is not None
    if number >= table.scores.shape[1]:
        return np.where(np.isnan(table.chances[:, 0]), np.nan, 0).astype(np.float32)
    return np.asarray(all_chances(table)[:, number], np.float32)


def all_chances(table: Predictions) -> Floats:
    """The chances of all classes, rows × classes, NaN in rows with a score that is no number; scores are kept."""
    assert table.scores is not None
    broken = np.asarray(~np.isfinite(table.scores).all(1))
    found = probabilities(np.where(broken[:, None], 0, table.scores), form_of(table.scores))
    return np.where(broken[:, None], np.float32(np.nan), found)
