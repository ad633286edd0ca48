"""The hashes of the tensors of a training step, and the first tensor in which two runs differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nbdebug.source.location import SourceLine

Phase = Literal["data", "forward", "backward", "update"]
PHASES: tuple[Phase, ...] = ("data", "forward", "backward", "update")


@dataclass(frozen=True)
class TensorHash:
    """The hash of one tensor of a step; ``operation``, ``module`` and ``line`` say what computed it, if known."""

    phase: Phase
    name: str
    digest: int
    operation: str = ""
    module: str = ""
    line: SourceLine | None = None
    shape: tuple[int, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """What must be equal for two hashes to be of the same tensor."""
        return self.phase, self.name, self.operation, self.module


StepRecord = tuple[TensorHash, ...]


@dataclass(frozen=True)
class Difference:
    """The first tensor in which two runs differ: its step, counted from 0, and its hash in the second run.

    ``is_other_call`` is True if the runs did not even make the same calls up to there.
    """

    step: int
    tensor: TensorHash
    is_other_call: bool = False

    @property
    def phase(self) -> Phase:
        """The phase of the step."""
        return self.tensor.phase


def difference_in_step(step: int, first: StepRecord, second: StepRecord) -> Difference | None:
    """Return the first difference between the records of one step of two runs; None if they are equal."""
    for one, other in zip(first, second, strict=False):
        if one.key != other.key:
            return Difference(step, other, is_other_call=True)
        if one.digest != other.digest:
            return Difference(step, other)
    if len(first) != len(second):
        longer = first if len(first) > len(second) else second
        return Difference(step, longer[min(len(first), len(second))], is_other_call=True)
    return None
