"""Tests of the batch-size finder: suggestion, Stop and errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.rules.examples import classifier, network, points
from nbdebug.setup import Setup
from nbdebug.tools.batch_size import NoiseScale, SizeMeasurement, batch_size
from nbdebug.tools.batch_size.tool import BatchSizeFinder, suggest_size
from tests.tools.batch_size.wide_network import wide_network_setup
from tests.tools.stopping_screens import StopAfterChecks


def measured_size(size: int, seconds: float, memory: int = 2**20) -> SizeMeasurement:
    """A measurement whose steps all took the same time."""
    return SizeMeasurement(size, memory, seconds, seconds, seconds, 5)


def test_suggest_size_is_smallest_size_of_nearly_best_throughput() -> None:
    seconds = {8: 0.010, 16: 0.011, 32: 0.012, 64: 0.023, 128: 0.046}
    sizes = [measured_size(size, step_seconds) for size, step_seconds in seconds.items()]
    size_suggestion = suggest_size(sizes, "data", None, None, 8, NoiseScale(why="not asked"))
    assert size_suggestion.suggestion == 32
    assert any("hardly grows" in reason for reason in size_suggestion.reasons)
    assert any("Your current batch size is 8" in reason for reason in size_suggestion.reasons)


def test_suggest_size_is_none_if_larger_sizes_may_be_faster() -> None:
    sizes = [measured_size(8, 0.010), measured_size(16, 0.011), measured_size(32, 0.012)]
    assert suggest_size(sizes, "time", None, None, None, NoiseScale()).suggestion is None
    assert suggest_size(sizes, "data", None, None, None, NoiseScale()).suggestion == 32
    with_slower_size = [*sizes, measured_size(64, 0.030)]
    assert suggest_size(with_slower_size, "time", None, None, None, NoiseScale()).suggestion == 32


def test_suggest_size_leaves_margin_of_memory() -> None:
    sizes = [measured_size(8, 1.0, 10), measured_size(16, 1.0, 20), measured_size(32, 1.0, 98)]
    assert suggest_size(sizes, "memory", 64, 100, None, NoiseScale()).suggestion == 16


@pytest.mark.parametrize("checks", [0, 5, 40])
def test_batch_size_finder_stopped_keeps_measured_sizes(checks: int) -> None:
    finder = BatchSizeFinder(wide_network_setup(), 8, None, 20.0, True)
    finder.run(StopAfterChecks(checks))
    result = finder.result()
    assert result.ended == "stopped"
    assert 1 <= len(result.sizes) < 6
    assert "you stopped the search" in str(result)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 0}, "start is 0; expected a whole number of at least 1"),
        ({"start": True}, "start is True"),
        ({"most": 4}, "most is 4; expected a whole number of at least 8"),
        ({"seconds": 0}, "seconds is 0; expected a number above 0"),
    ],
)
def test_batch_size_invalid_option_raises_setup_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        Debugger.of(classifier()).batch_size(**options)


def test_batch_size_batch_that_cannot_be_split_raises_setup_error() -> None:
    setup = Setup(network(3), [(torch.randn(6, 4), torch.zeros(5, dtype=torch.long))], loss_fn=nn.CrossEntropyLoss())
    with pytest.raises(SetupError, match="cannot be split into samples"):
        batch_size(setup)


def test_batch_size_model_of_fixed_batch_size_error_names_size() -> None:
    class ModelOfBatchSize16(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network(3)

        def forward(self, x: Tensor) -> Tensor:
            output: Tensor = self.inner(x.view(16, 4))
            return output

    with pytest.raises(SetupError, match=r"RuntimeError on a batch of 8: .*expected a loss"):
        batch_size(Setup(ModelOfBatchSize16(), DataLoader(TensorDataset(*points()), 16), loss_fn=nn.CrossEntropyLoss()))
