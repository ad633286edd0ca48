"""Tests of confirmation runs: the rates that they try, the rate that they keep, and the restored program."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import log10
from typing import Any

import numpy as np
import pytest

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.tools.lr_range.bracket import MAX_RUNS, next_rate
from nbdebug.tools.lr_range.confirmation import apply_confirmation, confirm
from nbdebug.tools.lr_range.confirmation_run import ConfirmationRun, is_worse
from nbdebug.tools.lr_range.data import Suggestion
from nbdebug.tools.lr_range.recommendation import Recommendation
from nbdebug.tools.lr_range.result import running_view
from nbdebug.tools.lr_range.sweep import SweepPlan, choose_optimizers
from nbdebug.tools.lr_range.tool import RangeTest
from nbdebug.views.live import LiveScreen, Screen
from tests.preserve.fingerprint import fingerprint
from tests.preserve.interruption import fail, first_calls, interrupt, last_calls, record_call_paths
from tests.programs import PROGRAMS
from tests.tools.lr_range.fingerprinted_program import FingerprintedProgram
from tests.tools.lr_range.setups import ring_classifier, step_fn_with_error
from tests.tools.stopping_screens import StopAfterRows

HALVES = [0.05, 0.025, 0.0125, 0.00625]
BATCH_NOISE = np.random.default_rng(0).normal(0, 0.2, 200)


def make_run(rate: float, floor: float | None, noise: float = 0.02) -> ConfirmationRun:
    """A run whose loss falls to ``floor``, with noise shared by all runs and noise of its own; None diverges."""
    if floor is None:
        return ConfirmationRun(rate, (2.0, 3.0, 9.0), (2.0, 3.0, 9.0), "diverged")
    run_noise = np.random.default_rng(int(rate * 1e6)).normal(0, noise, 200)
    losses = tuple((floor + (2 - floor) * np.exp(-np.arange(200) / 15) + BATCH_NOISE + run_noise).tolist())
    return ConfirmationRun(rate, losses, losses)


def run_all_rates(floor_at: Callable[[float], float | None], sweep_rate: float = 0.1) -> list[ConfirmationRun]:
    """The runs at all rates that are tried if the loss at a rate falls to ``floor_at(rate)``; None diverges."""
    runs: list[ConfirmationRun] = []
    while rate := next_rate(sweep_rate, runs):
        runs.append(make_run(rate, floor_at(rate)))
    return runs


@pytest.mark.parametrize(
    ("floor_at", "expected_rates", "outcome", "kept_rate"),
    [
        (lambda rate: abs(rate - 0.1) + 0.3, [0.1, 0.2, 0.05], "confirmed", 0.1),
        (lambda rate: 0.5 if 0.04 < rate < 0.3 else 0.9, [0.1, 0.2, 0.4, 0.05, 0.025], "confirmed", 0.1),
        (lambda rate: 0.5 if 0.04 < rate < 0.15 else 0.9, [0.1, 0.2, 0.05, 0.025], "not told apart", 0.05),
        (lambda rate: 0.5 if 0.02 < rate < 0.15 else 0.9, [0.1, 0.2, *HALVES[:3]], "not told apart", 0.05),
        (lambda rate: 0.5 if 0.01 < rate < 0.15 else 0.9, [0.1, 0.2, *HALVES], "not told apart", 0.025),
        (lambda rate: 0.5 if 0.09 < rate < 0.5 else 0.9, [0.1, 0.2, 0.4, 0.8, 0.05], "not told apart", 0.2),
        (lambda rate: 0.9 if rate > 0.09 else 0.5 if rate > 0.04 else 0.7, [0.1, 0.2, 0.05, 0.025], "lowered", 0.05),
        (lambda rate: abs(rate - 1.6) + 0.3, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2], "raised", 1.6),
        (lambda rate: abs(rate - 0.2) + 0.3, [0.1, 0.2, 0.4], "raised", 0.2),
        (lambda rate: None if rate > 0.04 else 1 - rate, [0.1, 0.025, 0.0125], "lowered", 0.025),
        (lambda _: 2.5, [0.1 / 4**i for i in range(MAX_RUNS)], "lost", None),
        (lambda rate: (3 - log10(rate)) / 9, [0.1 * 2**i for i in range(MAX_RUNS)], "open", None),
        (lambda _: 0.5, [0.1 * 2**i for i in range(-4, 6)], "open", None),
        (lambda _: None, [0.1 / 4**i for i in range(MAX_RUNS)], "lost", None),
    ],
    ids=[
        "both sides are worse",
        "0.05 to 0.2 equally good",
        "0.05 and 0.1 equally good",
        "0.025 to 0.1 equally good",
        "0.0125 to 0.1 equally good",
        "0.1 to 0.4 equally good",
        "0.05 best",
        "1.6 best",
        "0.2 best",
        "diverges above 0.04",
        "all rise",
        "falls with the rate",
        "all equally good",
        "all diverge",
    ],
)
def test_confirm_brackets_best_rate_and_keeps_middle_of_best(
    floor_at: Callable[[float], float | None], expected_rates: list[float], outcome: str, kept_rate: float | None
) -> None:
    runs = run_all_rates(floor_at)
    assert sorted(run.rate for run in runs) == pytest.approx(sorted(expected_rates), rel=0.01)
    confirmation = confirm(0.1, runs)
    assert (confirmation.outcome, confirmation.kept_rate) == (outcome, kept_rate)
    assert confirmation.said.endswith(".")
    verdicts = [comparison.verdict for comparison in confirmation.comparisons]
    assert verdicts.count("kept") == (kept_rate is not None)
    assert verdicts.count("lost") == sum(run.has_failed for run in runs)
    candidate = Suggestion("recommended", 0.1, 0.08, 0.12)
    for verdict, recommended in (("clear", candidate), ("unclear", None)):
        recommendation = apply_confirmation(
            Recommendation(verdict, "Take it.", (), recommended, candidate),  # type: ignore[arg-type]
            confirmation,
        )
        assert recommendation.reasons[0] == confirmation.said
        assert recommendation.verdict == ("clear" if kept_rate else "unclear")
        kept = recommendation.recommended
        assert (kept.value if kept else None) == kept_rate
        assert kept is None or (kept.low and kept.value and kept.high and kept.low < kept.value < kept.high)


def test_is_worse_ignores_noise_shared_by_both_runs() -> None:
    low_noise, high_noise = ([make_run(0.1, 0.53, noise), make_run(0.05, 0.5, noise)] for noise in (0.01, 0.2))
    assert is_worse(*low_noise)
    assert not is_worse(*high_noise)
    assert not is_worse(*reversed(low_noise))


def test_is_worse_between_equal_rates_is_rarely_true() -> None:
    pairs = [(make_run(rate, 0.5, 0.1), make_run(rate + 1, 0.5, 0.1)) for rate in np.arange(1, 3, 0.01)]
    assert sum(is_worse(*pair) for pair in pairs) < 0.06 * len(pairs)


def test_lr_range_confirm_trains_on_batches_of_first_sweep() -> None:
    debugger = Debugger.of(ring_classifier(lr=1e-6))
    unconfirmed, confirmed = debugger.lr_range(seeds=1), debugger.lr_range(seeds=1, confirm=60)
    assert unconfirmed.proof is None
    assert confirmed.sweeps == unconfirmed.sweeps
    assert confirmed.proof is not None
    assert confirmed.proof.sweep_rate == unconfirmed.suggestion
    assert confirmed.proof.kept_rate == confirmed.suggestion
    assert len(confirmed.proof.trainings) > 1
    assert {run.schedule for run in confirmed.trainings} == {"constant", "one-cycle"}
    assert {run.losses[0] for run in confirmed.trainings} == {confirmed.sweeps[0].losses[0]}
    assert confirmed.steps == unconfirmed.steps + 60 * len(confirmed.trainings)
    assert confirmed.apply() == confirmed.suggestion
    assert f"max_lr={confirmed.one_cycle_peak:.2g}" in confirmed.code


def test_lr_range_confirm_appears_in_frame_text_page_and_plot() -> None:
    setup = ring_classifier()
    result = nbdebug.lr_range(
        setup.model, setup.train_loader, loss_fn=setup.loss_fn, optimizer=setup.optimizers[0], seeds=1, confirm=60
    )
    proof = result.proof
    assert proof is not None
    frame = result.to_frame()
    assert frame.groupby("part").size().to_dict() == {
        "sweep": sum(len(sweep.losses) for sweep in result.sweeps),
        "training": sum(len(run.losses) for run in result.trainings),
    }
    rates = frame[frame.part == "training"].groupby("sweep").lr.first().tolist()
    assert rates == [run.rate for run in result.trainings]
    for text in (str(result), result.view().html()):
        assert proof.said in text
        assert all(comparison.verdict in text for comparison in proof.comparisons)
    assert f"{len(result.trainings)} trainings" in str(result)
    labels = result.plot().get_legend_handles_labels()[1]
    assert any(label.startswith("by the sweeps") for label in labels) == (proof.sweep_rate != proof.kept_rate)


def test_lr_range_confirm_with_val_uses_validation_loss() -> None:
    proof = Debugger.of(ring_classifier()).lr_range(val=True, seeds=1, confirm=40).proof
    assert proof is not None
    # The validation loss is measured after the first step, and that step depends on the rate.
    assert len({run.losses[0] for run in proof.trainings}) > 1


@pytest.mark.parametrize("confirm", [True, False, -1, 5, 19, 10_001, 200.0, "200", None])
def test_lr_range_invalid_confirm_raises_setup_error(confirm: Any) -> None:
    with pytest.raises(SetupError, match=r"^confirm is .*; expected a whole number from 20 to 10000\. Leave it out"):
        Debugger.of(ring_classifier()).lr_range(confirm=confirm)


def test_sweep_plan_confirm_of_momentum_raises_setup_error() -> None:
    with pytest.raises(SetupError, match="confirm is 200; expected 0 for a momentum"):
        SweepPlan("momentum", 0.5, 0.9, confirm=200)


def test_lr_range_confirm_of_flat_curve_runs_no_training() -> None:
    setup = ring_classifier()
    setup.step_fn = lambda batch: (setup.model(batch[0]) * 0).sum() + batch[0].mean()
    result = Debugger.of(setup).lr_range(steps=20, seeds=1, confirm=20)
    assert (result.verdict, result.proof, result.steps) == ("flat", None, 20)


@pytest.mark.parametrize("confirmation_steps", [10, 70])
def test_range_test_stopped_during_confirmation_keeps_completed_steps(confirmation_steps: int) -> None:
    setup = ring_classifier()
    unconfirmed = Debugger.of(setup).lr_range(seeds=1)
    range_test = RangeTest(setup, SweepPlan(seeds=1, confirm=60), choose_optimizers(setup, None), None)
    range_test.run(StopAfterRows(sum(len(sweep.losses) for sweep in unconfirmed.sweeps) + confirmation_steps))
    result = range_test.result()
    assert result.proof is not None
    complete_runs = confirmation_steps // 60
    assert [len(run.losses) for run in result.proof.trainings] == [60] * complete_runs + [10]
    assert result.proof.outcome == "stopped"
    assert result.suggestion == unconfirmed.suggestion
    verdicts = [comparison.verdict for comparison in result.proof.comparisons]
    assert verdicts == ["lowest"] * complete_runs + ["stopped"]
    assert result.view().html()


def test_confirm_rate_interrupt_stops_under_live_screen_and_raises_elsewhere() -> None:
    setup = ring_classifier()
    setup.step_fn = step_fn_with_error(setup, 24, KeyboardInterrupt())
    range_test = RangeTest(setup, SweepPlan(confirm=60), choose_optimizers(setup, None), None)
    before = fingerprint(setup.model, *setup.optimizers, loaders=[setup.train_loader])
    with LiveScreen(running_view(range_test.result(), range_test.plan, 0.01), time.monotonic, 0.1) as screen:
        range_test.confirm_rate(0.01, screen)
    assert [(run.ended, len(run.losses)) for run in range_test.trainings] == [("interrupted", 24)]
    setup.step_fn = step_fn_with_error(setup, 24, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        range_test.confirm_rate(0.01, Screen())
    before.check()


@pytest.mark.parametrize("name", PROGRAMS)
def test_confirm_rate_whole_or_cut_short_restores_program(name: str) -> None:
    """Errors cut short every other program, interrupts the rest."""
    program, cut_short = FingerprintedProgram(name), (fail, interrupt)[list(PROGRAMS).index(name) % 2]

    def run_training() -> None:
        setup = program.debugger.setup
        RangeTest(setup, SweepPlan(confirm=20), choose_optimizers(setup, None), None).confirm_rate(0.05, Screen())

    call_sites = record_call_paths(run_training)
    program.before.check()
    for moment in sorted({*first_calls(call_sites), *last_calls(call_sites)}):
        assert len(record_call_paths(run_training, moment, cut_short)) == moment + 1
        program.before.check()
