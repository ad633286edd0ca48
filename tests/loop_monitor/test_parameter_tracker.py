"""Tests of what counts as a change of a parameter."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nbdebug.loop_monitor.parameter_updates import ParameterTracker


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("size", [2, 3, 8, 11])
def test_exchanged_values_of_a_parameter_are_a_change(size: int, dtype: torch.dtype) -> None:
    model = nn.Module()
    model.bias = nn.Parameter(torch.arange(1, size + 1).to(dtype))
    tracker = ParameterTracker(model)
    tracker.check_values()
    assert tracker.changed == set()
    with torch.no_grad():
        model.bias[[-2, -1]] = model.bias[[-1, -2]]
    tracker.check_values()
    assert tracker.changed == {"bias"}
