"""Tests of Preserve on changed, scripted and compiled modules."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune

from nbdebug.preserve import Preserve
from tests.preserve.fingerprint import fingerprint


@pytest.mark.parametrize(
    "change",
    [
        lambda m: parametrizations.weight_norm(m),
        lambda m: parametrize.register_parametrization(m, "weight", nn.Tanh()),
        lambda m: prune.random_unstructured(m, "weight", 0.5),
        lambda m: m.share_memory(),
        lambda m: m.load_state_dict({name: value + 1 for name, value in m.state_dict().items()}, assign=True),
        lambda m: delattr(m, "weight"),
        lambda m: m.register_buffer("more", torch.ones(1)),
        lambda m: m.add_module("more", nn.ReLU()),
        lambda m: m.weight.data.resize_(50),
        lambda m: setattr(m, "__class__", nn.Identity),
    ],
    ids=[
        "weight norm",
        "parametrized",
        "pruned",
        "shared",
        "assigned",
        "deleted",
        "buffer",
        "module",
        "resized",
        "class",
    ],
)
def test_block_undoes_module_surgery(change: Any) -> None:
    model = nn.Linear(2, 3)
    memory, before = model.weight.data_ptr(), fingerprint(model)
    with Preserve(model):
        change(model)
    if memory == model.weight.data_ptr():
        before.check()  # share_memory moves the storage, so that only values can be compared
    assert type(model) is nn.Linear
    assert list(model.state_dict()) == ["weight", "bias"]
    model(torch.ones(1, 2)).sum().backward()


class CountingModule(nn.Module):
    """Counts its calls in TorchScript."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.norm, self.last = 0, nn.BatchNorm1d(2), torch.zeros(1)

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        self.last = inputs.sum()
        return self.norm(inputs)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_block_restores_scripted_module() -> None:
    model = torch.jit.script(CountingModule())
    before = fingerprint(model)
    with Preserve(model):
        model(torch.randn(4, 2)).sum().backward()
        model.eval()
        model.norm.weight.data.zero_()
        assert before.differences()
    before.check()
    assert model.calls == 0
    assert model.last.item() == 0


def test_block_restores_compiled_module() -> None:
    eager_model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model = torch.compile(eager_model, backend="eager")
    before = fingerprint(eager_model)
    with Preserve(model):
        model(torch.randn(4, 2)).sum().backward()
        eager_model[0].weight.data.zero_()
        assert before.differences()
    before.check()
    model(torch.randn(4, 2))
