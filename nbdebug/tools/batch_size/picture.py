"""The view of a batch-size search, while it runs and when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbdebug.tools.batch_size.result import Size, binary

if TYPE_CHECKING:
    from nbdebug.tools.batch_size.result import BatchSize
    from nbdebug.views.batch_size import BatchSizeView, Row


def view(result: BatchSize, live: bool = False) -> BatchSizeView:
    """The picture of a result; ``live`` for one that more sizes will come to."""
    from nbdebug.views.batch_size import BatchSizeView

    rows = [row(one) for one in result.sizes]
    capacity = f" · {binary(result.capacity)} free for a step" if result.capacity is not None else ""
    cut = " · stopped" if result.stopped else ""
    return BatchSizeView(
        status=f"{result.device}{capacity}{cut}",
        headline="" if live else result.headline,
        reasons=() if live else result.reasons,
        notes=() if live else result.notes,
        rows=rows,
        suggestion=None if live else result.suggestion,
        now=result.now,
        limit=result.capacity if result.device.startswith("cuda") else None,
        code="" if live else result.code,
        stoppable=live,
    )


def row(one: Size) -> Row:
    """One size as the view takes it."""
    from nbdebug.views.batch_size import Row

    rates = (one.throughput, one.size / one.high, one.size / one.low)
    return Row(one.size, one.memory, binary(one.memory), *rates, 1e3 * one.seconds)
