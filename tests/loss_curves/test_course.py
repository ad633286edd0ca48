"""Whether the loss of a loop can be compared with that of fixed samples, and so with a constant guess."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.loss_curves.run_summary import summarize_run
from tests.loss_curves.records import fall, record

FALLS = {"sample_train_loss": [2.3, 0.8, 0.45, 0.38, 0.35]}
UP_AND_DOWN = np.exp(np.random.default_rng(0).normal(3, 1.5, 40))  # a rate far too high: from 1 to 300


def test_a_loop_that_minimizes_the_known_loss_is_measured_by_a_constant_guess() -> None:
    course = summarize_run(record(fall(2.3, 0.33), evals=FALLS))
    assert (course.loss_is_known, course.chance) == (True, 2.3)


@pytest.mark.parametrize("factor", [0.1, 16.0])
def test_a_loop_that_divides_or_adds_up_its_loss_has_a_constant_guess_of_its_own(factor: float) -> None:
    course = summarize_run(record(factor * fall(2.3, 0.33), evals=FALLS))
    assert course.loss_is_known
    assert course.chance == pytest.approx(2.3 * factor, rel=0.1)


def test_a_loop_that_minimizes_something_else_is_not_measured_by_it() -> None:
    course = summarize_run(record(fall(2.3, 90.0), evals=FALLS))
    assert (course.loss_is_known, course.chance) == (False, None)


def test_a_loss_that_is_thrown_about_may_be_far_from_that_of_samples_measured_in_between() -> None:
    loss = np.concatenate([[2.3], UP_AND_DOWN])
    course = summarize_run(record(loss, evals={"sample_train_loss": [2.3, 2.0, 4.0, 2.0]}))
    assert (course.loss_is_known, course.chance) == (True, 2.3)
    calm = np.concatenate([[2.3], np.full(40, np.median(UP_AND_DOWN))])
    assert not summarize_run(record(calm, evals={"sample_train_loss": [2.3, 2.0, 4.0, 2.0]})).loss_is_known
