"""Quality of the recommended constant rate and of the recommended peak of one-cycle.

For each problem of lr_schedule_problems.py and both schedules, the reference is a grid of rates: two per decade, four
next to the best one, each trained for 300 steps with up to three seeds. ``lr_range()`` and ``lr_range(confirm=200)``
run once per seed on a fresh model. "good" counts the recommendations with a test loss within 10% of the best one of the
grid, "none" those without a clear answer, "wrong" the others. A problem is passed with at most one wrong answer and at
most one missing answer in ten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from lr_finders import CONFIRMATION_STEPS, Trial
from lr_grid import SCHEDULES, LossGrid, Schedule, load_or_train_grid
from lr_problems import OptimizerGrid, Problem

from nbdebug.tools.lr_range.sweep import SweepPlan, choose_optimizers
from nbdebug.tools.lr_range.tool import RangeTest
from nbdebug.views.live import Screen

GRID_FILE = Path(__file__).with_name("lr_schedule_losses.json")
GOOD_FACTOR, TOLERATED_SHARE = 1.1, 0.1
VARIANTS = ("plain", "confirm")


@dataclass
class Answers:
    """The recommended rates for one problem and schedule, one per seed; None where there is no clear answer."""

    grid: LossGrid
    rates: list[float | None] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """The losses of the recommended rates over the best loss."""
        return [self.grid.loss_ratio(rate) for rate in self.rates if rate is not None]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Number of good, missing and wrong answers."""
        good = sum(ratio <= GOOD_FACTOR for ratio in self.ratios)
        return good, len(self.rates) - len(self.ratios), len(self.ratios) - good

    @property
    def passes(self) -> bool:
        """True if hardly any answer is wrong or missing."""
        _, missing, wrong = self.counts
        return max(missing, wrong) <= TOLERATED_SHARE * len(self.rates)

    def row(self, name: str) -> str:
        """Return the row of a table."""
        rates = sorted(rate for rate in self.rates if rate is not None)
        rate_range = f"{median(rates):7.2g} ({rates[0]:.2g} to {rates[-1]:.2g})" if rates else f"{'none':>7}"
        worst = f"{median(self.ratios):6.2f} {max(self.ratios):6.2f}" if rates else f"{'':13}"
        good, missing, wrong = self.counts
        return f"    {name:22} {rate_range:32} {worst} {good:5} {missing:5} {wrong:6}   {'pass' * self.passes}"


def ask_range_test(
    problem: Problem, optimizer_grid: OptimizerGrid, seed: int
) -> Iterator[tuple[Schedule, str, float | None]]:
    """Yield the recommended rate for each schedule and variant; the sweeps of both variants are the same."""
    setup = Trial.create(problem, optimizer_grid, seed).create_debugger().setup
    range_test = RangeTest(setup, SweepPlan(confirm=CONFIRMATION_STEPS), choose_optimizers(setup, None), None)
    range_test.run(Screen())
    for schedule in SCHEDULES:
        plain = range_test.recommend(schedule).recommended
        yield schedule, "plain", None if plain is None else plain.value
        yield schedule, "confirm", range_test.rate_for(schedule)[1].value


def compare_schedules(pairs: Sequence[tuple[Problem, OptimizerGrid]], seeds: range, retrain: bool = False) -> None:
    """Print one row per problem, schedule and variant, and the number of problems that are passed."""
    print(
        f"    {'':22} {'recommended over the seeds':32} {'loss, ×':>6} {'max':>5} {'good':>5} {'none':>5} {'wrong':>6}"
    )
    all_answers: dict[str, list[Answers]] = {}
    for problem, optimizer_grid in pairs:
        grids: dict[Schedule, LossGrid] = {
            schedule: load_or_train_grid(problem, optimizer_grid, GRID_FILE, retrain=retrain, schedule=schedule)
            for schedule in SCHEDULES
        }
        answers = {(schedule, variant): Answers(grids[schedule]) for schedule in SCHEDULES for variant in VARIANTS}
        for seed in seeds:
            for schedule, variant, rate in ask_range_test(problem, optimizer_grid, seed):
                answers[schedule, variant].rates.append(rate)
        for schedule, grid in grids.items():
            low, high = grid.useful_range
            print(
                f"{problem.name}, {optimizer_grid.name}, batches of {problem.batch_size}, {schedule}: "
                f"best {grid.best_rate:.2g} with loss {grid.best_loss:.3g}, useful {low:.2g} to {high:.2g}"
            )
            for variant in VARIANTS:
                print(answers[schedule, variant].row(variant), flush=True)
                all_answers.setdefault(f"{variant}, {schedule}", []).append(answers[schedule, variant])
    for name, results in all_answers.items():
        good, missing, wrong = (sum(result.counts[index] for result in results) for index in range(3))
        passed = sum(result.passes for result in results)
        print(f"{name}: {good} good, {missing} without an answer, {wrong} wrong; {passed} of {len(results)} passed")
