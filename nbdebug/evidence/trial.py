"""What the user's own loss makes of an output or a target that a probe made up."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.setup import Batch, Setup


def loss_on(setup: Setup, output: Any, batch: Batch) -> float:
    """The value of the loss of ``output`` for a batch; raises NotChecked where the loss takes no such output or target.

    A loss may hold a mask of the samples, compare each output with each target, or refuse what is no probability.
    """
    return float(loss_at(setup, output, batch).detach())


def loss_at(setup: Setup, output: Any, batch: Batch) -> Tensor:
    """The same with its graph."""
    try:
        return setup.loss(output, batch)
    except Exception as error:
        raise NotChecked(
            f"the loss does not take an answer that was made up: {type(error).__name__}: {error}"
        ) from None
