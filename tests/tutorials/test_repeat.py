"""Tests of the tenth tutorial: a slow loader, an unseeded generator, a rewritten model, and a checkpoint."""

from __future__ import annotations

import re

import pytest

from tests.tutorials.tutorial_outputs import executed_texts, results_of, tutorial_path


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return executed_texts(tutorial_path("10_why_is_it_slow_and_can_i_repeat_it.ipynb"))


def read_gains(texts: list[str]) -> tuple[float, float]:
    """Return the predicted and the measured gain that the tutorial prints."""
    matches = [re.search(r"predicted ([\d.]+) .* ([\d.]+) times faster", text) for text in texts]
    (gains,) = [match.groups() for match in matches if match]
    return float(gains[0]), float(gains[1])


def test_slow_line_is_named_and_its_fix_brings_most_of_the_gain(texts: list[str]) -> None:
    (profile,) = results_of(texts, "profile")
    assert "of its time for data" in profile
    assert "pixel in row" in profile
    predicted, measured = read_gains(texts)
    if not (predicted > 1.8 and measured > 0.5 * predicted):  # other processes may have taken the machine
        predicted, measured = read_gains(executed_texts(tutorial_path("10_why_is_it_slow_and_can_i_repeat_it.ipynb")))
    assert predicted > 1.8
    assert measured > 0.5 * predicted


def test_unseeded_generator_is_named_and_its_seed_cures(texts: list[str]) -> None:
    before, after = results_of(texts, "repeatable")
    assert "because of the generator noise" in before
    assert "cure: noise = np.random.default_rng(0)" in before
    assert "equal in every bit" in after


def test_rewritten_model_lacks_a_bias_until_it_is_added(texts: list[str]) -> None:
    before, *_, after = results_of(texts, "compare")
    assert "in module 0 (ProductConvolution)" in before
    assert "no tensor of b has the values of 0.bias" in before
    assert "Both sides agree" in after


def test_checkpoint_lacks_the_scheduler_until_it_is_saved(texts: list[str]) -> None:
    before, *_, after = results_of(texts, "checkpoint")  # a slow check is displayed, and printed too
    assert "scheduler not restored" in before
    assert "resumes from this checkpoint as it would have continued" in after
