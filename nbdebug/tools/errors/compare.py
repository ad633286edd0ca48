"""Two models, or two epochs of one, on the same samples: what is fixed and what is broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.metrics import paired
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.query import Rows
from nbdebug.predictions.table import Table
from nbdebug.tools.errors.by_class import classes
from nbdebug.tools.errors.result import Errors
from nbdebug.views.plain import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHANGES = ("broken", "fixed", "both wrong", "both right")


@dataclass(frozen=True, eq=False)
class Flips(Errors):
    """The browser of the later of two models, with what the earlier one said of each sample.

    The table has two more columns: ``before``, the class that was said before, and ``change``: broken, fixed, both
    wrong or both right, "" for those without a target. ``gain`` is the difference in accuracy with its interval and
    McNemar's test. ``rows(values={"change": ["broken"]})`` are the samples that broke.
    """

    title: str = "What changed"

    @property
    def gain(self) -> paired.Flips:
        """Fixed and broken rows, the difference in accuracy with its interval, and the test of it."""
        return gain_of(self.table)

    def draw(self, ax: Axes) -> None:
        """Fixed and broken samples of each class, those with the most flips first."""
        from nbdebug.tools.errors.flips import draw

        draw(classes(self.table), ax)
        ax.set_title(self.headline)


def compare(after: Errors, before: Errors) -> Flips:
    """What changed from one to the other, sample by sample.

    Samples are matched by their place in the data set, where known, else by their row. Raises SetupError where they
    cannot be: places on one side only, a sample twice, other targets, nothing in common.
    """
    new, old = classes(after.table), classes(before.table)
    rows, theirs = matched(new, old)
    if not len(rows):
        raise SetupError("the two tables share no sample; expected the same ones. Run both on one loader.")
    new_kept, old_kept = new.take(rows), old.take(theirs)
    refuse_other_targets(new_kept, old_kept)
    said_before, change = named(old_kept.classes, old_kept.prediction), changes(old_kept, new_kept)
    table = new_kept.with_columns({"before": said_before, "change": change}).replaced(
        notes=(*new.notes, *left_out(len(rows), len(new), len(old)))
    )
    return Flips(table, said(gain_of(table)), after.samples, after.dataset, after.marks)


def matched(new: Predictions, old: Predictions) -> tuple[Rows, Rows]:
    """The rows of both tables that are of the same samples, in the order of the first."""
    if (new.index is None) != (old.index is None):
        raise SetupError(
            "only one of the two tables knows the places of its samples; expected both or none. Run both on a loader."
        )
    if new.index is None or old.index is None:
        if len(new) != len(old):
            raise SetupError(f"other has {len(old)} rows; expected {len(new)}, in the same order. Pass the same rows.")
        return np.arange(len(new)), np.arange(len(new))
    for places in (new.index, old.index):
        if len(np.unique(places)) < len(places):
            raise SetupError("a table holds a sample twice; expected each once. Use a loader without replacement.")
    _, rows, theirs = np.intersect1d(new.index, old.index, assume_unique=True, return_indices=True)
    order = np.argsort(rows)
    return rows[order], theirs[order]


def refuse_other_targets(new: Predictions, old: Predictions) -> None:
    """Raises SetupError where the same samples have other targets: labels changed, or the samples are not the same."""
    other = int((named(new.classes, new.target) != named(old.classes, old.target)).sum())
    if other:
        raise SetupError(
            f"{other} of {len(new)} samples have another target in the other table; expected the same. "
            "Compare on the same data, with the same class_names."
        )


def named(names: tuple[str, ...], numbers: np.ndarray) -> np.ndarray:
    """Names by their numbers, "" for none."""
    return np.asarray(np.array([*names, ""], str)[numbers])


def changes(before: Predictions, after: Predictions) -> np.ndarray:
    """What became of each row."""
    was, now = before.right, after.right
    return np.select([after.target < 0, was & ~now, now & ~was, ~now], np.array(["", *CHANGES[:3]]), CHANGES[3])


def left_out(shared: int, new: int, old: int) -> tuple[str, ...]:
    """What is said of samples that only one of the tables holds."""
    only = new + old - 2 * shared
    return (f"{only} samples are in one of the two tables only, and left out",) if only else ()


def gain_of(table: Table) -> paired.Flips:
    """The flips of a table with the column ``change``, of the rows that have a target."""
    found = classes(table)
    change = found.columns["change"][found.target >= 0]
    return paired.flips(np.isin(change, ("broken", "both right")), np.isin(change, ("fixed", "both right")))


def said(gain: paired.Flips) -> str:
    """The flips in a line."""
    points = f"{100 * gain.gain:+.1f} points of accuracy ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
    return f"{gain.fixed} fixed, {gain.broken} broken of {gain.rows}: {points}, McNemar p = {short(gain.p)}"
