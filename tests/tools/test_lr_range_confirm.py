"""The recommended rate is put to the proof: which rates are trained at, which is kept, and that nothing else stays."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.rules.examples import mlp, rings, training_setup
from nbdebug.setup import Setup
from nbdebug.tools.lr_range.confirmation import ConfirmationRun, apply_confirmation, confirm, is_worse, next_rate
from nbdebug.tools.lr_range.data import Suggestion
from nbdebug.tools.lr_range.recommendation import Recommendation
from nbdebug.tools.lr_range.result import running_view
from nbdebug.tools.lr_range.sweep import SweepPlan, choose_optimizers
from nbdebug.tools.lr_range.tool import RangeTest
from nbdebug.views.live import LiveScreen, Screen
from tests.preserve.fingerprint import fingerprint
from tests.preserve.interruption import fail, first_calls, interrupt, last_calls, record_call_paths
from tests.programs import PROGRAMS

from .test_lr_range_restores import Case

SEED = np.random.default_rng(0).normal(0, 0.2, 200)


def learner(**given: Any) -> Setup:
    """A classifier that has much to learn."""
    return training_setup(mlp(8, 32, 2), rings(), rings(64, seed=1), nn.CrossEntropyLoss(), **given)


def training(rate: float, floor: float | None, noise: float = 0.02) -> ConfirmationRun:
    """One that falls to a floor, with the noise of the batches, which all share, and a little of its own."""
    if floor is None:
        return ConfirmationRun(rate, (2.0, 3.0, 9.0), (2.0, 3.0, 9.0), "diverged")
    own = np.random.default_rng(int(rate * 1e6)).normal(0, noise, 200)
    losses = tuple((floor + (2 - floor) * np.exp(-np.arange(200) / 15) + SEED + own).tolist())
    return ConfirmationRun(rate, losses, losses)


def walked(floors: Callable[[float], float | None], asked: float = 0.1) -> list[ConfirmationRun]:
    """All trainings that are made where each rate comes down to a floor; None is a loss that is lost."""
    made: list[ConfirmationRun] = []
    while rate := next_rate(asked, made):
        made.append(training(rate, floors(rate)))
    return made


@pytest.mark.parametrize(
    ("floors", "rates", "outcome", "kept"),
    [
        (lambda rate: 1 - rate, [0.1, 0.0707], "confirmed", 0.1),
        (lambda rate: 0.5 if rate > 0.06 else 0.9, [0.1, 0.0707, 0.05], "not told apart", 0.0707),
        (lambda _: 0.5, [0.1, 0.0707, 0.05], "not told apart", 0.05),
        (lambda rate: 0.9 if rate > 0.09 else 0.5 if rate > 0.06 else 0.7, [0.1, 0.0707, 0.05], "lowered", 0.0707),
        (lambda rate: abs(rate - 0.025) * 5 + 0.3, [0.1, 0.0707, 0.05, 0.0354, 0.025, 0.0177], "lowered", 0.025),
        (lambda rate: None if rate > 0.04 else 0.5 - rate, [0.1, 0.05, 0.025, 0.0177], "lowered", 0.025),
        (lambda _: None, [0.1, 0.05, 0.025, 0.0125, 0.00625, 0.00313], "lost", None),
        (lambda _: 2.5, [0.1, 0.05, 0.025, 0.0125, 0.00625, 0.00313], "lost", None),
    ],
)
def test_lower_rates_are_tried_and_the_lowest_of_the_best_is_kept(
    floors: Callable[[float], float | None], rates: list[float], outcome: str, kept: float | None
) -> None:
    made = walked(floors)
    assert [one.rate for one in made] == rates
    found = confirm(0.1, made)
    assert (found.outcome, found.kept_rate) == (outcome, kept)
    assert found.said.endswith(".")
    words = [one.verdict for one in found.comparisons]
    assert words.count("kept") == (kept is not None)
    assert words.count("lost") == sum(one.has_failed for one in made)
    advice = apply_confirmation(
        Recommendation("clear", "Take it.", (), Suggestion("recommended", 0.1, 0.08, 0.12)), found
    )
    assert advice.reasons[0] == found.said
    best = advice.recommended
    assert (best.value if best else None) == kept
    assert best is None or (best.low and best.value and best.high and best.low < best.value <= best.high)
    assert kept is not None or advice.verdict == "unclear"


def test_what_all_batches_share_is_no_noise_and_what_differs_is() -> None:
    sure, unsure = ([training(0.1, 0.51, noise), training(0.05, 0.5, noise)] for noise in (0.01, 0.2))
    assert is_worse(*sure)
    assert not is_worse(*unsure)
    assert not is_worse(*reversed(sure))


def test_noise_alone_seldom_lowers_a_rate_for_being_worse() -> None:
    pairs = [(training(rate, 0.5, 0.1), training(rate + 1, 0.5, 0.1)) for rate in np.arange(1, 3, 0.01)]
    assert sum(is_worse(*pair) for pair in pairs) < 0.06 * len(pairs)


def test_a_rate_is_confirmed_on_the_batches_of_the_first_sweep() -> None:
    debugger = Debugger.of(learner(lr=1e-6))
    plain, found = debugger.lr_range(seeds=1), debugger.lr_range(seeds=1, confirm=60)
    assert plain.proof is None
    assert found.sweeps == plain.sweeps
    assert found.proof is not None
    assert found.proof.sweep_rate == plain.suggestion
    assert found.proof.kept_rate == found.suggestion
    assert len(found.proof.trainings) > 1
    assert {one.losses[0] for one in found.proof.trainings} == {found.sweeps[0].losses[0]}
    assert found.steps == plain.steps + 60 * len(found.proof.trainings)
    assert found.apply() == found.suggestion
    assert f"max_lr={found.suggestion:.2g}" in found.code


def test_it_is_told_in_every_form() -> None:
    setup = learner()
    found = nbdebug.lr_range(
        setup.model, setup.train_loader, loss_fn=setup.loss_fn, optimizer=setup.optimizers[0], seeds=1, confirm=60
    )
    proof = found.proof
    assert proof is not None
    frame = found.to_frame()
    assert frame.groupby("part").size().to_dict() == {
        "sweep": sum(len(one.losses) for one in found.sweeps),
        "training": sum(len(one.losses) for one in proof.trainings),
    }
    assert frame[frame.part == "training"].lr.unique().tolist() == [one.rate for one in proof.trainings]
    for said in (str(found), found.view().html()):
        assert proof.said in said
        assert all(one.verdict in said for one in proof.comparisons)
    assert f"{len(proof.trainings)} trainings" in str(found)
    labels = found.plot().get_legend_handles_labels()[1]
    assert any(one.startswith("by the sweeps") for one in labels) == (proof.sweep_rate != proof.kept_rate)


def test_losses_of_a_validation_batch_can_decide() -> None:
    proof = Debugger.of(learner()).lr_range(val=True, seeds=1, confirm=40).proof
    assert proof is not None
    # That of the validation batch comes after the first step, which another rate makes another.
    assert len({one.losses[0] for one in proof.trainings}) > 1


@pytest.mark.parametrize("confirm", [True, False, -1, 5, 19, 10_001, 200.0, "200", None])
def test_bad_numbers_of_steps_are_refused(confirm: Any) -> None:
    with pytest.raises(SetupError, match=r"^confirm is .*; expected a whole number from 20 to 10000\. Leave it out"):
        Debugger.of(learner()).lr_range(confirm=confirm)


def test_what_is_no_rate_is_not_confirmed() -> None:
    with pytest.raises(SetupError, match="confirm is 200; expected 0 for a momentum"):
        SweepPlan("momentum", 0.5, 0.9, confirm=200)


def test_without_a_recommended_rate_there_is_nothing_to_confirm() -> None:
    setup = learner()
    setup.step_fn = lambda batch: (setup.model(batch[0]) * 0).sum() + batch[0].mean()
    found = Debugger.of(setup).lr_range(steps=20, seeds=1, confirm=20)
    assert (found.verdict, found.proof, found.steps) == ("flat", None, 20)


class Pressed(Screen):
    """Stop is pressed after so many rows."""

    def __init__(self, after: int) -> None:
        self.rows, self.after = 0, after

    def append(self, row: Any) -> None:
        """Counts."""
        self.rows += 1

    @property
    def stopped(self) -> bool:
        """Whether it was pressed."""
        return self.rows >= self.after


@pytest.mark.parametrize("more", [10, 70])
def test_stop_keeps_what_there_is(more: int) -> None:
    setup = learner()
    swept = Debugger.of(setup).lr_range(seeds=1)
    trial = RangeTest(setup, SweepPlan(seeds=1, confirm=60), choose_optimizers(setup, None), None)
    trial.run(Pressed(sum(len(one.losses) for one in swept.sweeps) + more))
    found = trial.result()
    assert found.proof is not None
    assert [len(one.losses) for one in found.proof.trainings] == [60] * (more // 60) + [10]
    assert found.proof.outcome == "stopped"
    assert found.suggestion == swept.suggestion
    assert [one.verdict for one in found.proof.comparisons] == ["lowest"] * (more // 60) + ["stopped"]
    assert found.view().html()


def test_an_interrupt_under_a_live_view_is_a_stop_and_elsewhere_is_raised() -> None:
    setup = learner()
    calls: list[int] = []

    def step_fn(batch: Any) -> Tensor:
        calls.append(1)
        if len(calls) == 25:
            raise KeyboardInterrupt
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step_fn
    trial = RangeTest(setup, SweepPlan(confirm=60), choose_optimizers(setup, None), None)
    before = fingerprint(setup.model, *setup.optimizers, loaders=[setup.train_loader])
    with LiveScreen(running_view(trial.result(), trial.plan, 0.01), time.monotonic, 0.1) as screen:
        trial.confirm_rate(0.01, screen)
    assert [(one.ended, len(one.losses)) for one in trial.trainings] == [("interrupted", 24)]
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        trial.confirm_rate(0.01, Screen())
    before.check()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_training_leaves_no_trace_whole_or_cut_short(name: str) -> None:
    """By an error in one program, by an interrupt in the next."""
    case, act = Case(name), (fail, interrupt)[list(PROGRAMS).index(name) % 2]

    def trained() -> None:
        setup = case.debugger.setup
        RangeTest(setup, SweepPlan(confirm=20), choose_optimizers(setup, None), None).confirm_rate(0.05, Screen())

    places = record_call_paths(trained)
    case.before.check()
    for moment in sorted({*first_calls(places), *last_calls(places)}):
        assert len(record_call_paths(trained, moment, act)) == moment + 1
        case.before.check()
