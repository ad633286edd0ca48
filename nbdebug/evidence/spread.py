"""How much the outputs of different samples differ."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.evidence.answers import Answers
from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.mixing import is_batch_first, is_of_samples
from nbdebug.evidence.zeros import filled
from nbdebug.exceptions import NotChecked


@dataclass(frozen=True)
class Spread:
    """The largest difference between two samples in any one output, and the largest output there is.

    ``beyond_zeros`` is that difference with small random numbers in the parameters that are zero throughout.
    """

    outputs: float
    beyond_zeros: float
    scale: float
    samples: int
    noise: float

    @property
    def is_none(self) -> bool:
        """Whether all samples are answered alike, whatever stands in layers that start at zero."""
        return max(self.outputs, self.beyond_zeros) <= self.noise


@measurement
def spread(answers: Answers) -> Spread:
    """How far the outputs of the samples of the first batch lie apart, in eval mode."""
    batch, output, size = answers.batch, answers.first[0], answers.batch.size
    if size < 2 or not is_of_samples(output, size) or not is_batch_first(batch, size):
        raise NotChecked("the output has no row that is known to be that of one of several samples")
    inputs = [t for t in answers.inputs.values() if is_of_samples(t, size)]
    if not any(bool((t != t[:1]).any()) for t in inputs):
        raise NotChecked("the samples of the first batch are all the same")
    apart = beyond = width(output)
    if apart <= answers.noise:
        with filled(answers.setup.eager):
            beyond = width(answers.to(batch)[0])
    return Spread(apart, beyond, float(output.abs().max()), size, answers.noise)


def width(output: Tensor) -> float:
    """The largest distance between two rows in one of their values."""
    low, high = torch.aminmax(output, dim=0)
    return float((high - low).max())
