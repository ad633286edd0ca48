"""One class against the rest: the chance that each row was given of it, and which rows are of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.scores import Floats, form_of, probabilities
from nbdebug.predictions.table import Table


@dataclass(frozen=True)
class OneClass:
    """The rows that have a target and a chance: what the chance is, and whether the row is of the class.

    ``column`` is the column of the table that holds the chance, where ``keep_chance`` made one.
    """

    name: str
    column: str
    chance: Floats
    target: NDArray[np.bool_]


def one_class(table: Table, of: int | str) -> OneClass | None:
    """A class of a table against the rest, by its name or number; None where no chances are known.

    Raises SetupError for a class that there is not.
    """
    if not isinstance(table, Predictions):
        return None
    number = place(table.classes, of)
    chance = chance_of(table, number)
    if chance is None:
        return None
    known = np.isfinite(chance) & (table.target >= 0)
    return OneClass(table.classes[number], column_of(table, number), chance[known], table.target[known] == number)


def column_of(table: Predictions, number: int) -> str:
    """The column for the chance of a class: "chance" of the second of two classes, else "chance of" the class."""
    return "chance" if len(table.classes) == 2 and number == 1 else f"chance of {table.classes[number]}"


def keep_chance(table: Table, of: int | str) -> None:
    """Makes the chance of a class a column of the table, so that rows can be asked for by it."""
    if isinstance(table, Predictions):
        number = place(table.classes, of)
        chance = chance_of(table, number)
        if chance is not None:
            table.columns.setdefault(column_of(table, number), chance)


def has_chances(table: Table) -> bool:
    """Whether the chances of every class are known."""
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


def chance_of(table: Predictions, number: int) -> Floats | None:
    """The chance of a class in every row, NaN where a score is no number; None where it is not known."""
    if not has_chances(table):
        return None
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
