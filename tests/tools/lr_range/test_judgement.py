"""Tests of the verdict on the current rate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nbdebug.debugger import Debugger
from nbdebug.rules.optim import lr_too_high, lr_too_low
from nbdebug.tools.lr_range.data import Suggestion, Sweep
from nbdebug.tools.lr_range.judgement import judge_rate
from nbdebug.training.divergence import smooth_curve

RATES = np.geomspace(1e-7, 10, 100)
RECOMMENDED = Suggestion("recommended", 1e-2, 5e-3, 3e-2)


def u_curve(seed: int = 0, shift: float = 0.0, ended: Any = "diverged") -> Sweep:
    """A noisy curve: flat up to 1e-4, steepest at 1e-2, lowest at about 0.1, diverged from about a third on."""
    x = np.log10(RATES[RATES < 2])
    losses = 2.3 - 1.8 / (1 + np.exp(-4 * (x + 2))) + 4.0 * np.clip(x + 1, 0, None) ** 1.2
    losses = (losses + np.random.default_rng(seed).normal(0, 0.03, len(x)) + shift).tolist()
    return Sweep(seed, tuple(RATES[: len(x)].tolist()), tuple(losses), smooth_curve(losses), ended)


SWEEPS = [u_curve(seed) for seed in range(3)]


@pytest.mark.parametrize(
    ("rate", "verdict"),
    [
        *((rate, "too low") for rate in (1e-9, 1e-7, 1e-5, 4e-4)),
        *((rate, "fine") for rate in (6e-4, 1e-2, 3e-2, 0.1, 0.3)),
        *((rate, "too high") for rate in (0.9, 5.0, 1e3)),
    ],
)
def test_judge_rate_gives_verdict_by_position_on_curve(rate: float, verdict: str) -> None:
    assert judge_rate(rate, SWEEPS, RECOMMENDED.low).verdict == verdict
    negative_sweeps = [u_curve(seed, shift=-40.0) for seed in range(3)]
    assert judge_rate(rate, negative_sweeps, RECOMMENDED.low).verdict == verdict


@pytest.mark.parametrize(
    ("rate", "sentence"),
    [
        (1e-5, "1e-05 is too low: at this value the loss reached 0% of its total decrease"),
        (1e-3, "0.001 is fine, on the low side of the recommended 0.01"),
        (1e-2, "0.01 is fine"),
        (0.1, "0.1 is fine, on the high side of the recommended 0.01"),
        (
            0.25,
            "0.25 is above the recommended 0.01: at this value the loss had risen again by 71% of its total decrease, "
            "and it diverges from 0.35 on",
        ),
    ],
)
def test_rate_judgement_sentence_states_verdict_and_recommendation(rate: float, sentence: str) -> None:
    assert judge_rate(rate, SWEEPS, RECOMMENDED.low).sentence(rate, RECOMMENDED) == sentence


def test_rate_judgement_too_high_names_divergence_value() -> None:
    judgement = judge_rate(5.0, SWEEPS, RECOMMENDED.low)
    assert 0.25 < judgement.divergence_value < 0.5
    assert f"diverges from {judgement.divergence_value:.2g} on" in judgement.sentence(5.0, RECOMMENDED)


def test_judge_rate_without_recommendation_reports_only_too_high() -> None:
    assert judge_rate(5.0, SWEEPS, None).verdict == "too high"
    assert judge_rate(1e-6, SWEEPS, None).verdict == ""
    assert judge_rate(1e-6, SWEEPS, None).sentence(1e-6, None) == ""


def test_judge_rate_divergence_in_minority_of_sweeps_is_fine() -> None:
    sweeps = [u_curve(0), u_curve(1, ended="finished"), u_curve(2, ended="finished")]
    assert judge_rate(5.0, sweeps, RECOMMENDED.low).verdict == "fine"


@pytest.mark.parametrize(
    "sweeps",
    [[], [Sweep(0, (), (), (), "not finite")], [Sweep(0, (1e-7,), (2.0,), (2.0,))]],
    ids=["no sweep", "empty sweep", "one step"],
)
def test_judge_rate_without_curve_has_no_verdict(sweeps: list[Sweep]) -> None:
    assert judge_rate(1.0, sweeps, None).verdict == ""


@pytest.mark.parametrize(("rule", "code"), [(lr_too_high, "O501"), (lr_too_low, "O502")])
def test_lr_range_on_rule_examples_reports_same_code_as_rule(rule: Any, code: str) -> None:
    bad, good = Debugger.of(rule.bad()), Debugger.of(rule.good())
    bad.lr_range()
    good.lr_range()
    assert [finding.code for finding in bad.findings] == [code]
    assert not good.findings.faults
