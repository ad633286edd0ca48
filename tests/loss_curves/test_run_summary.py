"""Tests of summarize_run(): is the loss of the loop comparable with chance level?"""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.loss_curves.convergence import find_rate_too_high
from nbdebug.loss_curves.run_summary import summarize_run
from nbdebug.loss_curves.stability import find_epoch_periodicity, find_validation_advantage
from tests.loss_curves.synthetic_records import falling_loss, make_record

FALLING_EVALS = {"sample_train_loss": [2.3, 0.8, 0.45, 0.38, 0.35]}
UNSTABLE = np.exp(np.random.default_rng(0).normal(3, 1.5, 40))  # as at a far too high learning rate: from 1 to 300


def test_summary_of_loop_with_the_loss_of_the_setup_has_its_chance_level() -> None:
    summary = summarize_run(make_record(falling_loss(2.3, 0.33), evals=FALLING_EVALS))
    assert (summary.loss_is_known, summary.chance) == (True, 2.3)


@pytest.mark.parametrize("factor", [0.1, 16.0])
def test_summary_of_loop_with_scaled_loss_scales_its_chance_level(factor: float) -> None:
    summary = summarize_run(make_record(factor * falling_loss(2.3, 0.33), evals=FALLING_EVALS))
    assert summary.loss_is_known
    assert summary.chance == pytest.approx(2.3 * factor, rel=0.1)


@pytest.mark.parametrize("passes", [2, 4, 16])
@pytest.mark.parametrize("is_divided", [True, False])
def test_summary_of_accumulated_gradients_scales_its_chance_level_by_the_losses(passes: int, is_divided: bool) -> None:
    factor = 1 / passes if is_divided else 1.0
    evals = {"sample_train_loss": [2.31, 2.3, 2.3, 2.3]}
    record = make_record(factor * falling_loss(2.3, 2.29), evals=evals, backward_passes_per_step=passes)
    assert summarize_run(record).chance == pytest.approx(2.3 * factor)


def test_summary_of_loop_with_another_loss_has_no_chance_level() -> None:
    summary = summarize_run(make_record(falling_loss(2.3, 90.0), evals=FALLING_EVALS))
    assert (summary.loss_is_known, summary.chance) == (False, None)


def test_summary_of_unstable_loss_tolerates_distance_from_fixed_samples() -> None:
    loss = np.concatenate([[2.3], UNSTABLE])
    summary = summarize_run(make_record(loss, evals={"sample_train_loss": [2.3, 2.0, 4.0, 2.0]}))
    assert (summary.loss_is_known, summary.chance) == (True, 2.3)
    stable = np.concatenate([[2.3], np.full(40, np.median(UNSTABLE))])
    assert not summarize_run(make_record(stable, evals={"sample_train_loss": [2.3, 2.0, 4.0, 2.0]})).loss_is_known


@pytest.mark.parametrize(("last_size", "is_found"), [(10, False), (40, True)])
def test_larger_loss_of_a_smaller_last_batch_is_no_pattern_of_the_epoch(last_size: int, is_found: bool) -> None:
    loss = np.tile([0.1] * 7 + [1.0], 12) * (1 + 0.01 * np.random.default_rng(0).normal(size=96))
    about = {"batch_size": 40, "train_samples": 280 + last_size, "batches_per_epoch": 8, "steps_per_epoch": 8}
    run = summarize_run(make_record(loss, **about))
    assert (find_epoch_periodicity(run, min_slow_share=0.0) is not None) is is_found


def test_diverged_run_has_no_validation_advantage() -> None:
    evals = {
        "sample_train_loss": [1.0, 6.5e15],
        "sample_val_loss": [1.0, 6.2e15],
        "sample_train_score": [-0.1, -6.5e15],
        "sample_val_score": [-0.1, -6.2e15],
    }
    assert find_validation_advantage(summarize_run(make_record(falling_loss(1.0, 6e15), evals=evals))) is None
    evals |= {
        "sample_train_loss": [1.0, 0.8],
        "sample_val_loss": [1.0, 0.4],
        "sample_train_score": [-0.1, 0.2],
        "sample_val_score": [-0.1, 0.6],
    }
    assert find_validation_advantage(summarize_run(make_record(falling_loss(1.0, 0.8), evals=evals))) is not None


@pytest.mark.parametrize(("last", "text"), [(np.inf, "NaN or Inf"), (0.5, "0.5")])
def test_end_text_of_a_run_is_about_its_last_losses(last: float, text: str) -> None:
    losses = np.concatenate([falling_loss(2.3, 0.5), np.full(100, last)])
    assert summarize_run(make_record(losses)).end_text.startswith(text)


@pytest.mark.parametrize(("highest", "is_reported"), [(12.0, False), (24.0, True)])
def test_first_steps_are_judged_from_the_loss_before_them(highest: float, is_reported: bool) -> None:
    """The loss of the fixed samples may be lower from the start, as with outputs that are clipped in eval mode only."""
    loss = np.concatenate([[12.0, highest, highest], falling_loss(12.0, 0.4, 397)])
    evals = {"sample_train_loss": [6.4, 2.0, 1.0, 0.5, 0.4]}
    run = summarize_run(make_record(loss, evals=evals, ratio=0.3, chance=0.9))
    assert run.start == pytest.approx(6.4)
    assert (find_rate_too_high(run) is not None) is is_reported
