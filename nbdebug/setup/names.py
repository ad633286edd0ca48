"""The names that the user gave to classes and features: those of a class, and whether there are as many as needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.setup import losses
from nbdebug.setup.batch import Batch
from nbdebug.setup.training import Setup


def check(setup: Setup, batch: Batch, output: Any) -> None:
    """Raises SetupError when there are more or fewer names than classes, or than columns of a table."""
    scores, inputs = losses.scores(output), batch.inputs
    if losses.named(setup.loss_fn) in ("cross-entropy", "nll") and isinstance(scores, Tensor) and scores.dim() > 1:
        check_count("class_names", setup.class_names, scores.shape[1], "outputs of the model")
    if isinstance(inputs, Tensor) and inputs.dim() == 2 and inputs.is_floating_point():
        check_count("feature_names", setup.feature_names, inputs.shape[1], "columns of the input")


def check_count(what: str, names: list[str] | None, wanted: int, things: str) -> None:
    """Refuses a list of another length."""
    if names is not None and len(names) != wanted:
        count = f"{len(names)} name{'s' if len(names) != 1 else ''}"
        raise SetupError(f"{what} has {count}; expected {wanted}, one for each of the {things}. Give them in order.")


def class_name(names: Sequence[str] | None, number: int) -> str:
    """The name of a class, else a word with its number."""
    return names[number] if names and 0 <= number < len(names) else f"class {number}"
