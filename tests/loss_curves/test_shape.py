"""Each known shape of a loss curve is named, and the rest are healthy."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.loss_curves import curve_shape
from nbdebug.records import Record
from tests.loss_curves.records import fall, record

STEPS = np.arange(300)
THROWN = np.where(STEPS < 10, 500.0 / (1 + STEPS), 2.1) * (1 + 0.02 * np.random.default_rng(1).normal(size=300))
SPIKED = np.where(STEPS % 60 == 50, 40.0, fall(2.3, 0.3))
LATE = np.where((STEPS > 200) & (STEPS % 40 == 7), 30.0, fall(2.3, 0.2))
DRIFT = fall(2.3, 0.8) + 0.8 * ((STEPS % 30) < 15)
BOTH = {"sample_train_loss": [2.3, 1, 0.9, 0.9], "sample_val_loss": [2.3, 1, 0.9, 0.9]}
TURN = {"sample_train_loss": [2.3, 0.9, 0.3, 0.1, 0.05, 0.03], "sample_val_loss": [2.3, 1.2, 1.0, 1.2, 1.5, 1.8]}
EASY = {"sample_train_loss": [2.3, 1.4, 1.1, 1.0, 1.0], "sample_val_loss": [2.3, 0.7, 0.4, 0.3, 0.3]}

SHAPES: dict[str, Record] = {
    "healthy": record(fall(2.3, 0.2)),
    "rate too high": record(THROWN, ratio=0.6),
    "rate too low": record(2.3 - 0.0002 * STEPS + 0.01 * np.random.default_rng(2).normal(size=300), ratio=1e-5),
    "overfitting": record(fall(2.3, 0.03), evals=TURN),
    "spike": record(SPIKED),
    "stalled": record(fall(2.3, 1.2, pace=40)),
    "under-capacity": record(fall(2.3, 0.9, pace=40), evals=BOTH),
    "stuck at chance": record(2.3 + 0.02 * np.random.default_rng(3).normal(size=300)),
    "better on validation": record(fall(2.3, 1.0), evals=EASY),
    "falls then spikes": record(LATE),
    "epoch rhythm": record(DRIFT, batches_per_epoch=30),
    "NaN at once": record([np.inf] * 20),
    "diverging": record(np.linspace(2.3, 9.0, 300), ratio=1e-3),
    "still falling": record(np.linspace(2.3, 0.8, 300) * (1 + 0.01 * np.random.default_rng(4).normal(size=300))),
    "too short": record([2.3, 2.2, 2.1]),
    "no loss": Record(),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_has_its_name_and_a_sentence(name: str) -> None:
    found = curve_shape(SHAPES[name])
    assert found.name == name
    assert found.sentence.endswith(".")


def test_a_loss_of_nothing_but_infinity_is_judged_without_a_warning() -> None:
    with np.errstate(all="raise"):
        assert curve_shape(record([1.0, 1.0, 1.0, *[np.inf] * 30])).name != "NaN at once"
