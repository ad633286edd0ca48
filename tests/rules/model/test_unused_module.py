"""M315: modules that are made and forgotten, and modules that only seem so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points


def found(model: nn.Module) -> list[Finding]:
    setup = minimal_setup(model, *points(), nn.CrossEntropyLoss())
    return [one for one in Debugger.of(setup).checkup() if one.code == "M315"]


class Plain(nn.Module):
    """A network whose extra parts ``more`` sets."""

    def __init__(self, **more: nn.Module) -> None:
        super().__init__()
        self.net = network(3)
        for name, module in more.items():
            self.add_module(name, module)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class Predicting(Plain):
    def predict(self, x: Tensor) -> Tensor:
        return self.softmax(self(x))


class Reaching(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return getattr(self, "dr" + "op")(self.net(x))


class ByForward(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return self.drop.forward(self.net(x))


class Sometimes(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.net(x)) if len(x) > 10_000 else self.net(x)


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x.unsqueeze(1)
        return self.head(self.attention(x, x, x)[0].squeeze(1))


@pytest.mark.parametrize(
    "part", [nn.Dropout(0.5), nn.ReLU(), nn.BatchNorm1d(8, affine=False), nn.Sequential(nn.GELU(), nn.MaxPool1d(2))]
)
def test_a_part_that_nothing_uses_is_found(part: nn.Module) -> None:
    (one,) = found(Plain(extra=part))
    assert one.severity == "warning"
    assert one.where.module == "extra"


def test_it_is_found_inside_a_block() -> None:
    (one,) = found(nn.Sequential(Plain(drop=nn.Dropout(0.1)), nn.Linear(3, 3)))
    assert one.where.module == "0.drop"


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "used by another method": lambda: Predicting(softmax=nn.Softmax(1)),
    "fetched by name": lambda: Reaching(drop=nn.Dropout(0.1)),
    "run around its hooks": lambda: ByForward(drop=nn.Dropout(0.1)),
    "used sometimes": lambda: Sometimes(drop=nn.Dropout(0.1)),
    "a loss kept in the model": lambda: Plain(criterion=nn.CrossEntropyLoss()),
    "inside torch": Attending,
    "all used": lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 3)),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_used_somewhere_draws_nothing(name: str) -> None:
    assert found(HEALTHY[name]()) == []


def test_a_layer_that_should_learn_is_told_as_disconnected() -> None:
    report = Debugger.of(minimal_setup(Plain(extra=nn.Linear(4, 4)), *points(), nn.CrossEntropyLoss())).checkup()
    assert [one.code for one in report.faults] == ["M301"]


def test_an_activation_that_is_never_called_comes_before_the_layers_that_it_leaves_side_by_side() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
    model = Plain(act=nn.ReLU())
    model.net = net
    report = Debugger.of(minimal_setup(model, *points(), nn.CrossEntropyLoss())).checkup()
    assert [one.code for one in report.faults] == ["M315", "M308"]
