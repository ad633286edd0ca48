"""Search for equal values, equal rows and non-finite values in large tables, and how often rows occur."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio; Knuth, The Art of Computer Programming, 6.4
_TABLE_BITS = 16
_MAX_HASHED_BYTES = 1024
_SIGNED_ZEROS = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_MIN_GROUPS, _GROUP_SLACK, _MIN_REGULARITY = 20, 5, 4.0  # of distinct rows that occur equally often
_ROWS_PER_BLOCK = 16_384  # so that a block stays in the cache while its words are read


class SearchableColumn:
    """A column in which values are searched, most of the time of which it spends once, on the hashes of its elements.

    A table of hashes leaves few elements to compare, so this reads a long column about five times as fast as
    ``torch.isin``.
    """

    def __init__(self, column: Tensor) -> None:
        self.values, self._hashes = column, _hash_values(column)

    def find_rows(self, values: Tensor) -> Tensor:
        """Return the positions of the elements that are among the ``values``, in order."""
        table = np.zeros(2**_TABLE_BITS, dtype=bool)
        table[_hash_values(values)] = True
        candidates = torch.from_numpy(table[self._hashes].nonzero()[0])
        return candidates[torch.isin(self.values[candidates], values)]


def find_rows_with_values(column: Tensor, values: Tensor) -> Tensor:
    """Return the positions of the elements of ``column`` that are among the ``values``, in order."""
    return SearchableColumn(column).find_rows(values)


def _hash_values(values: Tensor) -> np.ndarray:
    """Return a number of 16 bits for each value; 0.0 and -0.0 have the same."""
    values = values + 0
    integers = values.contiguous().view(_INTEGERS[values.element_size()]).numpy()
    words = integers.astype(np.uint32) if integers.itemsize < 4 else integers.view(f"u{integers.itemsize}")
    bits = 8 * words.itemsize
    hashes: np.ndarray = words * words.dtype.type(_MULTIPLIER >> (64 - bits))
    return hashes >> words.dtype.type(bits - _TABLE_BITS)


def to_columns(parts: Sequence[Tensor]) -> Tensor:
    """Return the columns of tables on top of each other, each contiguous in memory.

    Copies block by block, which takes a quarter of the time of copying the transposed table at once.
    """
    columns = parts[0].new_empty((parts[0].shape[1], sum(map(len, parts))))
    start = 0
    for part in parts:
        for block in torch.split(part, _ROWS_PER_BLOCK):
            columns[:, start : start + len(block)] = block.t()
            start += len(block)
    return columns


def is_finite(tensor: Tensor) -> bool:
    """Return whether all values are finite, without the copies of the data that ``isfinite`` makes."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    return bool(torch.stack(torch.aminmax(tensor.detach())).isfinite().all())


def get_row_keys(parts: Sequence[Tensor]) -> list[Hashable]:
    """Return a key for each row, equal for rows that are bitwise equal in all ``parts``, and 0.0 equals -0.0.

    The keys of narrow rows are hashes of 64 bits: a million different rows have two equal keys with a probability of
    3e-8. The keys of wide rows are their bytes.
    """
    filled = [part for part in parts if part.numel()]
    narrow = [part for part in filled if _is_narrow(part)]
    columns: list[list[Hashable]] = [[*_hash_rows(narrow).tolist()]] if narrow else []
    columns += [[*_iterate_row_bytes(part)] for part in filled if not _is_narrow(part)]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def get_row_hashes(parts: Sequence[Tensor]) -> NDArray[np.int64]:
    """Return a hash of 64 bits for each row, equal for rows with equal keys of ``get_row_keys``."""
    filled = [part for part in parts if part.numel()]
    if filled and all(map(_is_narrow, filled)):
        return _hash_rows(filled).view(np.int64)
    return np.array([hash(key) for key in get_row_keys(parts)], np.int64)


def _is_narrow(part: Tensor) -> bool:
    """Return whether the rows are short enough to be hashed."""
    return part[0].numel() * part.element_size() <= _MAX_HASHED_BYTES


def _get_row_bytes(part: Tensor) -> np.ndarray:
    """Return the bytes of each row; those of 0.0 for -0.0, which a product with a negative number leaves."""
    part = part + 0 if part.dtype in _SIGNED_ZEROS else part
    bytes_by_row: np.ndarray = part.reshape(len(part), -1).contiguous().view(torch.uint8).numpy()
    return bytes_by_row


def _iterate_row_bytes(part: Tensor) -> Iterator[bytes]:
    """Yield the bytes of each row, without a copy of all rows."""
    for block in torch.split(part, _ROWS_PER_BLOCK):
        rows = _get_row_bytes(block)
        yield from rows.view(f"V{rows.shape[1]}")[:, 0].tolist()


def _hash_rows(parts: Sequence[Tensor]) -> NDArray[np.uint64]:
    """Return a hash of 64 bits for each row of bytes: each word is mixed into the hash of the words before it."""
    hashes = np.zeros(len(parts[0]), dtype=np.uint64)
    multiplier, half = np.uint64(_MULTIPLIER), np.uint64(32)
    for part in parts:
        for start in range(0, len(part), _ROWS_PER_BLOCK):
            block = _get_row_bytes(part[start : start + _ROWS_PER_BLOCK])
            own = hashes[start : start + _ROWS_PER_BLOCK]
            if block.shape[1] % 8 or not block.flags.c_contiguous:
                padded = np.zeros((len(block), -(-block.shape[1] // 8) * 8), dtype=np.uint8)
                padded[:, : block.shape[1]] = block
                block = padded
            for word in block.view(np.uint64).T:
                own ^= word
                own *= multiplier
                own ^= own >> half
    return hashes


def occur_equally_often(row_keys: Sequence[Hashable]) -> bool:
    """Return whether many rows occur as often as each other, such as twice, too regularly for independent draws.

    Let G(k) be the number of distinct rows that occur k times. If rows are drawn independently, whatever their
    probabilities are, k! G(k) is about the k-th moment of a measure. By the inequality of Cauchy and Schwarz,
    G(k - 1) G(k + 1) is then at least k / (k + 1) G(k)^2. It must be four times smaller, with five more groups each.
    """
    groups = Counter(Counter(row_keys).values())
    return any(
        count >= _MIN_GROUPS
        and size > 1
        and _MIN_REGULARITY * (groups[size - 1] + _GROUP_SLACK) * (groups[size + 1] + _GROUP_SLACK)
        < size / (size + 1) * count**2
        for size, count in [*groups.items()]
    )
