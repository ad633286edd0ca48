"""The task, inferred and given."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nbdebug
from nbdebug.measurements import Measurements
from nbdebug.rules.examples import classifier, minimal_setup, network, points, regressor
from nbdebug.setup import Setup, task

X, Y = points()


def own_classes(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return -output.log_softmax(1)[torch.arange(len(target)), target].mean()


def language_model() -> Setup:
    tokens = torch.randint(0, 9, (32, 6))
    model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9))
    return minimal_setup(model, tokens, tokens.roll(-1, 1), lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten()))


@pytest.mark.parametrize(
    ("setup", "name"),
    [
        (classifier(), "classification"),
        (classifier(nn.LogSoftmax(1), loss_fn=nn.NLLLoss()), "classification"),
        (classifier(loss_fn=own_classes), "classification"),
        (minimal_setup(network(1), X, Y.float().unsqueeze(1).clamp(max=1), nn.BCEWithLogitsLoss()), "binary"),
        (minimal_setup(network(3), X, F.one_hot(Y, 3).float(), nn.BCEWithLogitsLoss()), "multi-label"),
        (regressor(), "regression"),
        (regressor(loss_fn=lambda o, t: (o - t).abs().mean()), "regression"),
        (minimal_setup(network(4), X, X, nn.MSELoss()), "reconstruction"),
        (language_model(), "language-model"),
    ],
    ids=["ce", "nll", "own ce", "binary", "multi-label", "mse", "own l1", "autoencoder", "tokens"],
)
def test_the_task_follows_from_loss_and_targets(setup: Setup, name: str) -> None:
    assert Measurements(setup)["task"].name == name


def test_a_model_that_computes_its_loss_has_no_known_task() -> None:
    model = nn.Linear(4, 1)
    setup = Setup(model, [(X,)], forward=lambda model, x: model(x).square().mean())
    assert Measurements(setup)["task"].name == "other"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("classification", "classification"),
        ("multilabel", "multi-label"),
        ("language_model", "language-model"),
        ("gan", "other"),
    ],
)
def test_a_task_can_be_given(given: str, name: str) -> None:
    found = task.parse_task(given)
    assert found.name == name
    assert "as given" in str(found)


def test_a_given_task_is_shown() -> None:
    setup = classifier()
    dbg = nbdebug.Debugger(setup.model, setup.train_loader, loss_fn=setup.loss_fn, task="gan")
    assert "task other ('gan', as given)" in dbg.checkup().subject


@pytest.mark.parametrize("wrong", ["clasification", "regresion", "multi-lable", "classif"])
def test_a_misspelled_task_is_refused(wrong: str) -> None:
    setup = classifier()
    with pytest.raises(nbdebug.SetupError, match=r"task is .*; expected one of .*\. Did you mean"):
        nbdebug.Debugger(setup.model, setup.train_loader, task=wrong)


def test_an_inferred_task_says_why() -> None:
    found: Any = Measurements(classifier())["task"]
    assert str(found) == "classification (cross-entropy)"
