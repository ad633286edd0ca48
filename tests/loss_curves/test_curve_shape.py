"""Tests of curve_shape() on one synthetic record per shape."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.loss_curves import curve_shape
from nbdebug.records import Record
from tests.loss_curves.synthetic_records import falling_loss, make_record

STEPS = np.arange(300)
UNSTABLE = np.where(STEPS < 10, 500.0 / (1 + STEPS), 2.1) * (1 + 0.02 * np.random.default_rng(1).normal(size=300))
REPEATED_SPIKES = np.where(STEPS % 60 == 50, 40.0, falling_loss(2.3, 0.3))
LATE_SPIKES = np.where((STEPS > 200) & (STEPS % 40 == 7), 30.0, falling_loss(2.3, 0.2))
EPOCH_DRIFT = falling_loss(2.3, 0.8) + 0.8 * ((STEPS % 30) < 15)
EQUAL_EVALS = {"sample_train_loss": [2.3, 1, 0.9, 0.9], "sample_val_loss": [2.3, 1, 0.9, 0.9]}
OVERFITTING_EVALS = {
    "sample_train_loss": [2.3, 0.9, 0.3, 0.1, 0.05, 0.03],
    "sample_val_loss": [2.3, 1.2, 1.0, 1.2, 1.5, 1.8],
}
BETTER_VAL_EVALS = {"sample_train_loss": [2.3, 1.4, 1.1, 1.0, 1.0], "sample_val_loss": [2.3, 0.7, 0.4, 0.3, 0.3]}

SHAPES: dict[str, Record] = {
    "healthy": make_record(falling_loss(2.3, 0.2)),
    "rate too high": make_record(UNSTABLE, ratio=0.6),
    "rate too low": make_record(2.3 - 0.0002 * STEPS + 0.01 * np.random.default_rng(2).normal(size=300), ratio=1e-5),
    "overfitting": make_record(falling_loss(2.3, 0.03), evals=OVERFITTING_EVALS),
    "spike": make_record(REPEATED_SPIKES),
    "stalled": make_record(falling_loss(2.3, 1.2, decay=40)),
    "under-capacity": make_record(falling_loss(2.3, 0.9, decay=40), evals=EQUAL_EVALS),
    "stuck at chance": make_record(2.3 + 0.02 * np.random.default_rng(3).normal(size=300)),
    "better on validation": make_record(falling_loss(2.3, 1.0), evals=BETTER_VAL_EVALS),
    "falls then spikes": make_record(LATE_SPIKES),
    "epoch rhythm": make_record(EPOCH_DRIFT, batches_per_epoch=30),
    "NaN at once": make_record([np.inf] * 20),
    "diverging": make_record(np.linspace(2.3, 9.0, 300), ratio=1e-3),
    "still falling": make_record(np.linspace(2.3, 0.8, 300) * (1 + 0.01 * np.random.default_rng(4).normal(size=300))),
    "not decreasing": make_record(0.05 + 0.1 * np.linspace(0, 1, 200) + 0.08 * np.random.default_rng(0).random(200)),
    "not finite": make_record([*falling_loss(2.3, 0.2), *[np.inf] * 20]),
    "too short": make_record([2.3, 2.2, 2.1]),
    "no loss": Record(),
}


@pytest.mark.parametrize("name", SHAPES)
def test_curve_shape_has_the_expected_name_and_a_sentence(name: str) -> None:
    shape = curve_shape(SHAPES[name])
    assert shape.name == name
    assert shape.sentence.endswith(".")


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in ("too short", "no loss", "NaN at once")])
def test_curve_shape_says_that_the_loss_fell_only_if_it_did(name: str) -> None:
    sentence = curve_shape(SHAPES[name]).sentence
    _, losses = SHAPES[name].series("loss")
    if "fell" in sentence or "falls" in sentence:
        assert np.median(losses[-20:]) < np.median(losses[:20])


@pytest.mark.parametrize("seed", range(20))
def test_curve_shape_of_constant_noise_is_never_healthy(seed: int) -> None:
    noise = np.random.default_rng(seed).random(60)
    assert curve_shape(make_record(0.05 + 0.02 * noise)).name == "not decreasing"


def test_curve_shape_of_loss_that_turns_infinite_raises_no_numpy_error() -> None:
    with np.errstate(all="raise"):
        assert curve_shape(make_record([1.0, 1.0, 1.0, *[np.inf] * 30])).name != "NaN at once"
