"""Where memory runs out, less is run at a time, and the result is the same."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nbdebug.attribution import attribute
from nbdebug.exceptions import SetupError

X, B = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), torch.randn(9, 4)


class Small(nn.Module):
    """Has room for so many rows only."""

    def __init__(self, room: int, error: BaseException) -> None:
        super().__init__()
        self.body, self.room, self.error = nn.Linear(4, 3), room, error

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > self.room:
            raise self.error
        return self.body(x)


SPENT = {
    "GPU": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB"),
    "CPU": RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
    "Python": MemoryError(),
}


@pytest.mark.parametrize("where", SPENT)
def test_out_of_memory_takes_smaller_chunks_and_gives_the_same(where: str) -> None:
    model, wide = Small(3, SPENT[where]), Small(10_000, SPENT[where])
    wide.load_state_dict(model.state_dict())
    for method in ("expected_gradients", "expected_gradients_fast", "occlusion", "saliency"):
        found, wanted = (attribute(one, X, 1, method, B).array for one in (model, wide))
        assert found == pytest.approx(wanted, abs=1e-5), method


@pytest.mark.parametrize("where", SPENT)
def test_out_of_memory_at_one_sample_is_said(where: str) -> None:
    with pytest.raises(SetupError, match="a single sample does not fit into memory"):
        attribute(Small(0, SPENT[where]), X, background=B)
