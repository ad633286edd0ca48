"""Run rows through the model in chunks that shrink when memory runs out."""

from __future__ import annotations

from collections.abc import Callable

import torch

from nbdebug.exceptions import SetupError, first_line

_SAVED_VALUES_PER_CHUNK = 2**21  # values that a chunk saves for its gradient; fastest on a CPU
SAVED_PER_INPUT_VALUE = 32  # assumed number of saved values per input value, if they were not counted
_CHUNK_ROWS_RANGE = (8, 8192)
_OUT_OF_MEMORY_MESSAGES = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")


class ChunkRunner:
    """Runs a function over rows in chunks."""

    def __init__(
        self, saved_per_row: int, device: torch.device, rows: int | None = None, row_limits: list[int] | None = None
    ) -> None:
        """Choose the chunk size; accelerators get 32 times larger chunks.

        ``saved_per_row`` is the number of values that one row saves. Row limits found when memory runs out are appended
        to ``row_limits``; the limits already in it are respected.
        """
        saved_per_chunk = _SAVED_VALUES_PER_CHUNK * (1 if device.type == "cpu" else 32)
        self.row_limits = [] if row_limits is None else row_limits
        self.rows = min(
            [
                rows or max(_CHUNK_ROWS_RANGE[0], min(saved_per_chunk // max(saved_per_row, 1), _CHUNK_ROWS_RANGE[1])),
                *self.row_limits,
            ]
        )

    def run(self, count: int, work: Callable[[int, int], None], rows_per_item: int = 1) -> None:
        """Call ``work(start, stop)`` over ranges of items; retry with fewer rows when memory runs out.

        Each item takes ``rows_per_item`` rows.

        Raises SetupError if there is not enough memory for one row.
        """
        start = 0
        while start < count:
            stop = min(count, start + max(1, self.rows // rows_per_item))
            try:
                work(start, stop)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                self._shrink(min(self.rows, (stop - start) * rows_per_item), error)
            else:
                start = stop
                continue
            _empty_cache()

    def _shrink(self, rows: int, error: BaseException) -> None:
        """Halve the rows, or raise SetupError if it was a single row."""
        if rows == 1:
            raise out_of_memory_error(error) from error
        self.rows = rows // 2
        self.row_limits.append(self.rows)


def out_of_memory_error(error: BaseException) -> SetupError:
    """Return the error for a single row that does not fit into memory."""
    return SetupError(
        f"a single sample does not fit into memory ({first_line(error)}); expected enough for one forward and backward "
        "pass. Use method='occlusion', which needs no backward pass, use smaller inputs, or free memory."
    )


def _empty_cache() -> None:
    """Release cached accelerator memory; call it after the error that holds references is gone."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Check for an out-of-memory error of any device."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return any(message in str(error).lower() for message in _OUT_OF_MEMORY_MESSAGES)
