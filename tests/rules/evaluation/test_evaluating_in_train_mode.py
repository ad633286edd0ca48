"""Tests of E701 (layers that eval mode leaves active) and T613 (layers that train mode leaves inactive)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, points

X, Y = points()


class MiddleFunctionModel(nn.Module):
    """A network with a middle layer that is a function of the network and its input."""

    def __init__(self, middle: Callable[[MiddleFunctionModel, Tensor], Tensor], *objects: Any) -> None:
        super().__init__()
        self.body, self.head, self.middle, self.objects = nn.Linear(4, 8), nn.Linear(8, 3), middle, objects
        self.norm, self.rate = nn.BatchNorm1d(8), 0.3

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.middle(self, torch.relu(self.body(x))))


class AlwaysTrainingDropout(nn.Dropout):
    def train(self, mode: bool = True) -> AlwaysTrainingDropout:
        return self


class FrozenNorm(nn.BatchNorm1d):
    def train(self, mode: bool = True) -> FrozenNorm:
        return super().train(False)


class ForgetfulTrain(nn.Sequential):
    """A network whose train method does not pass the mode on."""

    def train(self, mode: bool = True) -> ForgetfulTrain:
        super().train()
        self[1].eval()
        return self


class ShallowTrain(nn.Sequential):
    """A network whose train method sets the mode of its parts, but not of their parts."""

    def train(self, mode: bool = True) -> ShallowTrain:
        self.training = mode
        for part in self:
            part.training = mode
        return self


def mode_findings(model: nn.Module, code: str) -> list[Finding]:
    report = Debugger.of(minimal_setup(model, X, Y, nn.CrossEntropyLoss())).checkup(select=["E701", "T613"])
    assert not report.not_checked
    return [finding for finding in report if finding.code == code]


def attention(get_rate: Callable[[MiddleFunctionModel], float]) -> Callable[[MiddleFunctionModel, Tensor], Tensor]:
    def apply_attention(self: MiddleFunctionModel, x: Tensor) -> Tensor:
        x = x.unsqueeze(1)
        return F.scaled_dot_product_attention(x, x, x, dropout_p=get_rate(self)).squeeze(1)

    return apply_attention


def apply_batch_norm(self: MiddleFunctionModel, x: Tensor, training: bool | None = None) -> Tensor:
    is_training = self.training if training is None else training
    return F.batch_norm(x, self.norm.running_mean, self.norm.running_var, training=is_training)


ALWAYS_TRAINING: dict[str, tuple[Callable[[MiddleFunctionModel, Tensor], Tensor], tuple[Any, ...], str]] = {
    "functional dropout": (lambda self, x: F.dropout(x, p=0.5), (), "F.dropout(x, p=0.5)"),
    "in place": (lambda self, x: F.dropout(x, 0.5, True, True), (), "F.dropout(x, 0.5, True"),
    "torch.dropout": (lambda self, x: torch.dropout(x, 0.5, True), (), "torch.dropout(x"),
    "alpha dropout": (lambda self, x: F.alpha_dropout(x, 0.2, True), (), "F.alpha_dropout"),
    "in bfloat16": (lambda self, x: F.dropout(x.bfloat16(), 0.5).float(), (), "F.dropout(x.bfloat16()"),
    "dropout made in forward": (lambda self, x: nn.Dropout(0.5)(x), (), "nn.Dropout(0.5)(x)"),
    "dropout in a tuple": (lambda self, x: self.objects[0](x), (nn.Dropout(0.5),), "self.objects[0](x)"),
    "attention": (attention(lambda self: self.rate), (), "dropout_p="),
    "batch statistics": (partial(apply_batch_norm, training=True), (), "F.batch_norm"),
}


@pytest.mark.parametrize("name", ALWAYS_TRAINING)
def test_evaluating_in_train_mode_of_always_active_layer_is_an_error_at_its_line(name: str) -> None:
    middle, objects, line = ALWAYS_TRAINING[name]
    (finding,) = mode_findings(MiddleFunctionModel(middle, *objects), "E701")
    assert finding.severity == "error"
    assert line in (finding.where.source or "")


class MonteCarloDropout(nn.Dropout):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, training=True)


def constant_flag_dropout(self: MiddleFunctionModel, x: Tensor) -> Tensor:
    is_training = True
    return F.dropout(x, 0.5, training=is_training)


DELIBERATE: dict[str, Callable[[], nn.Module]] = {
    "functional dropout": lambda: MiddleFunctionModel(lambda self, x: F.dropout(x, 0.5, training=True)),
    "alpha dropout": lambda: MiddleFunctionModel(lambda self, x: F.alpha_dropout(x, 0.2, training=True)),
    "Monte Carlo layer": lambda: nn.Sequential(nn.Linear(4, 8), MonteCarloDropout(0.5), nn.Linear(8, 3)),
}


@pytest.mark.parametrize("name", DELIBERATE)
def test_evaluating_in_train_mode_of_keyword_training_true_is_a_note(name: str) -> None:
    assert [finding.severity for finding in mode_findings(DELIBERATE[name](), "E701")] == ["note"]


def test_evaluating_in_train_mode_of_constant_training_variable_is_an_error() -> None:
    assert [finding.severity for finding in mode_findings(MiddleFunctionModel(constant_flag_dropout), "E701")] == [
        "error"
    ]


def test_evaluating_in_train_mode_of_module_with_overridden_train_names_it() -> None:
    (finding,) = mode_findings(nn.Sequential(nn.Linear(4, 8), AlwaysTrainingDropout(0.5), nn.Linear(8, 3)), "E701")
    assert finding.where.module == "1"
    assert finding.cause.startswith("AlwaysTrainingDropout.train()")


NEVER_TRAINING: dict[str, Callable[[MiddleFunctionModel, Tensor], Tensor]] = {
    "functional dropout": lambda self, x: F.dropout(x, 0.5, False),
    "by keyword": lambda self, x: F.dropout(x, 0.5, training=False),
    "torch.dropout": lambda self, x: torch.dropout(x, 0.5, False),
    "batch normalization": partial(apply_batch_norm, training=False),
}


@pytest.mark.parametrize("name", NEVER_TRAINING)
def test_training_in_eval_mode_of_never_active_layer_is_a_warning(name: str) -> None:
    assert [finding.severity for finding in mode_findings(MiddleFunctionModel(NEVER_TRAINING[name]), "T613")] == [
        "warning"
    ]


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "mode passed": lambda: MiddleFunctionModel(lambda self, x: F.dropout(x, 0.5, self.training)),
    "mode passed by keyword": lambda: MiddleFunctionModel(lambda self, x: F.dropout(x, 0.5, training=self.training)),
    "attention, mode passed": lambda: MiddleFunctionModel(attention(lambda self: self.rate if self.training else 0.0)),
    "attention without dropout": lambda: MiddleFunctionModel(attention(lambda self: 0.0)),
    "batch normalization, mode passed": lambda: MiddleFunctionModel(apply_batch_norm),
    "layers": lambda: nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)),
    "batch norm without running statistics": lambda: nn.Sequential(
        nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 3)
    ),
    "frozen statistics": lambda: nn.Sequential(nn.Linear(4, 8), FrozenNorm(8), nn.Linear(8, 3)),
    "dropout of rate zero": lambda: MiddleFunctionModel(lambda self, x: F.dropout(x, 0.0)),
    "encoder": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 4)),
        nn.TransformerEncoderLayer(4, 2, 8, 0.3, batch_first=True),
        nn.Flatten(),
        nn.Linear(4, 3),
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_mode_rules_of_layers_that_follow_the_mode_are_quiet(name: str) -> None:
    assert mode_findings(HEALTHY[name](), "E701") + mode_findings(HEALTHY[name](), "T613") == []


def test_evaluating_in_train_mode_of_random_noise_in_both_modes_is_a_note() -> None:
    model = MiddleFunctionModel(lambda self, x: x + torch.randn_like(x))
    assert [finding.severity for finding in mode_findings(model, "E701")] == ["note"]


@pytest.mark.parametrize(
    ("model", "module", "source", "added"),
    [
        (
            ForgetfulTrain(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)),
            *("2", "super().train()", "super().train(mode)"),
        ),
        (
            ShallowTrain(nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5)), nn.Linear(8, 3)),
            *("0.1", "part.training = mode", "part.train(mode)"),
        ),
    ],
)
def test_train_method_that_does_not_reach_a_layer_is_named_with_its_line_and_keeps_the_rest(
    model: nn.Module, module: str, source: str, added: str
) -> None:
    (finding,) = mode_findings(model, "E701")
    assert (finding.where.module, (finding.where.source or "").strip()) == (module, source)
    assert finding.cause.startswith(f"{type(model).__name__}.train() is called by eval()")
    assert [line.strip() for change in finding.changes for line in change.added] == [added]


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_batch_norm_left_in_train_mode_is_not_measured_by_the_randomness_of_dropout(rate: float) -> None:
    model = ShallowTrain(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(rate)), nn.Linear(8, 3))
    finding = next(finding for finding in mode_findings(model, "E701") if "batch_norm" in finding.message)
    assert "two passes" not in finding.message
    assert "depends on the others of its batch" in finding.message


def test_training_in_eval_mode_of_model_passed_in_eval_mode_is_a_note() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3)).eval()
    assert [finding.severity for finding in mode_findings(model, "T613")] == ["note"]
    assert not model.training
