"""Tests of M303: parameters and modules that a model does not register, by mistake and by design."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, points
from tests.rules.rule_findings import checkup_findings

X, Y = points()


class CustomNetwork(nn.Module):
    """A head over a body that ``keep`` stores and ``run`` applies."""

    def __init__(self, keep: Callable[[CustomNetwork], None], run: Callable[[CustomNetwork, Tensor], Tensor]) -> None:
        super().__init__()
        self.head, self.run = nn.Linear(4, 3), run
        keep(self)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.run(self, x))


@dataclass
class LayerRecord:
    first: nn.Module
    scale: float = 1.0


class LayerHolder:
    def __init__(self) -> None:
        self.net = nn.Linear(4, 4)


def findings(model: nn.Module, **options: Any) -> list[Finding]:
    return checkup_findings(minimal_setup(model, X, Y, nn.CrossEntropyLoss(), **options), "M303")


def store(**values: Any) -> Callable[[CustomNetwork], None]:
    def keep(self: CustomNetwork) -> None:
        for name, value in values.items():
            setattr(self, name, value() if callable(value) and not isinstance(value, nn.Module) else value)

    return keep


def layer_closure() -> Callable[[Tensor], Tensor]:
    layer = nn.Linear(4, 4)
    return lambda x: layer(x).relu()


FAULTS: dict[str, tuple[Callable[[CustomNetwork], None], Callable[[CustomNetwork, Tensor], Tensor], str]] = {
    "list": (store(body=lambda: [nn.Linear(4, 4)]), lambda self, x: self.body[0](x), "nn.ModuleList(self.body)"),
    "dict": (store(body=lambda: {"a": nn.Linear(4, 4)}), lambda self, x: self.body["a"](x), "nn.ModuleDict"),
    "nested": (store(body=lambda: {"a": [(nn.Linear(4, 4),)]}), lambda self, x: self.body["a"][0][0](x), "Dict"),
    "dataclass": (store(body=lambda: LayerRecord(nn.Linear(4, 4))), lambda self, x: self.body.first(x), "self.body"),
    "object": (store(body=LayerHolder), lambda self, x: self.body.net(x), "self.body"),
    "closure": (store(body=layer_closure), lambda self, x: self.body(x), "self.body"),
    "partial": (
        store(body=lambda: partial(torch.nn.functional.linear, weight=torch.eye(4, requires_grad=True))),
        lambda self, x: self.body(x),
        "self.body",
    ),
    "plain tensor": (
        store(scale=lambda: torch.ones(4, requires_grad=True)),
        lambda self, x: x * self.scale,
        "nn.Parameter(self.scale",
    ),
    "parameters in a tuple": (
        store(scales=lambda: (nn.Parameter(torch.ones(4)),)),
        lambda self, x: x * self.scales[0],
        "nn.ParameterList",
    ),
    "leaf in bfloat16": (
        store(scale=lambda: torch.ones(4, dtype=torch.bfloat16, requires_grad=True)),
        lambda self, x: x * self.scale.float(),
        "nn.Parameter",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_unregistered_parameters_in_container_is_error_with_fix(name: str) -> None:
    keep, run, fix = FAULTS[name]
    (finding,) = findings(CustomNetwork(keep, run))
    assert finding.severity == "error"
    assert fix in finding.fix


class GainBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = torch.ones(4, requires_grad=True)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gain


def test_unregistered_parameters_in_repeated_blocks_is_one_finding_at_its_line() -> None:
    (finding,) = findings(nn.Sequential(GainBlock(), GainBlock(), nn.Linear(4, 3)))
    assert finding.where.module == "0"
    assert "self.gain = torch.ones" in (finding.where.source or "")
    assert "1 more modules" in finding.message


def layer_in_forward(self: CustomNetwork, x: Tensor) -> Tensor:
    layer = nn.Linear(4, 4)
    return layer(x).relu()


def parameter_in_forward(self: CustomNetwork, x: Tensor) -> Tensor:
    return x @ nn.Parameter(torch.randn(4, 4))


GLOBAL = nn.Linear(4, 4)


def global_layer(self: CustomNetwork, x: Tensor) -> Tensor:
    return GLOBAL(x).relu()


def scaled_parameter(self: CustomNetwork) -> None:
    self.gain = nn.Parameter(torch.ones(4)) * 0.1


def own_layer(self: CustomNetwork) -> None:
    self.own = nn.Linear(4, 4)


UNOWNED: dict[str, tuple[Any, Any, str, str]] = {
    "a layer made in forward": (own_layer, layer_in_forward, "error", "layer = nn.Linear(4, 4)"),
    "a parameter made in forward": (own_layer, parameter_in_forward, "error", "nn.Parameter(torch.randn(4, 4))"),
    "a global layer": (own_layer, global_layer, "warning", "GLOBAL(x)"),
    "a parameter that was scaled": (scaled_parameter, lambda self, x: x * self.gain, "error", ""),
    "a parameter in a list that was cast": (
        store(gains=lambda: [nn.Parameter(torch.ones(4)).double()]),
        lambda self, x: x * self.gains[0].float(),
        "error",
        "",
    ),
}


@pytest.mark.parametrize("name", UNOWNED)
def test_unregistered_parameters_without_owner_points_to_its_line(name: str) -> None:
    keep, run, severity, line = UNOWNED[name]
    (finding,) = findings(CustomNetwork(keep, run))
    assert finding.severity == severity
    assert line in (finding.where.source or "")


def embedding_in_forward(self: CustomNetwork, x: Tensor) -> Tensor:
    return x + nn.Embedding(4, 4)(torch.arange(4)).sum(0)


@pytest.mark.parametrize("run", [layer_in_forward, parameter_in_forward, embedding_in_forward])
def test_values_made_in_forward_explain_a_run_that_learns_slowly(
    run: Callable[[CustomNetwork, Tensor], Tensor],
) -> None:
    (finding,) = findings(CustomNetwork(own_layer, run))
    assert {"O502", "T606", "T607", "T608", "T610", "T614"} <= {*finding.explains}


class ScaledParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.gain = nn.Parameter(torch.ones(4)) * 0.1

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x * self.gain)


def test_unregistered_parameters_of_scaled_parameter_points_to_scaling_line() -> None:
    (finding,) = findings(ScaledParameter())
    assert "nn.Parameter(torch.ones(4)) * 0.1" in (finding.where.source or "")


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 2)
        self.experts = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(2)]

    def forward(self, x: Tensor) -> Tensor:
        weights = self.gate(x).softmax(1)
        return torch.stack([weights[:, i, None] * expert(x) for i, expert in enumerate(self.experts)]).sum(0)


def test_unregistered_parameters_in_list_of_containers_points_to_list() -> None:
    (finding,) = findings(Experts())
    assert "self.experts = [" in (finding.where.source or "")


class Options(SimpleNamespace):
    """Settings of a network."""


class LayersInOptions(nn.Module):
    """Adds its layers to the options that it got."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        options.stages = self.make_stages()
        self.head = nn.Linear(4, 3)

    def make_stages(self) -> list[nn.Module]:
        return [nn.Linear(4, 4), nn.Linear(4, 4)]

    def forward(self, x: Tensor) -> Tensor:
        for stage in self.options.stages:
            x = stage(x).relu()
        return self.head(x)


