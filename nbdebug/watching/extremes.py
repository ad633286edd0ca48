"""The largest values of large tensors, which samples miss: one tensor a look, in turn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from torch import Tensor

from nbdebug.numbers import flat

MOST = 1 << 21  # values that are passed over in one look, for about half a millisecond


class Extremes:
    """Whose turn it is. A full pass over all tensors at each look would cost a small network a tenth of its step."""

    def __init__(self, lengths: Sequence[int], sampled: int) -> None:
        large = [i for i, length in enumerate(lengths) if sampled < length <= MOST]
        self.turns = cycle(large or [None])
        self.number: int | None = None

    def next(self, wanted: bool = True) -> None:
        """A look begins; the next tensor has its turn if it is wanted."""
        self.number = next(self.turns) if wanted else None


def largest(tensor: Tensor) -> Tensor:
    """The largest absolute value of a tensor, on its device; NaN where it holds one."""
    low, high = flat(tensor).aminmax()
    return high.maximum(-low).float()
