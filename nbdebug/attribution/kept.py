"""How much of a forward pass is kept for its gradient, from which the size of a chunk follows."""

from __future__ import annotations

import torch
from torch import Tensor

from nbdebug.attribution.chunks import ran_out
from nbdebug.attribution.problem import Problem

ROWS = 2  # that are run to count: one alone is what some models squeeze away


def kept(problem: Problem) -> int:
    """The numbers that one row keeps for its gradient by the parts, each once; one forward pass of two rows.

    Where memory has no room for them, what was counted until then.
    """
    mine = {one.untyped_storage().data_ptr() for one in problem.module.parameters()}
    sizes: dict[int, int] = {}

    def pack(one: Tensor) -> Tensor:
        place = one.untyped_storage().data_ptr()
        if place not in mine:
            sizes[place] = max(sizes.get(place, 0), one.numel())
        return one

    owners = torch.zeros(ROWS, dtype=torch.long, device=problem.home)
    points = [part.values.index_select(0, owners).requires_grad_() for part in problem.parts]
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one):
            problem.at(points, owners)
    except (RuntimeError, MemoryError) as error:
        if not ran_out(error):
            raise
    return sum(sizes.values()) // ROWS
