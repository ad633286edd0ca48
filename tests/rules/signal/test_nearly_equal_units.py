"""Tests of G408 for layers whose units start with nearly equal weights, and of what the other rules then say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from tests.source.source_modules import run_program

_X = torch.randn(256, 12, generator=torch.Generator().manual_seed(0))
_Y = (_X[:, 0] > 0).long() + 2 * (_X[:, 2] > 0).long()
_IMAGES = _X[:, :9].reshape(-1, 1, 3, 3)


def _dense(depth: int = 2) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(12, 24), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(24, 24), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(24, 4))


def _convolutional() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 4)
    )


def _initialize(model: nn.Module, draw: Callable[[Tensor], object]) -> nn.Module:
    with torch.no_grad():
        for layer in model:  # type: ignore[attr-defined]
            if isinstance(layer, (nn.Linear, nn.Conv2d)):
                draw(layer.weight)
                nn.init.zeros_(layer.bias)
    return model


def _copies_of_a_row(weight: Tensor) -> None:
    weight.copy_(nn.init.normal_(weight[:1].clone(), std=weight[0].numel() ** -0.5).expand_as(weight))
    weight.add_(0.01 * torch.randn_like(weight) * weight.std())


def _findings(model: nn.Module, x: Tensor = _X, y: Tensor = _Y) -> list[Finding]:
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    return list(Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer).checkup().findings)


FAULTY: dict[str, tuple[Callable[[], nn.Module], Callable[[Tensor], object], Tensor, str]] = {
    "around one": (_dense, lambda w: nn.init.normal_(w, 1.0, 0.02), _X, "mean is 1 "),
    "deep": (lambda: _dense(4), lambda w: nn.init.normal_(w, 0.5, 0.01), _X, "mean is 0.5 "),
    "kernels": (_convolutional, lambda w: nn.init.normal_(w, 1.0, 0.02), _IMAGES, "mean is 1 "),
    "uniform": (_dense, lambda w: nn.init.uniform_(w, -1.05, -0.95), _X, "mean is -1 "),
    "copies of a row": (_dense, _copies_of_a_row, _X, "nearly equal in all units"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_units_with_nearly_equal_weights_are_reported_with_all_their_layers(name: str) -> None:
    torch.manual_seed(0)
    make, draw, x, text = FAULTY[name]
    model = _initialize(make(), draw)
    layers = [path for path, module in model.named_modules() if isinstance(module, (nn.Linear, nn.Conv2d))]
    findings = _findings(model, x)
    (finding,) = [finding for finding in findings if finding.code == "G408"]
    assert text in finding.message
    assert list(finding.evidence["moments"]) == layers
    assert finding.message.startswith(f"The weights of {len(layers)} of {len(layers)} layers")
    assert all(repr(path) in finding.fix for path in layers)
    others = [other for other in findings if other.code == "L208"]
    assert all("G408" in other.cause and not other.fix and not other.edits for other in others)


HEALTHY: dict[str, tuple[Callable[[], nn.Module], Callable[[Tensor], object], Tensor]] = {
    "he": (_dense, lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu"), _X),
    "small": (_dense, lambda w: nn.init.normal_(w, std=0.05), _X),
    "positive": (_dense, lambda w: nn.init.uniform_(w, 0, 4 / w.shape[1]), _X),
    "near the identity": (_dense, lambda w: nn.init.eye_(w).add_(0.02 * torch.randn_like(w)), _X),
    "orthogonal": (_dense, nn.init.orthogonal_, _X),
    "kernels": (_convolutional, nn.init.xavier_uniform_, _IMAGES),
    "a mean as large as the spread": (_dense, lambda w: nn.init.normal_(w, 0.1, 0.1), _X),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_units_with_weights_of_their_own_are_not_reported(name: str) -> None:
    torch.manual_seed(0)
    make, draw, x = HEALTHY[name]
    findings = _findings(_initialize(make(), draw), x)
    assert [finding for finding in findings if finding.code == "G408" and "moments" in finding.evidence] == []


def test_nearly_equal_weights_that_learn_as_well_as_others_are_not_reported() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 4))
    nn.init.normal_(model[0].weight, 0.05, 0.005)
    assert [finding for finding in _findings(model, y=(_X[:, 2] > 0).long()) if finding.code == "G408"] == []


PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from nbdebug.debugger import Debugger
def initialize(layer):
    if isinstance(layer, nn.Linear):
        nn.init.normal_(layer.weight, 2.0, 0.05)  # here
        nn.init.zeros_(layer.bias)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 4))
        self.apply(initialize)
    def forward(self, x):
        return self.body(x)
model = Net()
x = torch.randn(256, 12)
y = (x[:, 0] > 0).long() + 2 * (x[:, 2] > 0).long()
loader = DataLoader(TensorDataset(x, y), 32)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
debugger = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
"""


@pytest.mark.parametrize("code", ["G408", "L208"])
def test_line_that_draws_the_weights_is_named_and_removed_by_text_and_edit_alike(code: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    variables = run_program(tmp_path / "program.py", PROGRAM)
    report = variables["debugger"].checkup(select=[code])
    (finding,) = [finding for finding in report.findings if finding.code == code]
    assert "# here" in (finding.where.source or "")
    assert [edit.text for edit in finding.edits] == [""]
    assert finding.fix.startswith("Delete `nn.init.normal_(layer.weight, 2.0, 0.05)")
    if code == "L208":
        assert "root mean square is 2. The usual value for" in finding.cause
        assert "are large too" in finding.cause
