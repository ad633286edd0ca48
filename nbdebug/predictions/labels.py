"""Labels of any kind as class indices; tensors and lists as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.predictions.table import check_length

Labels = NDArray[np.int32]
NO_LABEL = -1  # the index of a missing or ignored label


def _flatten_labels(values: Any, name: str) -> NDArray[Any]:
    """Return labels with a single axis; a one-hot row becomes the index of its one.

    Raises SetupError for values that cannot be one label per row.
    """
    labels = values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 2 and labels.shape[1] > 1:
        if not (np.isin(labels, (0, 1)).all() and (labels.sum(1) == 1).all()):
            raise SetupError(
                f"{name} has shape {labels.shape}; expected one label per row, or one-hot rows. "
                "Take argmax(1) of soft labels."
            )
        labels = labels.argmax(1)
    if labels.ndim != 1:
        raise SetupError(f"{name} has shape {labels.shape}; expected one label per row. Flatten it.")
    if labels.dtype.kind == "f":
        labels = _to_integers(labels, name)
    return labels


def _to_integers(values: NDArray[Any], name: str) -> NDArray[Any]:
    """Convert floats that hold integers; NaN becomes a missing label."""
    missing = np.isnan(values)
    if not (values[~missing] == np.rint(values[~missing])).all():
        raise SetupError(f"{name} holds fractions; expected class labels. Pass scores as predictions=, 2-d.")
    return np.where(missing, NO_LABEL, values).astype(np.int64)


def encode_labels(
    targets: Any, predictions: Any | None, names: Sequence[str] | None, count: int | None, ignore: int | None = None
) -> tuple[Labels, Labels | None, tuple[str, ...]]:
    """Return targets and predicted labels as class indices, and the names of the classes.

    ``count`` is the number of classes of the scores, if there are any. Non-negative integers are class indices; other
    labels are sorted, as in scikit-learn. ``ignore`` and negative numbers are missing labels. Raises SetupError if
    names, labels and scores do not match.
    """
    flat_targets = _flatten_labels(targets, "targets")
    flat_predictions = None if predictions is None else _flatten_labels(predictions, "predictions")
    if flat_predictions is not None and len(flat_targets) != len(flat_predictions):
        raise SetupError(
            f"targets has {len(flat_targets)} rows and predictions {len(flat_predictions)}; expected equal numbers. "
            "Pass the same rows."
        )
    if all(labels.dtype.kind in "iub" for labels in (flat_targets, flat_predictions) if labels is not None):
        encoded = [
            None if labels is None else _mask_ignored(labels, ignore) for labels in (flat_targets, flat_predictions)
        ]
        return check_labels(encoded[0], encoded[1], names, count)
    texts = [
        None if labels is None else np.asarray([str(value) for value in labels.tolist()])
        for labels in (flat_targets, flat_predictions)
    ]
    known_names = list(names) if names is not None else sorted({*_unique_texts(texts[0]), *_unique_texts(texts[1])})
    encoded = [None if labels is None else look_up_labels(labels, known_names) for labels in texts]
    return check_labels(encoded[0], encoded[1], known_names, count)


def _unique_texts(texts: NDArray[Any] | None) -> list[str]:
    return [] if texts is None else [str(text) for text in np.unique(texts)]


def _mask_ignored(values: NDArray[Any], ignore: int | None) -> Labels:
    """Return integers with NONE for ignored labels."""
    labels = values.astype(np.int32)
    is_missing = labels < 0
    if ignore is not None:
        is_missing |= labels == ignore
    labels[is_missing] = NO_LABEL
    return labels


def look_up_labels(texts: NDArray[Any], names: Sequence[str]) -> Labels:
    """Return the indices of texts among names; raise SetupError for an unknown text."""
    index_by_name = {name: i for i, name in enumerate(names)}
    distinct, inverse = np.unique(texts, return_inverse=True)
    missing = [str(text) for text in distinct if str(text) not in index_by_name]
    if missing:
        raise SetupError(
            f"class_names lacks {missing[0]!r}; expected a name for each label. Add it, or leave class_names out."
        )
    return np.array([index_by_name[str(text)] for text in distinct], np.int32)[inverse]


def check_labels(
    targets: Labels | None, predictions: Labels | None, names: Sequence[str] | None, count: int | None
) -> tuple[Labels, Labels | None, tuple[str, ...]]:
    """Check the number of classes against the names; without names the indices are the names."""
    assert targets is not None
    largest = max((int(labels.max(initial=-1)) for labels in (targets, predictions) if labels is not None), default=-1)
    n_classes = max(largest + 1, count or 0)
    if count is not None and largest >= count:
        raise SetupError(f"targets go up to {largest}; expected less than {count}, as scores have. Check the labels.")
    if names is not None and (len(names) < n_classes or count not in (None, len(names))):
        raise SetupError(f"class_names has {len(names)} names; expected {n_classes}. Pass one name per class.")
    if names is not None and len(set(names)) < len(names):
        raise SetupError("class_names has duplicates; expected unique names. Number them.")
    return targets, predictions, tuple(names) if names is not None else tuple(map(str, range(n_classes)))


def resolve_names(option: str, names: Sequence[Any] | None, count: int, item: str = "class") -> tuple[str, ...]:
    """Return one name per class, label or output, by default the indices; raise SetupError for another number."""
    if names is not None and len(names) != count:
        raise SetupError(f"{option} has {len(names)} names; expected {count}. Pass one name per {item}.")
    return tuple(map(str, range(count) if names is None else names))


def to_array(values: Any) -> NDArray[Any]:
    """Return numbers as an array; accepts tensors on any device and in bfloat16."""
    if hasattr(values, "detach"):
        tensor = values.detach().cpu()
        return np.asarray(tensor.float().numpy() if str(tensor.dtype) == "torch.bfloat16" else tensor.numpy())
    return np.asarray(values)


def parse_index(index: Any, rows: int) -> NDArray[np.int64] | None:
    """Return dataset indices, one per row; raise SetupError for another number of them."""
    if index is None:
        return None
    indices = np.asarray(to_array(index), np.int64)
    check_length("index", len(indices), rows)
    return indices
