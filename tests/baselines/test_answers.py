"""What each baseline gets is what scikit-learn says, and what brute force comes to."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import entropy
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, mean_absolute_error, mean_squared_error

from nbdebug.baselines import Baselines, measure_baselines
from nbdebug.baselines.comparison import compare_scores, score_labels, score_values
from nbdebug.baselines.models import (
    score_constant_classes,
    score_constant_values,
    score_shuffled_classes,
    score_shuffled_values,
)
from nbdebug.metrics.comparison import compare_paired
from nbdebug.predictions import ClassificationTable
from nbdebug.tools.errors.tool import errors_from_predictions
from tests.baselines.trained import browser_of, classes, numbers

RANDOM = np.random.default_rng(0)
TARGET = RANDOM.choice(4, 300, p=[0.5, 0.3, 0.15, 0.05])
SCORES = RANDOM.normal(size=(300, 4)) + 2 * np.eye(4)[TARGET]
CHANCES = np.exp(SCORES) / np.exp(SCORES).sum(1, keepdims=True)
ROWS = np.arange(300)
REAL = RANDOM.normal(size=300)
SAID = REAL + RANDOM.normal(size=300)


def test_constant_classes_are_those_of_scikit_learn() -> None:
    known = RANDOM.choice(4, 500, p=[0.45, 0.3, 0.2, 0.05])
    majority, prior = score_constant_classes(ROWS, TARGET, known, "abcd")
    dummy = DummyClassifier(strategy="most_frequent").fit(np.zeros((500, 1)), known).predict(np.zeros((300, 1)))
    assert majority.value("accuracy") == pytest.approx(accuracy_score(TARGET, dummy))
    assert majority.value("balanced accuracy") == pytest.approx(balanced_accuracy_score(TARGET, dummy))
    assert majority.description == "always a"
    shares = (np.bincount(known) + 0.5) / 502
    assert prior.value("log loss") == pytest.approx(log_loss(TARGET, np.tile(shares, (300, 1))))


def test_the_loss_of_the_prior_of_the_rows_is_its_entropy() -> None:
    many = np.repeat(TARGET, 1000)
    _, prior = score_constant_classes(np.arange(len(many)), many, many, "abcd")
    assert prior.value("log loss") == pytest.approx(entropy(np.bincount(many) / len(many)), abs=1e-5)
    assert prior.value("accuracy") == pytest.approx(((np.bincount(many) / len(many)) ** 2).sum(), abs=1e-5)


def test_constant_numbers_are_those_of_scikit_learn() -> None:
    known = RANDOM.normal(size=200)
    for one, strategy in zip(score_constant_values(ROWS, REAL, known), ("mean", "median"), strict=True):
        dummy = DummyRegressor(strategy=strategy).fit(np.zeros((200, 1)), known).predict(np.zeros((300, 1)))
        assert one.value("mean squared error") == pytest.approx(mean_squared_error(REAL, dummy))
        assert one.value("mean absolute error") == pytest.approx(mean_absolute_error(REAL, dummy))


def test_blind_is_the_mean_over_all_other_rows() -> None:
    label = CHANCES.argmax(1)
    found = score_shuffled_classes(ROWS, TARGET, label, CHANCES)
    others = ~np.eye(300, dtype=bool)
    hits = (label[None, :] == TARGET[:, None]) & others
    assert found.value("accuracy") == pytest.approx(hits.sum() / others.sum())
    logs = -np.log(CHANCES).T[TARGET]
    assert found.value("log loss") == pytest.approx(logs[others].mean())
    shuffles = [np.random.default_rng(i).permutation(300) for i in range(300)]
    assert found.value("accuracy") == pytest.approx(np.mean([np.mean(label[p] == TARGET) for p in shuffles]), abs=4e-3)


def test_blind_numbers_are_the_mean_over_all_other_rows() -> None:
    found = score_shuffled_values(ROWS, REAL, SAID)
    others = ~np.eye(300, dtype=bool)
    off = REAL[:, None] - SAID[None, :]
    assert found.value("mean squared error") == pytest.approx((off**2)[others].mean())
    assert found.value("mean absolute error") == pytest.approx(np.abs(off)[others].mean())


def test_differences_of_accuracy_have_the_interval_of_paired_shares() -> None:
    model = score_labels("model", "", ROWS, TARGET, CHANCES.argmax(1))
    other = score_labels("linear", "", ROWS[50:], TARGET[50:], np.zeros(250))
    _, _, one, _ = compare_scores(model, [other])
    expected = compare_paired(TARGET[50:] == 0, CHANCES.argmax(1)[50:] == TARGET[50:])
    assert (one.gain, one.gain_low, one.gain_high) == pytest.approx((expected.gain, expected.low, expected.high))
    assert one.rows == 250


def test_the_bootstrap_has_the_width_of_the_normal_interval() -> None:
    model, other = score_values("model", "", ROWS, REAL, SAID), score_values("mean", "", ROWS, REAL, 0.0)
    found = list(compare_scores(model, [other]))
    gain = REAL**2 - (REAL - SAID) ** 2
    assert found[2].gain == pytest.approx(gain.mean())
    half = 1.96 * gain.std() / 300**0.5
    assert (found[2].gain_high - found[2].gain_low) / 2 == pytest.approx(half, rel=0.1)


def test_intervals_of_a_difference_hold_its_truth_as_often_as_they_say() -> None:
    inside = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        target = random.integers(0, 2, 80)
        said = [np.where(random.random(80) < share, target, 1 - target) for share in (0.8, 0.7)]
        model, other = (
            score_labels(name, "", np.arange(80), target, one) for name, one in zip("ab", said, strict=True)
        )
        found = next(one for one in compare_scores(model, [other]) if one.name == "b")
        inside += found.gain_low <= 0.1 <= found.gain_high
    assert 180 <= inside <= 198


def test_a_model_is_compared_by_all_that_it_has() -> None:
    found = browser_of(classes()).baselines()
    assert found.metrics == ("accuracy", "balanced accuracy", "log loss")
    assert found.names == ("majority", "prior", "blind", "linear", "nearest")
    assert found.notes == ()
    assert found.trained_on == 600
    assert found.rows == 400
    majority = found.get("majority", "accuracy")
    assert majority is not None
    assert majority.is_beaten


def test_numbers_are_compared_too() -> None:
    found = browser_of(numbers()).baselines()
    assert found.metrics == ("mean squared error", "mean absolute error")
    assert found.names == ("mean", "median", "blind", "linear", "nearest")
    assert all(one.is_beaten for one in found.comparisons if one.name in ("mean", "median", "blind"))
    gains = found.to_frame().query("name == 'linear' and metric == 'mean squared error'")
    assert len(found.only["linear"]) > 0
    assert np.isfinite(gains.to_numpy()[0, 2:].astype(float)).all()


def test_labels_alone_are_compared_with_what_knows_of_labels() -> None:
    errors = errors_from_predictions(["b", "b", "a", "a"] * 20, ["b", "b", "a", "c"] * 20)
    found = errors.baselines()
    assert found.names == ("majority", "prior", "blind")
    assert found.metrics == ("accuracy", "balanced accuracy")
    assert "training rows" in found.notes[0]


def test_it_reads_as_text_picture_and_table() -> None:
    found = browser_of(classes()).baselines()
    assert isinstance(found, Baselines)
    text = str(found)
    assert text.startswith("nbdebug baselines: accuracy ")
    assert "always 0" in text
    assert len(found.plot().patches) == 6
    html = found._repr_mimebundle_()["text/html"]
    assert "nearest" in html
    assert len(html) < 300_000


def test_it_is_measured_once() -> None:
    errors = browser_of(classes())
    first = errors.baselines(seconds=2.0)
    assert errors.baselines(seconds=1.0) is first
    assert errors.baselines(seconds=2.5) is not first


def test_rows_without_a_target_do_not_count() -> None:
    target = np.where(np.arange(300) < 20, -1, TARGET)
    errors = errors_from_predictions(SCORES.astype(np.float32), target)
    assert isinstance(errors.table, ClassificationTable)
    assert measure_baselines(None, errors.table).rows == 280
