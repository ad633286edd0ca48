"""Rows go through the model in chunks, which shrink when memory runs out."""

from __future__ import annotations

from collections.abc import Callable

import torch

from nbdebug.exceptions import SetupError, first_line

KEPT = 2**21  # numbers that a chunk keeps for its gradient: what runs fastest on a CPU
WIDER = 32  # how many times wider than its input a model is taken to be where nothing was counted
ROWS = (8, 8192)
WORDS = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")


class Chunks:
    """How many rows are run at once."""

    def __init__(self, kept: int, device: torch.device, rows: int | None = None, room: list[int] | None = None) -> None:
        """``kept`` are the numbers that one row keeps; on an accelerator chunks are 32 times larger.

        ``room`` gets what memory had room for where it ran out, and what is in it is not exceeded.
        """
        most = KEPT * (1 if device.type == "cpu" else 32)
        self.room = [] if room is None else room
        self.rows = min([rows or max(ROWS[0], min(most // max(kept, 1), ROWS[1])), *self.room])

    def over(self, count: int, work: Callable[[int, int], None], each: int = 1) -> None:
        """Call ``work(start, stop)`` over so many items of ``each`` rows; again with fewer where memory ran out.

        Raises SetupError where there is not enough for one row.
        """
        start = 0
        while start < count:
            stop = min(count, start + max(1, self.rows // each))
            try:
                work(start, stop)
            except (RuntimeError, MemoryError) as error:
                if not ran_out(error):
                    raise
                self.shrink(min(self.rows, (stop - start) * each), error)
            else:
                start = stop
                continue
            free()

    def shrink(self, rows: int, error: BaseException) -> None:
        """Half of the rows that were too many, or the refusal where it was one."""
        if rows == 1:
            raise no_room(error) from error
        self.rows = rows // 2
        self.room.append(self.rows)


def no_room(error: BaseException) -> SetupError:
    """The refusal where one row is more than memory holds."""
    return SetupError(
        f"one sample at a time is more than memory holds ({first_line(error)}); expected room for one forward and "
        "backward pass. Use method='occlusion', which needs no backward pass, smaller inputs, or free some memory."
    )


def free() -> None:
    """Gives back what an accelerator holds in reserve, once the error that held the rest is gone."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()


def ran_out(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on any device."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return any(word in str(error).lower() for word in WORDS)
