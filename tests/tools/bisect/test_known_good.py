"""Tests of bisection against a known-good model and against known-good data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from tests.preserve.fingerprint import fingerprint


class Block(nn.Module):
    """Two layers with a shortcut."""

    def __init__(self, has_shortcut: bool = True) -> None:
        super().__init__()
        self.first, self.second, self.has_shortcut = nn.Linear(8, 8), nn.Linear(8, 8), has_shortcut

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the block."""
        inner: Tensor = self.second(torch.relu(self.first(x)))
        return x + inner if self.has_shortcut else inner

    def extra_repr(self) -> str:
        """Return the setting in which blocks differ."""
        return f"has_shortcut={self.has_shortcut}"


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(Block() for _ in range(8)), nn.Linear(8, 2))


def data(count: int = 128) -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, 8, generator=generator)
    return TensorDataset(x, (x[:, 0] > 0).long())


@pytest.fixture(scope="module")
def good() -> nn.Sequential:
    model, (x, y) = network(), data().tensors
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(40):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model


def debugger(model: nn.Module, dataset: TensorDataset | None = None) -> Debugger:
    loader = DataLoader(dataset or data(), 32, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)


def other_weights(model: nn.Sequential) -> None:
    """Flip the output of one layer, and shift all weights a little."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1e-4)
        model.get_submodule("5.second").get_parameter("weight").mul_(-40)


def no_shortcut(model: nn.Sequential) -> None:
    block = Block(has_shortcut=False)
    block.load_state_dict(model[6].state_dict())
    model[6] = block


@pytest.mark.parametrize(("spoil", "culprit"), [(other_weights, "5.second"), (no_shortcut, "6")])
def test_module_that_differs_from_a_known_good_model_is_named(good: nn.Sequential, spoil: Any, culprit: str) -> None:
    model = network()
    model.load_state_dict(good.state_dict())
    spoil(model)
    dbg = debugger(model)
    before = fingerprint(model, None, dbg.setup.optimizers[0], None, loaders=[dbg.train_loader])
    weights = {name: tensor.clone() for name, tensor in good.state_dict().items()}
    result = dbg.bisect(reference=good)
    before.check()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in good.state_dict().items())
    assert (result.verdict, result.candidates) == ("located", (culprit,))
    assert len(result.runs) <= 14
    assert f"{culprit} fails inside the known-good model" in result.to_text()
    assert result.plot().get_ylabel() == "modules of your model"


def test_known_good_weights_may_be_a_file(good: nn.Sequential, tmp_path: Path) -> None:
    torch.save({"model": good.state_dict()}, tmp_path / "good.pt")
    model = network()
    model.load_state_dict(good.state_dict())
    other_weights(model)
    assert debugger(model).bisect(reference=tmp_path / "good.pt").candidates == ("5.second",)
    assert debugger(good).bisect(reference=good.state_dict()).verdict == "not reproduced"
    assert debugger(good).bisect(reference=model.state_dict()).verdict == "not reproduced"  # yours is the better one
    few = debugger(model).bisect(reference=good.state_dict(), runs=4)
    assert few.verdict == "undecided"


def test_own_test_of_modules_decides(good: nn.Sequential) -> None:
    model = network()
    model.load_state_dict(good.state_dict())
    with torch.no_grad():
        for path in ("1.first", "3.first"):
            model.get_submodule(path).get_parameter("bias").fill_(9.0)

    def fails(copy: Any) -> bool:
        return all(float(copy.model.get_submodule(path).bias.detach()[0]) == 9 for path in ("1.first", "3.first"))

    result = debugger(model).bisect(reference=good, fails=fails)
    assert result.candidates == ("1", "3")
    assert "1, 3 fail together" in result.headline


def test_samples_that_differ_from_known_good_data_are_named() -> None:
    changed = data()
    changed.tensors[0][17] = 1e6
    changed.tensors[0][40:60] += 0.01
    dbg = debugger(network(), changed)
    before = fingerprint(dbg.setup.model, None, dbg.setup.optimizers[0], None, loaders=[dbg.train_loader])
    result = dbg.bisect(reference=DataLoader(data(), 4), steps=4)
    before.check()
    assert (result.verdict, result.indices) == ("located", (17,))
    assert "with 1 sample among the known-good ones: sample 17" in result.headline
    assert dbg.bisect(reference=changed).verdict == "not reproduced"


def test_references_that_do_not_fit_are_refused(good: nn.Sequential) -> None:
    dbg = debugger(good)
    for reference, message in (
        (nn.Sequential(nn.Linear(3, 8)), "the known-good model"),
        (nn.Identity(), "reference differs in no module"),
        (data(7), "the same number of samples"),
        (3, "the same number of samples"),
    ):
        with pytest.raises(SetupError, match=message):
            dbg.bisect(reference=reference)
