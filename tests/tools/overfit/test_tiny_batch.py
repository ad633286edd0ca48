"""Tests of the tiny batch that the overfit test trains on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.tools.overfit import overfit
from nbdebug.tools.overfit.tiny_batch import first_tiny_pass


def test_first_tiny_pass_selects_examples_of_several_classes() -> None:
    x, _ = points()
    y = torch.arange(64) // 32
    tiny_pass = first_tiny_pass(minimal_setup(network(2), x, y, nn.CrossEntropyLoss()), 8)
    assert tiny_pass.batch.target.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert tiny_pass.batch.indices == (0, 1, 2, 3, 32, 33, 34, 35)


def test_first_tiny_pass_joins_small_batches() -> None:
    setup = Setup(network(3), DataLoader(TensorDataset(*points()), batch_size=1), loss_fn=nn.CrossEntropyLoss())
    assert first_tiny_pass(setup, 4).size == 4


def test_overfit_of_iterator_leaves_all_batches_to_user() -> None:
    def stream() -> Iterator[Any]:
        yield from DataLoader(TensorDataset(*points()), batch_size=16)

    setup = Setup(network(3), stream(), loss_fn=nn.CrossEntropyLoss())
    assert overfit(setup, examples=8).verdict in ("pass", "cannot tell")
    assert len(list(setup.train_loader)) == 4


def test_overfit_short_loader_uses_all_its_examples() -> None:
    x, y = points()
    result = overfit(minimal_setup(network(3), x[:5], y[:5], nn.CrossEntropyLoss()))
    assert len(result.examples) == 5
    assert any("5 examples, not 16" in reason for reason in result.reasons)


class RecordingModel(nn.Module):
    """A classifier that records, in its class, the inputs of all its copies."""

    inputs: list[Tensor] = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.inner = network(3)

    def forward(self, x: Tensor) -> Tensor:
        RecordingModel.inputs.append(x.clone())
        return self.inner(x)


class AugmentedDataset(TensorDataset):
    """Adds new noise each time a sample is read."""

    def __getitem__(self, index: int) -> Any:
        x, y = super().__getitem__(index)
        return x + 0.1 * torch.randn_like(x), y


def test_overfit_gives_same_examples_to_every_pass() -> None:
    RecordingModel.inputs = []
    loader = DataLoader(AugmentedDataset(*points()), batch_size=16, shuffle=True)
    model = RecordingModel()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    assert overfit(Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,))).verdict == "pass"
    assert len(RecordingModel.inputs) > 10
    assert all(torch.equal(x, RecordingModel.inputs[0]) for x in RecordingModel.inputs)
