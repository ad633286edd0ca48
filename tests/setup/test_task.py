"""Tests of the inferred task and of the task option."""

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
from nbdebug.setup.batch import Batch

X, Y = points()


def custom_cross_entropy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return -output.log_softmax(1)[torch.arange(len(target)), target].mean()


def make_language_model_setup() -> Setup:
    tokens = torch.randint(0, 9, (32, 6))
    model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9))
    return minimal_setup(model, tokens, tokens.roll(-1, 1), lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten()))


@pytest.mark.parametrize(
    ("setup", "name"),
    [
        (classifier(), "classification"),
        (classifier(nn.LogSoftmax(1), loss_fn=nn.NLLLoss()), "classification"),
        (classifier(loss_fn=custom_cross_entropy), "classification"),
        (minimal_setup(network(1), X, Y.float().unsqueeze(1).clamp(max=1), nn.BCEWithLogitsLoss()), "binary"),
        (minimal_setup(network(3), X, F.one_hot(Y, 3).float(), nn.BCEWithLogitsLoss()), "multi-label"),
        (regressor(), "regression"),
        (regressor(loss_fn=lambda o, t: (o - t).abs().mean()), "regression"),
        (minimal_setup(network(4), X, X, nn.MSELoss()), "reconstruction"),
        (make_language_model_setup(), "language-model"),
    ],
    ids=["ce", "nll", "custom ce", "binary", "multi-label", "mse", "custom l1", "autoencoder", "tokens"],
)
def test_task_is_inferred_from_loss_and_targets(setup: Setup, name: str) -> None:
    assert Measurements(setup)["task"].name == name


def test_task_of_model_that_returns_its_loss_is_other() -> None:
    model = nn.Linear(4, 1)
    setup = Setup(model, [(X,)], forward=lambda model, x: model(x).square().mean())
    assert Measurements(setup)["task"].name == "other"


def test_labels_that_the_model_takes_by_name_are_no_inputs() -> None:
    labels, scores = torch.randint(0, 3, (8, 5)), torch.randn(8, 3, 5)
    batch = Batch((), {"pixels": torch.randn(8, 2, 5), "labels": labels}, (labels,))
    assert task.infer_task(batch, scores, "cross-entropy").name == "classification"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("classification", "classification"),
        ("multilabel", "multi-label"),
        ("language_model", "language-model"),
        ("gan", "other"),
        ("multi_task", "other"),
        ("masked_language_model", "other"),
        ("count_regression", "other"),
        ("token classification", "classification"),
        ("multitask", "other"),
        ("Multi-Task", "other"),
        ("CTC", "other"),
        ("language modelling", "language-model"),
        ("causal_lm", "language-model"),
        (" regression ", "regression"),
        ("sequence labelling", "classification"),
    ],
)
def test_parse_task_of_known_name_returns_task(text: str, name: str) -> None:
    parsed_task = task.parse_task(text)
    assert parsed_task.name == name
    assert "as given" in str(parsed_task)


def test_checkup_subject_shows_task_option() -> None:
    setup = classifier()
    debugger = nbdebug.Debugger(setup.model, setup.train_loader, loss_fn=setup.loss_fn, task="gan")
    assert "task other ('gan', as given)" in debugger.checkup().subject


@pytest.mark.parametrize("name", ["clasification", "regresion", "multi-lable", "classif"])
def test_debugger_with_misspelled_task_suggests_a_name(name: str) -> None:
    setup = classifier()
    with pytest.raises(nbdebug.SetupError, match=r"task is .*; expected one of .*\. Did you mean"):
        nbdebug.Debugger(setup.model, setup.train_loader, task=name)


def test_text_of_inferred_task_names_loss() -> None:
    inferred_task: Any = Measurements(classifier())["task"]
    assert str(inferred_task) == "classification (cross-entropy)"
