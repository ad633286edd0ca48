"""Finding of a model whose output rows come back in another order than its samples."""

from __future__ import annotations

from nbdebug.finding import Finding
from nbdebug.measurements.row_order import ReorderedRows

_CONSEQUENCES = ("T601", "T606", "T607", "T608", "T609", "T610", "E702", "E703", "E706", "E709", "D105", "M306", "M310")


def reordered_rows_finding(rows: ReorderedRows) -> Finding:
    """Report output rows that belong to other samples than the targets they meet; a note if no loss is known."""
    return Finding(
        message=f"Row {rows.row} of the output belongs to sample {rows.sample} of the batch. The model returns the "
        f"outputs of {rows.displaced} of {rows.checked} checked samples in the row of another sample.",
        where=rows.where,
        cause="The model changes the order of its samples and does not restore it."
        + (" The loss compares each output with the target of another sample." if rows.is_loss_changed else ""),
        fix="output = output[order.argsort()]   # if x[order] has changed the order of the samples",
        evidence={"sample": rows.sample, "row": rows.row, "displaced": rows.displaced, "checked": rows.checked},
        explains=_CONSEQUENCES,
        severity="error" if rows.is_loss_changed else "note",
    )