def test_unregistered_parameters_in_options_points_to_line_that_adds_them() -> None:
    (finding,) = findings(LayersInOptions(Options(width=4)))
    assert (finding.where.source or "").strip() == "options.stages = self.make_stages()"
    assert "`self.stages = nn.ModuleList(self.options.stages)`" in finding.fix


class ParameterReset(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.gain = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        self.gain = nn.Parameter(torch.ones(4))  # again
        return self.head(x * self.gain)


def test_unregistered_parameters_of_parameter_reset_in_forward_ranks_first() -> None:
    report = Debugger.of(minimal_setup(ParameterReset(), X, Y, nn.CrossEntropyLoss())).checkup()
    assert report[0].code == "M303"
    assert "# again" in (report[0].where.source or "")


def test_unregistered_parameters_ignores_global_layer_in_optimizer() -> None:
    model = CustomNetwork(own_layer, global_layer)
    assert findings(model, optimizers=(torch.optim.SGD([*model.parameters(), *GLOBAL.parameters()], lr=0.1),)) == []


def cached_output(self: CustomNetwork, x: Tensor) -> Tensor:
    self.last = self.own(x)
    return self.last


def test_unregistered_parameters_in_optimizer_is_warning() -> None:
    model = CustomNetwork(store(body=lambda: [nn.Linear(4, 4)]), lambda self, x: self.body[0](x))
    optimizer = torch.optim.SGD([*model.parameters(), *model.body[0].parameters()], lr=0.1)
    assert [finding.severity for finding in findings(model, optimizers=(optimizer,))] == ["warning"]


def layer_references(self: CustomNetwork) -> None:
    self.body = nn.Linear(4, 4)
    self.order = [self.body, self.head]


def frozen_teacher(self: CustomNetwork) -> None:
    self.body = nn.Linear(4, 4)
    self.teacher = [copy.deepcopy(self.body).requires_grad_(False)]


def moving_average(self: CustomNetwork) -> None:
    self.body = nn.Linear(4, 4)
    self.average = [copy.deepcopy(self.body)]


def with_average(self: CustomNetwork, x: Tensor) -> Tensor:
    with torch.no_grad():
        self.teacher_output = self.average[0](x)
    return self.body(x)


def input_with_gradient(self: CustomNetwork, x: Tensor) -> Tensor:
    self.point = x.clone().requires_grad_()
    return self.point * 2


HEALTHY: dict[str, tuple[Callable[[CustomNetwork], None], Callable[[CustomNetwork, Tensor], Tensor]]] = {
    "references to registered layers": (layer_references, lambda self, x: self.order[0](x)),
    "frozen teacher": (frozen_teacher, lambda self, x: self.body(x) + self.teacher[0](x)),
    "moving average": (moving_average, with_average),
    "input with a gradient": (store(), input_with_gradient),
    "constant tensor": (store(mean=lambda: torch.ones(4)), lambda self, x: x - self.mean),
    "container": (store(body=lambda: nn.ModuleList([nn.Linear(4, 4)])), lambda self, x: self.body[0](x)),
    "cached activation": (own_layer, cached_output),
    "cached output": (store(body=nn.Linear(4, 4)), lambda self, x: setattr(self, "last", self.body(x)) or self.last),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_unregistered_parameters_ignores_intended_references(name: str) -> None:
    assert findings(CustomNetwork(*HEALTHY[name])) == []


def test_unregistered_parameters_ignores_flat_weights_of_recurrent_module() -> None:
    class LastState(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = (
                nn.LSTM(4, 6, 2, batch_first=True),
                nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)),
            )

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.lstm(x.unsqueeze(1))[0][:, -1])

    assert findings(LastState()) == []


class Table(nn.Module):
    """Adds a table that is reshaped after it was made a parameter, or before."""

    def __init__(self, is_registered: bool) -> None:
        super().__init__()
        start = 0.1 * torch.randn(4)
        if is_registered:
            self.table = nn.Parameter(start.unsqueeze(0))
        else:
            self.table = nn.Parameter(start + 1).unsqueeze(0)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x + self.table)


def test_parameter_that_is_reshaped_is_wrapped_last_at_the_line_that_does_it() -> None:
    (finding,) = checkup_findings(minimal_setup(Table(False), *points(), nn.CrossEntropyLoss()), "M303")
    assert finding.fix == "self.table = nn.Parameter((start + 1).unsqueeze(0))"
    assert "Parameter(start + 1).unsqueeze" in (finding.where.source or "")
    assert not checkup_findings(minimal_setup(Table(True), *points(), nn.CrossEntropyLoss()), "M303")
