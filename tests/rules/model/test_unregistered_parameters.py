"""M303 on programs of many styles, and on programs that keep modules aside on purpose."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, points

X, Y = points()


class Network(nn.Module):
    """A head over a body that ``keep`` stores and ``run`` applies."""

    def __init__(self, keep: Callable[[Network], None], run: Callable[[Network, Tensor], Tensor]) -> None:
        super().__init__()
        self.head, self.run = nn.Linear(4, 3), run
        keep(self)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.run(self, x))


@dataclass
class Parts:
    first: nn.Module
    scale: float = 1.0


class Helper:
    def __init__(self) -> None:
        self.net = nn.Linear(4, 4)


def found(model: nn.Module, **given: Any) -> list[Finding]:
    return [
        one
        for one in Debugger.of(minimal_setup(model, X, Y, nn.CrossEntropyLoss(), **given)).checkup()
        if one.code == "M303"
    ]


def keeping(**values: Any) -> Callable[[Network], None]:
    def keep(self: Network) -> None:
        for name, value in values.items():
            setattr(self, name, value() if callable(value) and not isinstance(value, nn.Module) else value)

    return keep


def closure() -> Callable[[Tensor], Tensor]:
    layer = nn.Linear(4, 4)
    return lambda x: layer(x).relu()


FAULTS: dict[str, tuple[Callable[[Network], None], Callable[[Network, Tensor], Tensor], str]] = {
    "list": (keeping(body=lambda: [nn.Linear(4, 4)]), lambda self, x: self.body[0](x), "nn.ModuleList(self.body)"),
    "dict": (keeping(body=lambda: {"a": nn.Linear(4, 4)}), lambda self, x: self.body["a"](x), "nn.ModuleDict"),
    "nested": (keeping(body=lambda: {"a": [(nn.Linear(4, 4),)]}), lambda self, x: self.body["a"][0][0](x), "Dict"),
    "dataclass": (keeping(body=lambda: Parts(nn.Linear(4, 4))), lambda self, x: self.body.first(x), "self.body"),
    "object": (keeping(body=Helper), lambda self, x: self.body.net(x), "self.body"),
    "closure": (keeping(body=closure), lambda self, x: self.body(x), "self.body"),
    "partial": (
        keeping(body=lambda: partial(torch.nn.functional.linear, weight=torch.eye(4, requires_grad=True))),
        lambda self, x: self.body(x),
        "self.body",
    ),
    "plain tensor": (
        keeping(scale=lambda: torch.ones(4, requires_grad=True)),
        lambda self, x: x * self.scale,
        "nn.Parameter(self.scale",
    ),
    "parameters in a tuple": (
        keeping(scales=lambda: (nn.Parameter(torch.ones(4)),)),
        lambda self, x: x * self.scales[0],
        "nn.ParameterList",
    ),
    "leaf in bfloat16": (
        keeping(scale=lambda: torch.ones(4, dtype=torch.bfloat16, requires_grad=True)),
        lambda self, x: x * self.scale.float(),
        "nn.Parameter",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_it_is_found_with_the_line_to_write(name: str) -> None:
    keep, run, fix = FAULTS[name]
    (one,) = found(Network(keep, run))
    assert one.severity == "error"
    assert fix in one.fix


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = torch.ones(4, requires_grad=True)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gain


def test_the_line_and_the_module_are_named_and_repeated_blocks_count_once() -> None:
    (one,) = found(nn.Sequential(Block(), Block(), nn.Linear(4, 3)))
    assert one.where.module == "0"
    assert "self.gain = torch.ones" in (one.where.source or "")
    assert "1 more modules" in one.message


def anew(self: Network, x: Tensor) -> Tensor:
    layer = nn.Linear(4, 4)
    return layer(x).relu()


def parameter_anew(self: Network, x: Tensor) -> Tensor:
    return x @ nn.Parameter(torch.randn(4, 4))


GLOBAL = nn.Linear(4, 4)


def outside(self: Network, x: Tensor) -> Tensor:
    return GLOBAL(x).relu()


def scaled(self: Network) -> None:
    self.gain = nn.Parameter(torch.ones(4)) * 0.1


def nothing(self: Network) -> None:
    self.own = nn.Linear(4, 4)


HOMELESS: dict[str, tuple[Any, Any, str, str]] = {
    "a layer made in forward": (nothing, anew, "error", "layer = nn.Linear(4, 4)"),
    "a parameter made in forward": (nothing, parameter_anew, "error", "nn.Parameter(torch.randn(4, 4))"),
    "a layer of the program": (nothing, outside, "warning", "GLOBAL(x)"),
    "a parameter that was scaled": (scaled, lambda self, x: x * self.gain, "error", ""),
    "a parameter in a list that was cast": (
        keeping(gains=lambda: [nn.Parameter(torch.ones(4)).double()]),
        lambda self, x: x * self.gains[0].float(),
        "error",
        "",
    ),
}


@pytest.mark.parametrize("name", HOMELESS)
def test_what_no_module_keeps_is_found_at_its_line(name: str) -> None:
    keep, run, severity, line = HOMELESS[name]
    (one,) = found(Network(keep, run))
    assert one.severity == severity
    assert line in (one.where.source or "")


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.gain = nn.Parameter(torch.ones(4)) * 0.1

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x * self.gain)


def test_the_line_that_scales_a_parameter_is_named() -> None:
    (one,) = found(Scaled())
    assert "nn.Parameter(torch.ones(4)) * 0.1" in (one.where.source or "")


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 2)
        self.experts = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(2)]

    def forward(self, x: Tensor) -> Tensor:
        weights = self.gate(x).softmax(1)
        return torch.stack([weights[:, i, None] * expert(x) for i, expert in enumerate(self.experts)]).sum(0)


def test_a_list_of_containers_is_named_at_its_line() -> None:
    (one,) = found(Experts())
    assert "self.experts = [" in (one.where.source or "")


class Resetting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.gain = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        self.gain = nn.Parameter(torch.ones(4))  # again
        return self.head(x * self.gain)


def test_a_parameter_that_forward_sets_again_comes_before_what_that_does_to_the_optimizer() -> None:
    report = Debugger.of(minimal_setup(Resetting(), X, Y, nn.CrossEntropyLoss())).checkup()
    assert report[0].code == "M303"
    assert "# again" in (report[0].where.source or "")


def test_a_layer_of_the_program_that_an_optimizer_holds_is_left_alone() -> None:
    model = Network(nothing, outside)
    assert found(model, optimizers=(torch.optim.SGD([*model.parameters(), *GLOBAL.parameters()], lr=0.1),)) == []


def cached(self: Network, x: Tensor) -> Tensor:
    self.last = self.own(x)
    return self.last


def test_an_activation_that_is_kept_for_later_is_left_alone() -> None:
    assert found(Network(nothing, cached)) == []


def test_what_an_optimizer_holds_is_a_warning() -> None:
    model = Network(keeping(body=lambda: [nn.Linear(4, 4)]), lambda self, x: self.body[0](x))
    optimizer = torch.optim.SGD([*model.parameters(), *model.body[0].parameters()], lr=0.1)
    assert [one.severity for one in found(model, optimizers=(optimizer,))] == ["warning"]


def references(self: Network) -> None:
    self.body = nn.Linear(4, 4)
    self.order = [self.body, self.head]


def teacher(self: Network) -> None:
    self.body = nn.Linear(4, 4)
    self.teacher = [copy.deepcopy(self.body).requires_grad_(False)]


def moving_average(self: Network) -> None:
    self.body = nn.Linear(4, 4)
    self.average = [copy.deepcopy(self.body)]


def averaged(self: Network, x: Tensor) -> Tensor:
    with torch.no_grad():
        self.seen = self.average[0](x)
    return self.body(x)


def input_with_gradient(self: Network, x: Tensor) -> Tensor:
    self.point = x.clone().requires_grad_()
    return self.point * 2


HEALTHY: dict[str, tuple[Callable[[Network], None], Callable[[Network, Tensor], Tensor]]] = {
    "references to registered layers": (references, lambda self, x: self.order[0](x)),
    "frozen teacher": (teacher, lambda self, x: self.body(x) + self.teacher[0](x)),
    "moving average": (moving_average, averaged),
    "input with a gradient": (keeping(), input_with_gradient),
    "constant tensor": (keeping(mean=lambda: torch.ones(4)), lambda self, x: x - self.mean),
    "container": (keeping(body=lambda: nn.ModuleList([nn.Linear(4, 4)])), lambda self, x: self.body[0](x)),
    "cached output": (keeping(body=nn.Linear(4, 4)), lambda self, x: setattr(self, "last", self.body(x)) or self.last),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_kept_aside_on_purpose_is_left_alone(name: str) -> None:
    assert found(Network(*HEALTHY[name])) == []


def test_a_recurrent_module_and_its_flat_weights_are_left_alone() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = (
                nn.LSTM(4, 6, 2, batch_first=True),
                nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)),
            )

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.lstm(x.unsqueeze(1))[0][:, -1])

    assert found(Last()) == []
