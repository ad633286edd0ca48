"""What is compared: each feature or token by itself, pictures and series by patches, all channels together.

A single pixel decides nothing, and engines with a resolution of their own (Grad-CAM, occlusion) say nothing of it. The
patches are those of occlusion, an eighth of the longest side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nbdebug.attribution.parts import Part
from nbdebug.attribution.pieces import pieces_of
from nbdebug.attribution.prepare import plain_parts
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.result import Array, Attribution
from nbdebug.exceptions import SetupError


@dataclass(frozen=True)
class Cells:
    """The cell of each number of a sample, over all inputs in a row; ``parts`` are these inputs."""

    parts: list[Part]
    of: Array
    count: int

    def summed(self, found: Attribution) -> Array:
        """The sum of the attributions in each cell, samples × cells; raises SetupError for those of other inputs."""
        values = [found.values.get(part.name, np.zeros(tuple(part.values.shape))) for part in self.parts]
        flat = np.concatenate([one.reshape(len(one), -1) for one in values], 1)
        if flat.shape[1] != len(self.of):
            raise SetupError(f"{found.method} gives {flat.shape[1]} numbers a sample; expected {len(self.of)}.")
        return np.stack([np.bincount(self.of, one, self.count) for one in flat])

    def masks(self, gone: Tensor) -> Iterator[tuple[Part, Tensor]]:
        """For each part which of its numbers belong to the cells that are ``gone``, samples × cells."""
        wide, column = gone[:, torch.from_numpy(self.of)], 0
        for part in self.parts:
            numbers = int(np.prod(part.shape))
            yield part, wide[:, column : column + numbers].reshape(-1, *part.shape).to(part.values.device)
            column += numbers


def cells_of(problem: Problem, found: Attribution) -> Cells:
    """The cells of the inputs that an attribution is of."""
    parts = [part for part in plain_parts(problem) if part.name in found.values]
    pieces, count = pieces_of(parts)
    return Cells(parts, torch.cat([one.flatten() for one in pieces]).numpy(), count)
