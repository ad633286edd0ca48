"""Tests of E710 on evaluations of an old copy of the model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_modules
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import network, points

X, Y = points()
TRAIN, VAL = DataLoader(TensorDataset(X, Y), 16, shuffle=True), DataLoader(TensorDataset(X.flip(0), Y.flip(0)), 16)
ONE_BATCH = DataLoader(TensorDataset(X, Y), len(X))
Predict = Callable[[Tensor], Tensor]
Evaluation = Callable[[], object]
Factory = Callable[[nn.Module], Evaluation]


def accuracy(predict: Predict, loader: Any = VAL) -> float:
    with torch.no_grad():
        return sum(float((predict(x).argmax(1) == y).float().mean()) for x, y in loader) / len(loader)


def first_copy(model: nn.Module) -> Evaluation:
    kept = list[nn.Module]()

    def evaluate() -> None:
        kept.append(copy.deepcopy(model))
        accuracy(kept[0].eval())

    return evaluate


def in_one_batch(model: nn.Module) -> Evaluation:
    old = copy.deepcopy(model)
    return lambda: accuracy(old, ONE_BATCH)


def average_that_is_never_updated(model: nn.Module) -> Evaluation:
    average = AveragedModel(model)
    return lambda: accuracy(average)


def loss_only(model: nn.Module) -> Evaluation:
    old = copy.deepcopy(model)

    def evaluate() -> None:
        with torch.no_grad():
            for x, y in VAL:
                nn.functional.cross_entropy(old(x), y).item()

    return evaluate


def another_network(model: nn.Module) -> Evaluation:
    other = network(3)
    nn.init.normal_(next(other.parameters()))
    return lambda: accuracy(nn.Sequential(other))


def copy_in_a_predictor(model: nn.Module) -> Evaluation:
    class Predictor:
        def __init__(self, net: nn.Module) -> None:
            self.net = copy.deepcopy(net).requires_grad_(False)

        def __call__(self, x: Tensor) -> Tensor:
            logits: Tensor = self.net(x)
            return logits.softmax(1)

    predictor = Predictor(model)
    return lambda: accuracy(predictor)


FAULTY: list[Factory] = [
    first_copy,
    in_one_batch,
    average_that_is_never_updated,
    loss_only,
    another_network,
    copy_in_a_predictor,
]


def model_itself(model: nn.Module) -> Evaluation:
    return lambda: accuracy(model)


def new_copy_in_each_evaluation(model: nn.Module) -> Evaluation:
    return lambda: accuracy(copy.deepcopy(model).eval())


def moving_average(model: nn.Module) -> Evaluation:
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))

    def evaluate() -> None:
        average.update_parameters(model)
        accuracy(average)

    return evaluate


def state_loaded_into_another_network(model: nn.Module) -> Evaluation:
    other = network(3)

    def evaluate() -> None:
        other.load_state_dict(model.state_dict())
        accuracy(other)

    return evaluate


def both_on_each_batch(model: nn.Module) -> Evaluation:
    old = copy.deepcopy(model)
    return lambda: accuracy(lambda x: old(x) - model(x))


def one_after_the_other(model: nn.Module) -> Evaluation:
    old = copy.deepcopy(model)
    return lambda: (accuracy(old), accuracy(model))


def model_without_loader(model: nn.Module) -> Evaluation:
    old = copy.deepcopy(model)
    return lambda: (accuracy(old), accuracy(model, [(X, Y)]))


def parts_of_the_model(model: nn.Module) -> Evaluation:
    layers = [*model.children()]

    def predict(x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x)
        return x

    return lambda: accuracy(predict)


def wrapped_model(model: nn.Module) -> Evaluation:
    return lambda: accuracy(nn.Sequential(model))


def ensemble_of_earlier_models(model: nn.Module) -> Evaluation:
    members = [copy.deepcopy(model)]

    def evaluate() -> None:
        members.append(copy.deepcopy(model))
        accuracy(lambda x: torch.stack([member(x) for member in members]).mean(0))

    return evaluate


def baseline_of_other_shapes(model: nn.Module) -> Evaluation:
    baseline = nn.Linear(X.shape[1], 3)
    return lambda: accuracy(baseline)


def no_module(model: nn.Module) -> Evaluation:
    return lambda: accuracy(lambda x: x[:, :3])


HEALTHY: list[Factory] = [
    model_itself,
    new_copy_in_each_evaluation,
    moving_average,
    state_loaded_into_another_network,
    both_on_each_batch,
    one_after_the_other,
    model_without_loader,
    parts_of_the_model,
    wrapped_model,
    ensemble_of_earlier_models,
    baseline_of_other_shapes,
    no_module,
]


def findings_of(make_evaluation: Factory, learning_rate: float = 0.1, epochs: int = 3) -> list[Finding]:
    torch.manual_seed(0)
    model = network(3)
    evaluate = make_evaluation(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    loader = ONE_BATCH if make_evaluation is in_one_batch else VAL
    dbg = Debugger(model, TRAIN, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    with dbg.watch():
        for _ in range(epochs):
            for x, y in TRAIN:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            evaluate()
    assert not torch_modules._global_forward_pre_hooks
    return [finding for finding in dbg.findings if finding.code == "E710"]


@pytest.mark.parametrize("make_evaluation", FAULTY)
def test_evaluations_of_an_old_copy_are_one_error_where_it_is_called(make_evaluation: Factory) -> None:
    (finding,) = findings_of(make_evaluation)
    assert finding.severity == "error"
    assert "never the model" in finding.message
    assert finding.where.source is not None


@pytest.mark.parametrize("make_evaluation", HEALTHY)
def test_evaluations_of_current_weights_are_quiet(make_evaluation: Factory) -> None:
    assert findings_of(make_evaluation) == []


def test_initial_weights_are_named() -> None:
    (finding,) = findings_of(in_one_batch)
    assert "before the loop" in finding.message
    (finding,) = findings_of(another_network)
    assert "before the loop" not in finding.message


def test_a_model_that_does_not_change_is_quiet() -> None:
    assert findings_of(in_one_batch, learning_rate=0.0) == []


def test_one_evaluation_is_quiet() -> None:
    assert findings_of(in_one_batch, epochs=1) == []
