"""Tests of E707: validation curves in which loss and metric disagree, and noisy curves in which they agree."""

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


def make_record(loss: np.ndarray, metric: np.ndarray, name: str = "accuracy", seed: int = 0) -> Record:
    """Return a record with a validation after each epoch, with a little noise."""
    generator, record = np.random.default_rng(seed), Record()
    for epoch, (loss_value, metric_value) in enumerate(zip(loss, metric, strict=True)):
        noise = generator.normal(size=2) * 0.005
        record.evaluations.append(10 * epoch, {"eval_loss": loss_value + noise[0]}, "own")
        record.evaluations.append(10 * epoch, {name: metric_value + noise[1]}, "logged")
    return record


def find_metric_misaligned(record: Record) -> list[Finding]:
    return rule_registry.find_rule("E707")({"record": record, "loop": NotChecked("not watched")})


def test_metric_misaligned_of_accuracy_falling_with_loss_is_a_warning() -> None:
    (finding,) = find_metric_misaligned(make_record(FALLS, 0.6 + 0.3 * np.exp(-EPOCHS / 5)))
    assert finding.severity == "warning"
    assert finding.evidence["best step by metric"] < finding.evidence["best step by loss"]
    assert "at the expense" in finding.cause


def test_metric_misaligned_of_rising_accuracy_and_overfitting_loss_names_overconfidence() -> None:
    loss = np.where(EPOCHS < 5, 1 - 0.1 * EPOCHS, 0.5 + 0.05 * (EPOCHS - 5))
    (finding,) = find_metric_misaligned(make_record(loss, 0.7 + 0.01 * EPOCHS))
    assert "overconfident" in finding.cause
    assert finding.where.step == 50


def test_metric_misaligned_of_error_metric_reports_rise_only() -> None:
    assert len(find_metric_misaligned(make_record(FALLS, 0.4 - 0.3 * np.exp(-EPOCHS / 5), "val_error"))) == 1
    assert find_metric_misaligned(make_record(FALLS, 0.1 + 0.3 * np.exp(-EPOCHS / 5), "val_error")) == []


def test_metric_misaligned_of_sample_score_is_a_note() -> None:
    record = make_record(FALLS, 0.6 + 0.3 * np.exp(-EPOCHS / 5), "sample_val_score")
    assert [finding.severity for finding in find_metric_misaligned(record)] == ["note"]


AGREEING_CURVES = {
    "both improve": (FALLS, 0.9 - 0.3 * np.exp(-EPOCHS / 5)),
    "both have an optimum": (1 + (EPOCHS - 8) ** 2 / 50, 0.9 - (EPOCHS - 8) ** 2 / 300),
    "loss has an optimum, accuracy is constant": (1 + (EPOCHS - 8) ** 2 / 50, np.full(20, 0.9)),
    "both constant": (np.full(20, 0.7), np.full(20, 0.5)),
}


@pytest.mark.parametrize("name", AGREEING_CURVES)
def test_find_disagreements_of_agreeing_curves_with_any_noise_is_empty(name: str) -> None:
    records = [make_record(*AGREEING_CURVES[name], seed=seed) for seed in range(100)]
    assert [disagreement for record in records for disagreement in find_disagreements(record)] == []


def test_metric_direction_follows_the_metric_name() -> None:
    assert [metric_direction(name) for name in ("val_acc", "F1", "valAccuracy", "AUC", "mean IoU")] == [1] * 5
    assert [metric_direction(name) for name in ("val_mae", "perplexity", "RMSE")] == [-1] * 3
    assert [metric_direction(name) for name in ("val_loss", "train_acc", "lr", "gap", "scores_seen")] == [0] * 5


def test_metric_misaligned_with_too_few_epochs_is_not_checked() -> None:
    with pytest.raises(NotChecked, match="6 times"):
        find_metric_misaligned(make_record(FALLS[:4], FALLS[:4]))
