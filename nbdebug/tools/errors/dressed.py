"""What a task draws on a sample: which pixels are wrong, what each token lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.predictions.segmentation import Segmentation
from nbdebug.predictions.sequences import Sequences

if TYPE_CHECKING:
    from nbdebug.predictions.table import Table

MOST = {False: 40, True: 2_000}  # tokens that are sent
# Red, green, blue and how opaque: of what is wrong, and of what is right and not the first class, the background.
WRONG, RIGHT = (209, 82, 10, 170), (0, 102, 179, 70)


def dressed(table: Table, row: int, shown: dict[str, Any] | None, full: bool) -> dict[str, Any] | None:
    """The card of a row with masks laid over its picture, or with the loss of each token of its text."""
    if shown is None or (not full and not getattr(table, "is_at_hand", True)):
        return shown
    try:
        if isinstance(table, Segmentation) and shown["kind"] == "image":
            return {**shown, "overlay": laid_over(table.overlay(row), full)}
        if isinstance(table, Sequences) and shown["kind"] == "text":
            return {**shown, "tokens": table.tokens(row)[: MOST[full]]}
    except SetupError:
        return shown
    return shown


def laid_over(masks: dict[str, NDArray[np.int16]], full: bool) -> str:
    """A transparent picture of where the mask is wrong, and where it rightly sees something, as a data: address."""
    from nbdebug.samples.encode import LONGEST, address, of_bytes, smaller

    target, prediction = masks["target"], masks["prediction"]
    pixels = np.zeros((*target.shape, 4), np.uint8)
    pixels[(target == prediction) & (target > 0)] = RIGHT
    pixels[(target != prediction) & (target >= 0)] = WRONG
    return address(smaller(of_bytes(pixels), LONGEST[full]))
