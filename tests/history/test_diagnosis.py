from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import nbdebug
from nbdebug.exceptions import SetupError
from nbdebug.history import CurveDiagnosis

EPOCHS = np.arange(30)
FALL = (0.1 + np.exp(-EPOCHS / 4)).tolist()


def names(history: object, **options: int) -> list[str]:
    return [finding.name for finding in nbdebug.diagnose(history, **options)]


def faults(history: object) -> list[str]:
    return [finding.name for finding in nbdebug.diagnose(history) if finding.severity != "note"]


def test_healthy_curves_have_no_fault() -> None:
    noise = np.random.default_rng(0).normal(0, 0.01, 30)
    diagnosis = nbdebug.diagnose({"loss": FALL, "val_loss": [v + 0.02 + n for v, n in zip(FALL, noise, strict=True)]})
    assert diagnosis.verdict == "healthy"
    assert "healthy" in str(diagnosis)


def test_overfitting_names_the_best_epoch() -> None:
    val = (0.3 + np.exp(-EPOCHS / 3) + (EPOCHS / 15) ** 2).tolist()
    diagnosis = nbdebug.diagnose({"loss": np.exp(-EPOCHS / 5), "val_loss": val, "lr": [1e-3] * 30})
    assert diagnosis.verdict == "overfitting"
    assert diagnosis.best is not None
    assert diagnosis.best.position == int(np.argmin(val)) + 1
    assert f"epoch {int(np.argmin(val)) + 1} " in diagnosis.findings[0].message


def test_epochs_that_count_from_zero_keep_their_numbers() -> None:
    val = (0.3 + np.exp(-EPOCHS / 3) + (EPOCHS / 15) ** 2).tolist()
    diagnosis = nbdebug.diagnose({"epoch": EPOCHS.tolist(), "loss": np.exp(-EPOCHS / 5), "val_loss": val})
    assert f"epoch {int(np.argmin(val))} " in diagnosis.findings[0].message


def test_gap_that_stays() -> None:
    assert faults({"loss": np.exp(-EPOCHS / 4), "val_loss": 0.6 + 0.4 * np.exp(-EPOCHS.astype(float))}) == [
        "generalization-gap"
    ]


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        ([*FALL[:20], float("nan"), *[float("nan")] * 9], "non-finite-loss"),
        ((0.5 * 1.15**EPOCHS).tolist(), "diverging-loss"),
        ([9e4, 60.0, *FALL], "lr-too-high"),
        ([1.0, 0.8, 0.6] + [0.3, 0.9] * 14, "oscillating-loss"),
        ((0.7 - 0.001 * EPOCHS).tolist(), "stopped-early"),
        (np.random.default_rng(0).normal(2.3, 0.01, 30).tolist(), "flat-loss"),
    ],
)
def test_faults_of_the_loss(loss: list[float], name: str) -> None:
    assert faults({"loss": loss})[0] == name


def test_spike_of_a_step_has_its_step() -> None:
    loss = np.exp(-np.arange(400) / 80) + 0.1 + np.random.default_rng(0).normal(0, 0.01, 400)
    loss[300] = 9
    diagnosis = nbdebug.diagnose({"step": list(range(10, 4010, 10)), "loss": loss})
    assert [(f.name, f.where.step) for f in diagnosis if f.severity != "note"] == [("loss-spike", 3010)]


def test_number_of_classes_gives_the_level_of_chance() -> None:
    loss = np.log(10) + np.random.default_rng(0).normal(0, 0.005, 60)
    assert names({"loss": loss}, classes=10)[0] == "stuck-at-chance"


def test_poor_accuracy_on_both_splits() -> None:
    accuracy = (0.3 - 0.2 * np.exp(-EPOCHS / 4)).tolist()
    history = {"loss": (1.9 + 0.4 * np.exp(-EPOCHS / 4)), "val_loss": (1.95 + 0.4 * np.exp(-EPOCHS / 4))}
    assert faults({**history, "accuracy": accuracy, "val_accuracy": accuracy}) == ["underfitting"]


def test_validation_better() -> None:
    assert faults({"loss": FALL, "val_loss": [0.3 * v for v in FALL]}) == []  # from the start: other samples or scale
    train = [v + 0.5 for v in FALL]
    assert faults({"loss": train, "val_loss": [v * (0.95 - 0.03 * i) for i, v in enumerate(train)]}) == [
        "validation-better"
    ]


def test_few_values_are_said_and_still_judged() -> None:
    diagnosis = nbdebug.diagnose({"loss": [1, 0.5, 0.2, 0.1, 0.05], "val_loss": [1.0, 0.8, 0.9, 1.0, 1.2]})
    assert diagnosis.verdict == "overfitting"
    assert "5 values" in str(diagnosis)


def test_short_history_of_one_value() -> None:
    assert nbdebug.diagnose({"loss": [0.5]}).verdict == "healthy"


@pytest.fixture
def diagnosis() -> CurveDiagnosis:
    return nbdebug.diagnose({"loss": [*FALL, float("inf")], "val_loss": FALL, "accuracy": FALL})


def test_result(diagnosis: CurveDiagnosis) -> None:
    assert str(pickle.loads(pickle.dumps(diagnosis))) == str(diagnosis)
    assert diagnosis.to_frame().severity[0] == "error"
    assert diagnosis.plot().get_xlabel() == "epoch"
    page = diagnosis.to_html()
    assert "http://" not in page
    assert "https://" not in page
    assert "non-finite-loss" in diagnosis.to_markdown()


def test_names_of_curves_are_escaped() -> None:
    assert "<b>x" not in nbdebug.diagnose([{"loss": 1.0, "val_loss": 1.0, "<b>x": 3}]).to_html()


def test_unknown_option_and_bad_classes() -> None:
    with pytest.raises(SetupError, match="classes is 1"):
        nbdebug.diagnose({"loss": FALL}, classes=1)
    with pytest.raises(SetupError, match="option of diagnose is 'class'"):
        nbdebug.diagnose({"loss": FALL}, **{"class": 3})


def test_nan_of_training_beside_finite_validation() -> None:
    assert faults({"loss": [1.0, 0.5, *[float("nan")] * 8], "val_loss": [1.0] * 10})[0] == "non-finite-loss"


def test_history_of_ten_epochs_is_too_short_for_an_oscillation() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "oscillating-loss" not in names({"loss": [0.7 + 0.2 * (i % 3) for i in range(10)]})
