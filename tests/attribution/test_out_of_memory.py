"""Tests of attribute() where memory runs out: smaller chunks with the same result."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nbdebug.attribution import attribute
from nbdebug.exceptions import SetupError
from tests.attribution.networks import BACKGROUND, X


class MemoryLimitedModel(nn.Module):
    """Raises the error for more rows than its limit."""

    def __init__(self, max_rows: int, error: BaseException) -> None:
        super().__init__()
        self.body, self.max_rows, self.error = nn.Linear(4, 3), max_rows, error

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > self.max_rows:
            raise self.error
        return self.body(x)


MEMORY_ERRORS = {
    "GPU": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB"),
    "CPU": RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
    "Python": MemoryError(),
}


@pytest.mark.parametrize("device", MEMORY_ERRORS)
def test_out_of_memory_shrinks_chunks_and_keeps_result(device: str) -> None:
    model, unlimited = MemoryLimitedModel(3, MEMORY_ERRORS[device]), MemoryLimitedModel(10_000, MEMORY_ERRORS[device])
    unlimited.load_state_dict(model.state_dict())
    for method in ("expected_gradients", "expected_gradients_fast", "occlusion", "saliency"):
        expected = attribute(unlimited, X, 1, method, BACKGROUND).array
        assert attribute(model, X, 1, method, BACKGROUND).array == pytest.approx(expected, abs=1e-5), method


@pytest.mark.parametrize("device", MEMORY_ERRORS)
def test_out_of_memory_for_single_sample_raises_setup_error(device: str) -> None:
    with pytest.raises(SetupError, match="a single sample does not fit into memory"):
        attribute(MemoryLimitedModel(0, MEMORY_ERRORS[device]), X, background=BACKGROUND)
