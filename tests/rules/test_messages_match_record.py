"""Tests that the numbers in the messages about a run are those of its record."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.loss_curves.curve_shape import curve_shape
from nbdebug.records import Record
from nbdebug.rule_engine.rule_registry import load_rules
from tests.loss_curves.synthetic_records import falling_loss, make_record

NUMBER = r"(-?\d+\.?\d*(?:e[-+]?\d+)?)"
RULES = load_rules()


@dataclass(frozen=True)
class RunFacts:
    """What a run was, computed from its record without the product's summaries."""

    record: Record

    def series(self, name: str) -> npt.NDArray[np.float64]:
        return self.record.series(name)[1].astype(float)

    @property
    def losses(self) -> npt.NDArray[np.float64]:
        return self.series("loss")

    @property
    def starts(self) -> tuple[float, ...]:
        """The losses that may be called the start: before training on fixed samples, and at the first steps."""
        return (*self.series("sample_train_loss")[:1].tolist(), *self.losses[:3].tolist())

    @property
    def end(self) -> float:
        """The mean of the last fifth."""
        return float(self.losses[-max(len(self.losses) // 5, 3) :].mean())

    def mean_until_end(self, steps: int) -> float:
        return float(self.losses[-steps:].mean())


Check = Callable[[RunFacts, float], bool]


def is_close(value: float, claim: float, digits: int = 3) -> bool:
    """Return whether a claim is a value rounded to some digits."""
    return abs(value - claim) <= 10.0 ** (1 - digits) * max(abs(value), abs(claim)) + 1e-12


def is_start(facts: RunFacts, claim: float) -> bool:
    low, high = min(facts.starts), max(facts.starts)
    return low - 0.01 * abs(low) <= claim <= high + 0.01 * abs(high)


def is_end(facts: RunFacts, claim: float) -> bool:
    return is_close(facts.end, claim)


def is_step_count(facts: RunFacts, claim: float) -> bool:
    return claim == facts.record.steps


def is_share_of_constant(facts: RunFacts, claim: float) -> bool:
    return is_close(100 * facts.end / facts.record.about["chance"], claim, 2)


def is_constant_prediction(facts: RunFacts, claim: float) -> bool:
    return is_close(facts.record.about["chance"], claim)


def is_highest_loss(facts: RunFacts, claim: float) -> bool:
    return is_close(float(facts.losses.max()), claim)


def is_opening_peak(facts: RunFacts, claim: float) -> bool:
    return is_close(float(facts.losses[:12].max()), claim)


def is_learning_rate(facts: RunFacts, claim: float) -> bool:
    return is_close(float(facts.series("lr").max()), claim)


def is_lowest_validation_loss(facts: RunFacts, claim: float) -> bool:
    return is_close(float(facts.series("sample_val_loss").min()), claim)


def is_validation_end(facts: RunFacts, claim: float) -> bool:
    last = facts.series("sample_val_loss")[-2:]
    return is_close(float(last.mean()), claim) or is_close(float(last[-1]), claim)


def is_training_end(facts: RunFacts, claim: float) -> bool:
    return is_close(float(facts.series("sample_train_loss")[-1]), claim)


def is_steps_per_epoch(facts: RunFacts, claim: float) -> bool:
    return claim == facts.record.about["batches_per_epoch"]


def is_gain_of_last_quarter(facts: RunFacts, claim: float) -> bool:
    quarter = facts.losses[-len(facts.losses) // 4 :]
    slope = np.polyfit(np.arange(len(quarter)), quarter, 1)[0]
    return abs(-100 * slope * len(quarter) / facts.end - claim) < 0.35 * claim


def is_rise_between_sixteenths(facts: RunFacts, claim: float) -> bool:
    means = np.array([part.mean() for part in np.array_split(facts.losses, 16)])
    return bool(np.any(np.abs(100 * (means[1:] / means[:-1] - 1) - claim) < 0.05 * claim + 1))


CLAIMS: dict[str, tuple[tuple[str, Check], ...]] = {
    "T601": ((rf"was {NUMBER} at the start", is_start), (rf"and {NUMBER} after", is_end)),
    "T602": ((rf"from {NUMBER} at the first steps", is_start), (rf"mean of {NUMBER} in the last", is_end)),
    "T604": ((rf"by at most {NUMBER}%", is_rise_between_sixteenths), (rf"ended at {NUMBER}", is_end)),
    "T605": ((rf"of {NUMBER} steps", is_step_count), (rf"highest value is {NUMBER}", is_highest_loss)),
    "T606": ((rf"of {NUMBER}, the loss", is_step_count), (rf"is at {NUMBER}", is_end)),
    "T607": (
        (rf"After {NUMBER} steps", is_step_count), (rf"loss is {NUMBER}", is_end),
        (rf"reaches {NUMBER}", is_constant_prediction),
    ),
    "T609": (
        (rf"\({NUMBER}\)", is_lowest_validation_loss), (rf"is {NUMBER} at the end", is_validation_end),
        (rf"decreased to {NUMBER}", is_training_end),
    ),
    "T610": ((rf"After {NUMBER} steps", is_step_count),),
    "T611": ((rf"is {NUMBER} on validation", is_validation_end), (rf"and {NUMBER} on training", is_training_end)),
    "T612": ((rf"every {NUMBER} steps", is_steps_per_epoch),),
    "T614": (
        (rf"at step {NUMBER}", is_step_count), (rf"by {NUMBER}%", is_gain_of_last_quarter),
        (rf"ended at {NUMBER}", is_end),
    ),
    "O501": (
        (rf"rate {NUMBER}", is_learning_rate), (rf"rose from {NUMBER}", is_start),
        (rf" to {NUMBER} in the first", is_opening_peak), (rf"ended at {NUMBER}", is_end),
    ),
    "O502": ((rf"rate {NUMBER}", is_learning_rate), (rf"went from {NUMBER}", is_start), (rf" to {NUMBER}\.$", is_end)),
}  # fmt: skip
SHARED_CLAIMS: tuple[tuple[str, Check], ...] = (
    (rf"{NUMBER}% of the loss of a constant", is_share_of_constant),
    (rf"loss fell from {NUMBER}", is_start),
    (rf"fell from [\d.]+ to {NUMBER}", is_end),
)


def check_claims(facts: RunFacts, text: str, claims: tuple[tuple[str, Check], ...]) -> int:
    """Check each claim that a text makes, and return their number."""
    matches = [(check, match) for pattern, check in claims if (match := re.search(pattern, text))]
    for check, match in matches:
        assert check(facts, float(match.group(1))), f"{match.group(0)!r} is not true ({check.__name__}): {text}"
    return len(matches)


def run_bad_loop(code: str) -> tuple[RunFacts, list[Finding]]:
    module: Any = RULES[code].module
    setup = module.bad()
    debugger = Debugger.of(setup)
    with debugger.watch() as run:
        module.bad_loop(setup)
    return RunFacts(run.record), list(debugger.findings)


@pytest.mark.parametrize("code", CLAIMS)
def test_messages_about_a_run_state_numbers_of_its_record(code: str) -> None:
    facts, findings = run_bad_loop(code)
    for finding in findings:
        claims = check_claims(facts, finding.message, (*CLAIMS.get(finding.code, ()), *SHARED_CLAIMS))
        if finding.code == code:
            assert claims >= len(CLAIMS[code]), finding.message


def opening_peak_record() -> Record:
    """A run that starts at 0.7, is thrown up to 55.7 by its third step, and settles at 1.4."""
    losses = 1.4 + 0.02 * np.random.default_rng(0).normal(size=200)
    losses[:6] = 0.7, 12.0, 55.7, 40.0, 8.0, 3.0
    return make_record(losses, ratio=0.4, chance=0.7)


SHAPES: dict[str, Callable[[], Record]] = {
    "rate too high": opening_peak_record,
    "healthy": lambda: make_record(falling_loss(2.3, 0.05)),
    "diverging": lambda: make_record(falling_loss(2.3, 0.5)[::-1] * 4),
}
SHAPE_CLAIMS: tuple[tuple[str, Check], ...] = (
    (rf"rose from {NUMBER} to [\d.]+ in the first", is_start),
    (rf" to {NUMBER} in the first", is_opening_peak),
    (rf"ended at {NUMBER}", is_end),
    (rf"fell from {NUMBER}", is_start),
    (rf"fell from [\d.]+ to {NUMBER}", is_end),
    (rf"rose from [\d.]+ to {NUMBER}\.$", is_end),
)


@pytest.mark.parametrize("name", SHAPES)
def test_curve_shape_sentence_states_numbers_of_the_record(name: str) -> None:
    record = SHAPES[name]()
    shape = curve_shape(record)
    assert shape.name == name
    assert check_claims(RunFacts(record), shape.sentence, SHAPE_CLAIMS) >= 1
