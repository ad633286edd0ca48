"""Class and feature names given by the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.setup import losses
from nbdebug.setup.batch import Batch
from nbdebug.setup.setup import Setup


def check_names(setup: Setup, batch: Batch, output: Any) -> None:
    """Raise SetupError if the number of names differs from the number of classes or of table columns."""
    scores, inputs = losses.score_tensor(output), batch.inputs
    if (
        losses.get_loss_kind(setup.loss_fn) in ("cross-entropy", "nll")
        and isinstance(scores, Tensor)
        and scores.dim() > 1
    ):
        check_count("class_names", setup.class_names, scores.shape[1], "outputs of the model")
    if isinstance(inputs, Tensor) and inputs.dim() == 2 and inputs.is_floating_point():
        check_count("feature_names", setup.feature_names, inputs.shape[1], "columns of the input")


def check_count(argument: str, names: list[str] | None, expected_count: int, described_items: str) -> None:
    """Raise SetupError if the number of names is not ``expected_count``."""
    if names is not None and len(names) != expected_count:
        count = f"{len(names)} name{'s' if len(names) != 1 else ''}"
        raise SetupError(
            f"{argument} has {count}; expected {expected_count}, one for each of the {described_items}. "
            "Give them in order."
        )


def class_name(names: Sequence[str] | None, class_index: int) -> str:
    """Return the name of a class; "class" with its number if it has none."""
    return names[class_index] if names and 0 <= class_index < len(names) else f"class {class_index}"
