"""The prediction table: a row for each sample, a column for each thing that is known of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.errors import SetupError
from nbdebug.metrics.confusion import Counts, confusion
from nbdebug.predictions.cells import Cells
from nbdebug.predictions.labels import Labels, numbered
from nbdebug.predictions.scores import TOP, Floats, as_scores, digest

if TYPE_CHECKING:
    import pandas

MOST_SCORES = 16_000_000  # numbers: up to here all scores are kept, 64 MB


@dataclass(frozen=True)
class Predictions:
    """What was said of each sample; all columns have the same length.

    ``target`` and ``prediction`` are numbers of ``classes``, -1 where there is none. ``index`` is the place of a row
    in its data set, where known. ``columns`` holds loss, confidence, margin and entropy where there were scores, and
    whatever was given with them. ``top`` are the likeliest classes with their probabilities ``chances``; ``scores``
    are all of them, while they fit into 64 MB.
    """

    target: Labels
    prediction: Labels
    classes: tuple[str, ...]
    index: NDArray[np.int64] | None = None
    columns: dict[str, NDArray[Any]] = field(default_factory=dict)
    top: NDArray[np.int32] | None = None
    chances: Floats | None = None
    scores: Floats | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        predictions: Any,
        targets: Any,
        *,
        class_names: Sequence[str] | None = None,
        index: Any = None,
        ignore_index: int | None = None,
        columns: Mapping[str, Any] | None = None,
        top: int = TOP,
    ) -> Predictions:
        """A table of arrays, tensors or lists: predicted labels, or scores of all classes (logits or probabilities).

        Raises SetupError for shapes, lengths or labels that do not fit each other.
        """
        if is_scores(predictions):
            scores = as_scores(predictions)
            target, _, classes = numbered(targets, None, class_names, scores.shape[1], ignore_index)
            fits("predictions", len(scores), len(target))
            table = scored(scores, target, classes, top)
        else:
            target, prediction, classes = numbered(targets, predictions, class_names, None, ignore_index)
            assert prediction is not None
            table = cls(target, prediction, classes)
        more = {name: np.asarray(values) for name, values in (columns or {}).items()}
        for name, values in more.items():
            fits(f"column {name!r}", len(values), len(table))
        places = None if index is None else np.asarray(index, np.int64)
        if places is not None:
            fits("index", len(places), len(table))
        return table.replaced(index=places, columns={**table.columns, **more})

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.target)

    @cached_property
    def matrix(self) -> Counts:
        """The confusion matrix, targets × predictions."""
        return confusion(self.target, self.prediction, len(self.classes))

    @cached_property
    def cells(self) -> Cells:
        """The rows of each cell of the matrix, by loss, else by confidence, else in their order."""
        bad = next((self.columns[name] for name in ("loss", "confidence") if name in self.columns), None)
        none = np.zeros(len(self), np.float32) if bad is None else bad
        return Cells(self.target, self.prediction, len(self.classes), none)

    @property
    def right(self) -> NDArray[np.bool_]:
        """Which rows are right; those without a target are not."""
        return np.asarray((self.target == self.prediction) & (self.target >= 0))

    def replaced(self, **changed: Any) -> Predictions:
        """The same with other columns."""
        from dataclasses import replace

        return replace(self, **changed)

    def take(self, rows: Any) -> Predictions:
        """Some of the rows."""
        at = np.asarray(rows)
        parts = {name: getattr(self, name) for name in ("target", "prediction", "index", "top", "chances", "scores")}
        kept = {name: None if one is None else one[at] for name, one in parts.items()}
        return self.replaced(**kept, columns={name: one[at] for name, one in self.columns.items()})

    def to_frame(self) -> pandas.DataFrame:
        """One row a sample: classes by name, then all columns; the index is the place in the data set, where known."""
        import pandas as pd

        names = np.array([*self.classes, ""], object)
        frame = pd.DataFrame({"target": names[self.target], "prediction": names[self.prediction], **self.columns})
        return frame if self.index is None else frame.set_index(pd.Index(self.index, name="index"))


def is_scores(predictions: Any) -> bool:
    """Whether predictions are scores and not labels: of real numbers, with an axis of classes or with fractions."""
    found = predictions.detach().cpu().numpy() if hasattr(predictions, "detach") else np.asarray(predictions)
    if found.dtype.kind != "f":
        return False
    if found.ndim > 1 and found.shape[1] > 1:
        return True
    whole = found[np.isfinite(found)]
    return bool(len(whole)) and not bool((whole == np.rint(whole)).all())


def scored(scores: Floats, target: Labels, classes: tuple[str, ...], top: int) -> Predictions:
    """A table with what scores tell; a row with a score that is no number has no prediction."""
    found = digest(scores, target, top=top)
    columns = {
        "loss": found.loss,
        "confidence": found.chances[:, 0],
        "margin": found.margin,
        "entropy": found.entropy,
    }
    prediction = np.where(np.isnan(found.chances[:, 0]), -1, found.top[:, 0]).astype(np.int32)
    notes: tuple[str, ...] = (f"predictions were taken for {found.form}",)
    if found.broken:
        notes += (f"{found.broken} rows have a score that is no number, and no prediction",)
    kept = scores if scores.size <= MOST_SCORES else None
    return Predictions(target, prediction, classes, None, columns, found.top, found.chances, kept, notes)


def fits(name: str, length: int, rows: int) -> None:
    """Refuses a column of another length."""
    if length != rows:
        raise SetupError(f"{name} has {length} rows; expected {rows}, as many as targets. Pass the same rows.")
