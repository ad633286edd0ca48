"""The finding of L214 on whole numbers of the samples that the loss reads as row numbers of the batch."""

from __future__ import annotations

from collections.abc import Sequence

from nbdebug.finding import Finding
from nbdebug.measurements.fixed_positions import FixedPositions
from nbdebug.rules.unlearned_classes import CONSEQUENCES
from nbdebug.source.location import get_location

_MAX_LISTED = 5


def fixed_positions_finding(fixed: FixedPositions) -> Finding:
    """Report rows of a batch that influence the loss whichever samples are there."""
    is_part = len(fixed.columns) < fixed.column_count
    columns = f" in {len(fixed.columns)} of {fixed.column_count} columns" if is_part else ""
    is_flag = set(fixed.numbers) <= {0, 1}
    return Finding(
        message=f"Only {_rows(fixed.positions)} of the {fixed.rows} rows of the output have an influence on the "
        f"loss{columns}. In {fixed.orders} other orders of the samples, the gradient stays in the same rows.",
        where=get_location(fixed.line),
        cause=f"The loss selects rows by {fixed.length} integers with the values {_listed(fixed.numbers)}. Integers "
        "are row numbers: they select the same rows again and again. Only booleans are a mask.",
        fix="selected = output[mask.bool()]   # booleans select the rows where the mask is True"
        if is_flag
        else "selected = output[torch.arange(len(output)), labels]   # one value of each row, by its own label",
        evidence={
            "rows with influence": list(fixed.positions[:16]),
            "batch size": fixed.rows,
            "columns": list(fixed.columns[:16]),
            "row numbers": list(fixed.numbers[:16]),
        },
        explains=CONSEQUENCES,
    )


def _rows(positions: Sequence[int]) -> str:
    return f"row {positions[0]}" if len(positions) == 1 else f"rows {_listed(positions)}"


def _listed(numbers: Sequence[int]) -> str:
    """Return numbers as text, such as ``0, 1 and 2``."""
    texts = [str(number) for number in numbers[:_MAX_LISTED]]
    if len(numbers) > _MAX_LISTED:
        return f"{', '.join(texts)}, ..."
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else texts[0]
