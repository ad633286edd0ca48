"""What the rules about predictions share: the table of a classifier, and trained programs to show them on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked

if TYPE_CHECKING:
    from nbdebug.predictions.classes import Predictions
    from nbdebug.tools.errors import Errors


def classified(errors: Errors) -> Predictions:
    """The table of one class a row; raises NotChecked for any other."""
    from nbdebug.predictions.classes import Predictions

    if not isinstance(errors.table, Predictions):
        raise NotChecked(f"the table is of {errors.table.task or 'another task'}, which has no one class for each row")
    return errors.table


def clusters(
    rows: int, centers: list[tuple[float, float]], shares: list[float], seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Points in two dimensions around a center for each class; ``shares`` are how common the classes are."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.multinomial(torch.tensor(shares), rows, replacement=True, generator=generator)
    return torch.tensor(centers)[labels] + torch.randn(rows, 2, generator=generator), labels
