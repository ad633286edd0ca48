"""Labels of any kind as numbers of classes, and the names of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError

Labels = NDArray[np.int32]
NONE = -1  # the number of a row that has no label, or one to be ignored


def flat_labels(values: Any, name: str) -> NDArray[Any]:
    """Labels as one axis; a row of zeros and a single one counts as the place of the one.

    Raises SetupError for what cannot be labels of one class each.
    """
    found = values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim == 2 and found.shape[1] > 1:
        if not (np.isin(found, (0, 1)).all() and (found.sum(1) == 1).all()):
            raise SetupError(
                f"{name} has shape {found.shape}; expected one label a row, or rows with a single 1. "
                "Take argmax(1) of soft labels."
            )
        found = found.argmax(1)
    if found.ndim != 1:
        raise SetupError(f"{name} has shape {found.shape}; expected one label a row. Flatten it.")
    if found.dtype.kind == "f":
        found = whole(found, name)
    return found


def whole(values: NDArray[Any], name: str) -> NDArray[Any]:
    """Whole numbers that are stored as real ones; NaN is no label."""
    missing = np.isnan(values)
    if not (values[~missing] == np.rint(values[~missing])).all():
        raise SetupError(f"{name} holds fractions; expected labels of classes. Give scores as predictions=, 2-d.")
    return np.where(missing, NONE, values).astype(np.int64)


def numbered(
    targets: Any, predictions: Any | None, names: Sequence[str] | None, count: int | None, ignore: int | None = None
) -> tuple[Labels, Labels | None, tuple[str, ...]]:
    """Targets and predicted labels as numbers of classes, and the names of the classes.

    ``count`` is how many classes the scores have, where there are any. Whole numbers from 0 on are the classes
    themselves; all else is sorted, as scikit-learn does it. ``ignore`` and negative numbers are no labels. Raises
    SetupError where names, labels and scores do not fit each other.
    """
    a = flat_labels(targets, "targets")
    b = None if predictions is None else flat_labels(predictions, "predictions")
    if b is not None and len(a) != len(b):
        raise SetupError(f"targets has {len(a)} rows and predictions {len(b)}; expected as many. Pass the same rows.")
    if all(one.dtype.kind in "iub" for one in (a, b) if one is not None):
        numbers = [None if one is None else as_numbers(one, ignore) for one in (a, b)]
        return checked(numbers[0], numbers[1], names, count)
    texts = [None if one is None else np.asarray([str(value) for value in one.tolist()]) for one in (a, b)]
    known = list(names) if names is not None else sorted({*unique(texts[0]), *unique(texts[1])})
    numbers = [None if one is None else looked_up(one, known) for one in texts]
    return checked(numbers[0], numbers[1], known, count)


def unique(texts: NDArray[Any] | None) -> list[str]:
    """The different texts, if there are any."""
    return [] if texts is None else [str(one) for one in np.unique(texts)]


def as_numbers(values: NDArray[Any], ignore: int | None) -> Labels:
    """Whole numbers, with NONE for those to be ignored."""
    found = values.astype(np.int32)
    no = found < 0
    if ignore is not None:
        no |= found == ignore
    found[no] = NONE
    return found


def looked_up(texts: NDArray[Any], names: Sequence[str]) -> Labels:
    """The places of texts among names; raises SetupError where one is not there."""
    places = {name: i for i, name in enumerate(names)}
    different, which = np.unique(texts, return_inverse=True)
    missing = [str(one) for one in different if str(one) not in places]
    if missing:
        raise SetupError(
            f"class_names lacks {missing[0]!r}; expected a name for each label. Add it, or leave class_names out."
        )
    return np.array([places[str(one)] for one in different], np.int32)[which]


def checked(
    targets: Labels | None, predictions: Labels | None, names: Sequence[str] | None, count: int | None
) -> tuple[Labels, Labels | None, tuple[str, ...]]:
    """The same, if names are as many as there are classes; without names the numbers are the names."""
    assert targets is not None
    largest = max((int(one.max(initial=-1)) for one in (targets, predictions) if one is not None), default=-1)
    wanted = max(largest + 1, count or 0)
    if count is not None and largest >= count:
        raise SetupError(f"targets go up to {largest}; expected less than {count}, as scores have. Check the labels.")
    if names is not None and (len(names) < wanted or count not in (None, len(names))):
        raise SetupError(f"class_names has {len(names)} names; expected {wanted}. Give a name for each class.")
    if names is not None and len(set(names)) < len(names):
        raise SetupError("class_names holds a name twice; expected different ones. Number them.")
    return targets, predictions, tuple(names) if names is not None else tuple(map(str, range(wanted)))
