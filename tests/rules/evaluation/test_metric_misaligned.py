"""E707: courses in which loss and metric disagree, and those in which they only waver."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loss_curves.metric_agreement import find_disagreements, metric_direction
from nbdebug.records import Record
from nbdebug.rule_engine import rule_registry

EPOCHS = np.arange(20)
FALLS = 0.3 + np.exp(-EPOCHS / 5)


def recorded(loss: np.ndarray, metric: np.ndarray, name: str = "accuracy", seed: int = 0) -> Record:
    """A run that validated after each epoch, with a little noise."""
    random, record = np.random.default_rng(seed), Record()
    for epoch, (low, high) in enumerate(zip(loss, metric, strict=True)):
        noise = random.normal(size=2) * 0.005
        record.evaluations.append(10 * epoch, {"eval_loss": low + noise[0]}, "own")
        record.evaluations.append(10 * epoch, {name: high + noise[1]}, "logged")
    return record


def said(record: Record) -> list[Finding]:
    return rule_registry.find_rule("E707")({"record": record})


def test_accuracy_that_falls_with_the_loss_is_found() -> None:
    (one,) = said(recorded(FALLS, 0.6 + 0.3 * np.exp(-EPOCHS / 5)))
    assert one.severity == "warning"
    assert one.evidence["best step by metric"] < one.evidence["best step by loss"]
    assert "at the expense" in one.cause


def test_accuracy_that_rises_while_the_loss_overfits_is_found() -> None:
    loss = np.where(EPOCHS < 5, 1 - 0.1 * EPOCHS, 0.5 + 0.05 * (EPOCHS - 5))
    (one,) = said(recorded(loss, 0.7 + 0.01 * EPOCHS))
    assert "overconfident" in one.cause
    assert one.where.step == 50


def test_an_error_that_rises_is_as_much_as_an_accuracy_that_falls() -> None:
    assert len(said(recorded(FALLS, 0.4 - 0.3 * np.exp(-EPOCHS / 5), "val_error"))) == 1
    assert said(recorded(FALLS, 0.1 + 0.3 * np.exp(-EPOCHS / 5), "val_error")) == []


def test_the_score_of_fixed_samples_is_a_note() -> None:
    record = recorded(FALLS, 0.6 + 0.3 * np.exp(-EPOCHS / 5), "sample_val_score")
    assert [one.severity for one in said(record)] == ["note"]


AGREE = {
    "both improve": (FALLS, 0.9 - 0.3 * np.exp(-EPOCHS / 5)),
    "both turn": (1 + (EPOCHS - 8) ** 2 / 50, 0.9 - (EPOCHS - 8) ** 2 / 300),
    "the loss turns, accuracy stays": (1 + (EPOCHS - 8) ** 2 / 50, np.full(20, 0.9)),
    "neither moves": (np.full(20, 0.7), np.full(20, 0.5)),
}


@pytest.mark.parametrize("name", AGREE)
def test_courses_that_agree_are_left_alone_whatever_the_noise(name: str) -> None:
    assert [one for seed in range(100) for one in find_disagreements(recorded(*AGREE[name], seed=seed))] == []


def test_names_tell_whether_more_is_better() -> None:
    assert [metric_direction(name) for name in ("val_acc", "F1", "valAccuracy", "AUC", "mean IoU")] == [1] * 5
    assert [metric_direction(name) for name in ("val_mae", "perplexity", "RMSE")] == [-1] * 3
    assert [metric_direction(name) for name in ("val_loss", "train_acc", "lr", "gap", "scores_seen")] == [0] * 5


def test_too_few_epochs_tell_nothing() -> None:
    with pytest.raises(NotChecked, match="6 times"):
        said(recorded(FALLS[:4], FALLS[:4]))
