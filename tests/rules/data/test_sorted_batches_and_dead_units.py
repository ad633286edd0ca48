"""D116 as the cause of M306: batches of one class each that leave no unit of a layer active."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.setup import Setup

_CLASSES, _ROWS, _WIDTH = 4, 240, 12


class Net(nn.Module):
    """A layer, an activation and a head."""

    def __init__(self, layer: nn.Module, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.activation = layer, activation
        self.head = nn.Linear(8, _CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.activation(self.layer(x)).flatten(1))
        return scores


class Blind(Net):
    """A network that replaces its input with zeros."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(torch.zeros_like(x))


def dense() -> nn.Module:
    return nn.Linear(_WIDTH, 8)


def folded() -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (1, _WIDTH)), nn.Conv1d(1, 2, 6, stride=2))


def normalized() -> nn.Module:
    return nn.Sequential(nn.Linear(_WIDTH, 8), nn.LayerNorm(8))


def findings_of_run(
    net: nn.Module, *, sorts: bool, final_bias: float | None = -20.0, rate: float = 0.05
) -> list[Finding]:
    """Train for some epochs, move the biases before the activation at a step within the run, and check both rules."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(_ROWS) % _CLASSES
    x = torch.randn(_ROWS, _WIDTH, generator=generator) + F.one_hot(y, _WIDTH) * 2
    order = y.argsort() if sorts else torch.randperm(_ROWS, generator=generator)
    data = DataLoader(TensorDataset(x[order], y[order]), batch_size=20)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    debugger = Debugger.of(Setup(net, data, loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,)))
    debugger.checkup(select=["D116", "M306"])
    biases = [parameter for name, parameter in net.named_parameters() if "layer" in name and name.endswith("bias")]
    with debugger.watch():
        for epoch in range(6):
            for inputs, targets in data:
                optimizer.zero_grad()
                F.cross_entropy(net(inputs), targets).backward()
                optimizer.step()
            if epoch == 3:
                with torch.no_grad():
                    for bias in biases:
                        bias.fill_(-20.0)
    return [finding for finding in debugger.findings if finding.code in ("D116", "M306")]


@pytest.mark.parametrize(
    ("layer", "activation"),
    [
        (dense, torch.relu),
        (dense, F.relu),
        (dense, nn.ReLU()),
        (folded, torch.relu),
        (normalized, lambda x: x.relu()),
    ],
    ids=["torch.relu", "F.relu", "module", "convolution", "normalized"],
)
def test_units_that_die_in_a_run_on_sorted_batches_are_a_consequence(
    layer: Callable[[], nn.Module], activation: Callable[[Tensor], Tensor]
) -> None:
    torch.manual_seed(0)
    findings = findings_of_run(Net(layer(), activation), sorts=True)
    assert [finding.code for finding in findings] == ["D116", "M306"]
    assert "Probably a consequence of D116" in findings[1].cause


def dead_from_the_start() -> nn.Module:
    net = Net(dense(), torch.relu)
    nn.init.constant_(net.get_parameter("layer.bias"), -20.0)
    return net


@pytest.mark.parametrize(
    ("build", "sorts", "codes"),
    [
        (lambda: Net(dense(), torch.relu), False, ["M306"]),
        (dead_from_the_start, True, ["M306", "D116"]),
        (lambda: Blind(dense(), torch.relu), True, ["M306", "D116"]),
        (lambda: Net(dense(), lambda x: torch.tanh(x) * 0), True, ["M306", "D116"]),
        (lambda: Net(dense(), F.silu), True, ["D116"]),
    ],
    ids=["shuffled", "dead from the start", "input replaced", "factor of zero", "no rectifier"],
)
def test_other_causes_of_an_ignored_input_stay_their_own(
    build: Callable[[], nn.Module], sorts: bool, codes: list[str]
) -> None:
    torch.manual_seed(0)
    findings = findings_of_run(build(), sorts=sorts)
    assert [finding.code for finding in findings] == codes
    assert not any("consequence" in (finding.cause or "") for finding in findings)
