"""Tests that the rules on loss curves are silent where the run has no reference, or where it went on well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loss_curves.convergence import find_final_descent, find_plateau, find_rate_too_high, find_rate_too_low
from nbdebug.loss_curves.curve_shape import curve_shape
from nbdebug.loss_curves.run_summary import summarize_run
from nbdebug.loss_curves.stability import find_overfitting, find_spikes
from nbdebug.records import Record
from nbdebug.rule_engine.predictions import CRASH, MISSED_CLASS, POOR_TRAINING, SLOW_START, disproved_predictions
from nbdebug.rule_engine.rule_registry import find_rule
from nbdebug.rules.examples import healthy_classifier
from tests.loss_curves.synthetic_records import falling_loss, make_record

STEPS = np.arange(300)


def findings(code: str, record: Record) -> list[Finding]:
    unavailable = NotChecked("only the record is known")
    names = ("loop", "policy_gradient", "has_signed_weights", "reference", "label_choices")
    return find_rule(code)({"record": record, **dict.fromkeys(names, unavailable)})


def with_spikes(positions: list[int], height: float = 8.0) -> Any:
    loss = falling_loss(2.3, 0.05)
    loss[positions] = height
    return loss


def test_spike_in_short_last_batch_is_not_reported() -> None:
    record = make_record(with_spikes([149]), batches_per_epoch=15, batch_size=32, train_samples=450)
    assert find_spikes(summarize_run(record)) == []
    assert curve_shape(record).name == "healthy"


def test_spike_in_full_last_batch_is_reported() -> None:
    record = make_record(with_spikes([149]), batches_per_epoch=15, batch_size=32, train_samples=480)
    assert find_spikes(summarize_run(record)) == [149]


def test_single_spike_after_which_all_is_well_is_note() -> None:
    assert [item.severity for item in findings("T605", make_record(with_spikes([150])))] == ["note"]


@pytest.mark.parametrize(
    "loss",
    [with_spikes([100, 150, 220]), np.where(STEPS < 150, 1.0, 1.6) + np.where(STEPS == 151, 9.0, 0.0)],
    ids=["several", "level stays higher"],
)
def test_spikes_that_recur_or_leave_harm_stay_warnings(loss: Any) -> None:
    noise = 1 + 0.02 * np.random.default_rng(0).normal(size=300)
    assert "note" not in [item.severity for item in findings("T605", make_record(loss * noise))]


def validation_record(val: list[float], score: float, train: list[float] | None = None) -> Record:
    evals = {
        "sample_train_loss": train or np.geomspace(2.3, 0.05, len(val)),
        "sample_val_loss": val,
        "sample_val_score": [0.1] * (len(val) - 1) + [score],
        "sample_train_score": [0.99] * len(val),
    }
    return make_record(falling_loss(2.3, 0.05), evals=evals, label_counts={str(i): 25 for i in range(10)})


@pytest.mark.parametrize("val", [[2.3, 2.6, 3.0, 3.3, 3.8, 4.2], [2.3, 2.9, 3.1, 2.8, 3.4, 3.9]])
def test_validation_loss_that_was_lowest_before_training_is_no_overfitting(val: list[float]) -> None:
    assert find_overfitting(summarize_run(validation_record(val, 0.1))) is None


def test_validation_loss_that_passed_its_minimum_is_overfitting() -> None:
    turn = find_overfitting(summarize_run(validation_record([2.3, 1.6, 1.5, 1.9, 2.3, 2.9], 0.5)))
    assert turn is not None
    assert turn.step > 0


# By name: the validation losses, those of training, the number of validation samples, and whether it is overfitting.
SPLIT_SIZES: dict[str, tuple[list[float], list[float], int, bool]] = {
    "small rise on 16 samples": ([2.3, 1.0, 0.9, 1.1, 1.3], [2.3, 0.9, 0.7, 0.4, 0.2], 16, False),
    "the same rise on 90 samples": ([2.3, 1.0, 0.9, 1.1, 1.3], [2.3, 0.9, 0.7, 0.4, 0.2], 90, True),
    "the same rise on 1,000 samples": ([2.3, 1.0, 0.9, 1.1, 1.3], [2.3, 0.9, 0.7, 0.4, 0.2], 1000, True),
    "the same rise on an unknown number": ([2.3, 1.0, 0.9, 1.1, 1.3], [2.3, 0.9, 0.7, 0.4, 0.2], 0, True),
    "large rise on 16 samples": ([2.3, 1.2, 1.0, 2.0, 2.6], [2.3, 0.9, 0.7, 0.3, 0.05], 16, True),
    "single small rise on 10 samples": ([2.3, 1.0, 1.6], [2.3, 0.8, 0.2], 10, False),
    "single large rise on 10 samples": ([2.3, 1.0, 2.4], [2.3, 0.8, 0.2], 10, True),
    "slightly worse than at the start, 9 samples": ([2.3, 2.9], [2.3, 0.05], 9, False),
    "slightly worse than at the start, 900 samples": ([2.3, 2.9], [2.3, 0.05], 900, True),
}


@pytest.mark.parametrize("name", SPLIT_SIZES)
def test_t609_rise_of_a_small_validation_split_must_exceed_its_noise(name: str) -> None:
    val, train, samples, expected = SPLIT_SIZES[name]
    record = validation_record(val, 0.6, train)
    record.about["val_samples"] = samples
    assert (find_overfitting(summarize_run(record)) is not None) is expected


@pytest.mark.parametrize(("score", "expected"), [(0.1, False), (0.15, False), (0.6, True)])
def test_validation_measured_twice_is_overfitting_only_if_something_was_learned(score: float, expected: bool) -> None:
    record = validation_record([2.3, 3.5], score, [2.3, 0.05])
    assert (find_overfitting(summarize_run(record)) is not None) is expected
    assert all("lowest at step 0" not in item.message for item in findings("T609", record))


@pytest.mark.parametrize(
    ("val", "train", "expected"),
    [
        ([2.3, 1.0, 1.6], [2.3, 0.8, 0.2], True),
        ([2.3, 1.0, 1.2], [2.3, 0.8, 0.2], False),
        ([2.3, 1.0, 1.6], [2.3, 0.8, 0.7], False),
        ([2.3, 1.6, 1.0], [2.3, 0.8, 0.2], False),
        ([2.3, 2.4, 2.6], [2.3, 0.8, 0.2], False),
        ([2.3, 1.0], [2.3, 0.9], False),
    ],
    ids=["rises", "rises a little", "training goes on too", "falls", "learned nothing", "one epoch"],
)
def test_single_measurement_after_the_minimum_needs_a_large_rise(
    val: list[float], train: list[float], expected: bool
) -> None:
    assert (find_overfitting(summarize_run(validation_record(val, 0.5, train))) is not None) is expected


@pytest.mark.parametrize(("train", "is_told"), [([2.3, 0.8, 0.1], True), ([2.3, 1.3, 1.1], False)])
def test_large_gap_of_few_measurements_is_told_as_not_checked(train: list[float], is_told: bool) -> None:
    record = validation_record([2.3, 1.0, 1.2], 0.5, train)
    if not is_told:
        assert findings("T609", record) == []
        return
    with pytest.raises(NotChecked, match=r"measured 3 times and ended at 1\.2, far above the training loss"):
        findings("T609", record)


@pytest.mark.parametrize("code", ["T601", "T606"])
def test_level_of_loss_without_loss_fn_is_not_judged(code: str) -> None:
    loss = 0.12 + 0.02 * np.random.default_rng(0).normal(size=300)
    reason = "no loss_fn was given"
    record = make_record(loss, chance=None)
    record.about["loss"] = ""
    with pytest.raises(Exception, match=reason):
        findings(code, record)


def test_loss_that_still_falls_has_no_plateau() -> None:
    loss = np.concatenate([np.full(220, 1.0), np.linspace(1.0, 0.7, 80)])
    run = summarize_run(make_record(loss * (1 + 0.05 * np.random.default_rng(1).normal(size=300))))
    assert find_final_descent(run) is not None
    assert find_plateau(run) is None


def test_first_steps_of_weights_that_start_at_zero_are_no_high_rate() -> None:
    loss = 2.25 + 0.02 * np.random.default_rng(0).normal(size=300)
    assert find_rate_too_high(summarize_run(make_record(loss, ratio=0.6))) is not None
    record = make_record(loss, ratio=0.6, zero_parameters=["0.weight", "2.weight"])
    assert find_rate_too_high(summarize_run(record)) is None


def test_long_first_steps_that_lower_the_loss_are_no_high_rate() -> None:
    loss = np.concatenate([[2.3], np.full(299, 0.8)]) + 0.01 * np.random.default_rng(0).normal(size=300)
    assert find_rate_too_high(summarize_run(make_record(loss, ratio=0.6))) is None


def test_slow_start_is_disproved_by_a_loss_that_halves_at_once_where_no_constant_prediction_is_known() -> None:
    quick = np.concatenate([np.linspace(8.0, 3.0, 10), np.full(290, 1.0)])
    slow = np.concatenate([np.linspace(8.0, 3.0, 100), np.full(200, 1.0)])
    assert "half of its start by step" in disproved_predictions(make_record(quick, chance=None))[SLOW_START.claim]
    assert SLOW_START.claim not in disproved_predictions(make_record(slow, chance=None))


def test_disproved_predictions_of_runs_tell_what_they_showed() -> None:
    score = {"sample_val_score": [0.1, 0.99], "sample_val_loss": [2.3, 0.05], "sample_val_recall": [0.0, 0.9]}
    good = disproved_predictions(make_record(falling_loss(9.0, 0.05), evals=score))
    assert {POOR_TRAINING.claim, SLOW_START.claim, MISSED_CLASS.claim} <= set(good)
    assert "0.99" in good[POOR_TRAINING.claim]
    missed = {**score, "sample_val_recall": [0.0, 0.2]}
    assert MISSED_CLASS.claim not in disproved_predictions(make_record(falling_loss(9.0, 0.05), evals=missed))
    assert disproved_predictions(make_record(np.full(300, 2.3))).keys() == {CRASH.claim}
    assert disproved_predictions(Record()) == {}


LINE_NEAR_CHANCE = 2.3 - 0.3 * np.arange(300) / 300 + 0.005 * np.random.default_rng(0).normal(size=300)


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(8e-4, True), (2e-3, True), (4e-3, False), (6e-3, False), (1.5e-2, False)],
    ids=["short steps", "short sum", "usual steps", "long steps", "very long steps"],
)
def test_slow_decrease_is_due_to_the_rate_only_if_the_steps_are_short(ratio: float, expected: bool) -> None:
    assert (find_rate_too_low(summarize_run(make_record(LINE_NEAR_CHANCE, ratio=ratio))) is not None) is expected


@pytest.mark.parametrize(
    ("ratio", "repeats", "expected"), [(8e-4, 1, True), (8e-4, 8, True), (1.4e-3, 8, False), (2.5e-3, 8, False)]
)
def test_many_steps_of_usual_size_are_no_low_rate(ratio: float, repeats: int, expected: bool) -> None:
    loss = 2.3 - 0.3 * np.arange(300 * repeats) / (300 * repeats)
    loss += 0.005 * np.random.default_rng(0).normal(size=len(loss))
    assert (find_rate_too_low(summarize_run(make_record(loss, ratio=ratio))) is not None) is expected


@pytest.mark.parametrize(
    ("travel", "ratio", "cause"),
    [
        (0.1, 1e-4, "still near their initial values"),
        (0.7, 2e-3, "the sum of all update norms is less than the norm of the weights"),
        (1.9, 8e-4, "is below the usual 0.001"),
    ],
)
def test_cause_of_short_steps_agrees_with_their_sum(travel: float, ratio: float, cause: str) -> None:
    steps = round(travel / ratio)
    loss = 2.3 - 0.3 * np.arange(steps) / steps + 0.005 * np.random.default_rng(0).normal(size=steps)
    record, unavailable = make_record(loss, ratio=ratio), NotChecked("only the record is known")
    setup = healthy_classifier()
    names = ("loop", "reference", "lr_range")
    (finding,) = find_rule("O502")({"record": record, "setup": setup, **dict.fromkeys(names, unavailable)})
    assert cause in finding.cause


@pytest.mark.parametrize(
    ("train", "val", "is_reported"),
    [
        ([2.3, 2.0, 1.9, 1.9], [4.6, 4.2, 4.1, 4.1], False),  # the loss compares the samples of a batch
        ([2.3, 2.1, 1.6], [2.3, 2.1, 1.8], False),
        ([2.3, 2.0, 1.9, 1.9], [], False),
        ([2.3, 2.29, 2.28, 2.28], [4.6, 4.59, 4.58, 4.58], True),
        ([2.3, 2.0, 1.9, 1.9], [4.6, 4.7, 4.8, 4.9], True),  # memorized
        ([2.3, 1.9, 2.2, 2.3], [2.3, 1.9, 2.2, 2.3], True),
        ([4.6, 2.3, 2.3, 2.3], [4.6, 2.3, 2.3, 2.3], True),  # no better than a constant prediction
    ],
)
def test_loss_hidden_by_its_noise_is_judged_by_the_same_samples(
    train: list[float], val: list[float], is_reported: bool
) -> None:
    loss = 2.2 + 0.6 * np.random.default_rng(3).normal(size=300).clip(-2, 2)
    evals = {"sample_train_loss": train} | ({"sample_val_loss": val} if val else {})
    record = make_record(loss, evals=evals, chance=train[-1] if train[0] == 4.6 else None)
    assert bool(findings("T601", record) or findings("T606", record)) is is_reported
