"""Rows go through the model in chunks, which shrink when memory runs out."""

from __future__ import annotations

from collections.abc import Callable

import torch

from nbdebug.exceptions import SetupError

VALUES = 2**16  # numbers of the input in a chunk: about what a cache holds once a small network has widened them
WORDS = ("out of memory", "can't allocate memory", "not enough memory")


class Chunks:
    """How many rows are run at once."""

    def __init__(self, values: int, device: torch.device, rows: int | None = None) -> None:
        """``values`` are the numbers in one row; on an accelerator chunks are 32 times larger."""
        most = VALUES * (1 if device.type == "cpu" else 32)
        self.rows = rows or max(64, min(most // max(values, 1), 4096))

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
                self.shrink(error)
                continue
            start = stop

    def shrink(self, error: BaseException) -> None:
        """Half the rows, or the refusal where there is one only."""
        if self.rows == 1:
            raise SetupError(
                f"one sample at a time is more than memory holds ({str(error).splitlines()[0][:120]}); expected room "
                f"for one forward and backward pass. Use method='gradcam' or method='occlusion', or free some memory."
            ) from error
        self.rows = max(1, self.rows // 2)
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.empty_cache()


def ran_out(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on any device."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return any(word in str(error).lower() for word in WORDS)
