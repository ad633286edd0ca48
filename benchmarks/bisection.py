"""How often bisection under noise names the planted one of 64 changes, and in how many runs.

    python benchmarks/bisection.py [--trials 100] [--changes 64] [--runs 40]

A network of one hidden layer is trained with SGD on two classes, in numpy, so that a run takes milliseconds. One of the
changes, at a random place, lowers its learning rate so much that the mean loss rises by one to three standard
deviations of the loss between seeds; the strength is calibrated on other seeds. All other changes alter the learning
rate by 0.1%, weight decay by 1e-6, or nothing. Three settings:

- matched: a seed stands for the same weights and batches in every version, as in ``dbg.bisect``.
- some redraw: 3 of the other changes draw other weights and batches from there on.
- independent: every run has weights and batches of its own, as if seeds could not be matched.

"right" counts the trials in which the most probable change is the planted one, "located" those that name a single
change, and "runs" are their mean number, with both ends.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from nbdebug.statistics.intervals import Floats
from nbdebug.statistics.noisy_bisection import NoisyBisection

_HIDDEN, _STEPS, _BATCH, _FEATURES = 8, 60, 16, 6
_CALIBRATION_SEEDS = 200
_FACTORS = np.geomspace(1.0, 0.05, 16)


@dataclass(frozen=True)
class Version:
    """The settings of one version of the training program; ``draw`` numbers its random numbers."""

    rate: float = 0.5
    decay: float = 0.0
    draw: int = 0


@cache
def _data() -> tuple[Floats, Floats, Floats, Floats]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(700, _FEATURES))
    y = (x[:, 0] * x[:, 1] + 0.5 * x[:, 2] + 0.3 * generator.normal(size=700) > 0).astype(np.float64)
    return x[:300], y[:300], x[300:], y[300:]


def train(version: Version, seed: int) -> float:
    """Return the negative validation loss after training, of which a higher value is better."""
    x, y, x_val, y_val = _data()
    generator = np.random.default_rng([seed, version.draw])
    first = generator.normal(size=(_FEATURES, _HIDDEN)) / _FEATURES**0.5
    second = generator.normal(size=_HIDDEN) / _HIDDEN**0.5
    for _ in range(_STEPS):
        rows = generator.integers(len(x), size=_BATCH)
        hidden = np.tanh(x[rows] @ first)
        error = 1 / (1 + np.exp(-hidden @ second)) - y[rows]
        gradient = np.outer(error, second) * (1 - hidden**2)
        second = second - version.rate * (hidden.T @ error / _BATCH + version.decay * second)
        first = first - version.rate * (x[rows].T @ gradient / _BATCH + version.decay * first)
    p = np.clip(1 / (1 + np.exp(-np.tanh(x_val @ first) @ second)), 1e-9, 1 - 1e-9)
    return float((y_val * np.log(p) + (1 - y_val) * np.log(1 - p)).mean())


@cache
def _effects() -> tuple[Floats, float]:
    """Return the mean effect of each factor of the learning rate, in standard deviations between seeds."""
    seeds = range(10_000, 10_000 + _CALIBRATION_SEEDS)
    scores = np.array([[train(Version(rate=0.5 * factor), seed) for seed in seeds] for factor in _FACTORS])
    deviation = float(scores[0].std(ddof=1))
    return (scores[0].mean() - scores.mean(1)) / deviation, deviation


def plant(generator: np.random.Generator, count: int, redraws: int) -> tuple[list[Version], int, float]:
    """Return the versions with the first 0 to ``count`` changes, the planted one, and its size."""
    size = float(generator.uniform(1, 3))
    factor = float(np.interp(size, np.maximum.accumulate(_effects()[0]), _FACTORS))
    culprit = int(generator.integers(1, count + 1))
    drawn = set(generator.choice(np.setdiff1d(np.arange(1, count + 1), [culprit]), redraws, replace=False).tolist())
    version, versions = Version(), [Version()]
    for number in range(1, count + 1):
        if number == culprit:
            version = replace(version, rate=version.rate * factor)
        elif number in drawn:
            version = replace(version, draw=number)
        elif number % 3 == 1:
            version = replace(version, rate=version.rate * (1.001 if number % 2 else 1 / 1.001))
        elif number % 3 == 2:
            version = replace(version, decay=version.decay + 1e-6)
        versions.append(version)
    return versions, culprit, size


def search(versions: list[Version], most: int, independent: bool) -> tuple[int, bool, int]:
    """Return the most probable change, whether it alone is left, and the number of runs."""
    bisection = NoisyBisection(len(versions) - 1)
    while len(bisection.scores) < most:
        version, seed = bisection.next_run()
        own_seed = 1000 + len(bisection.scores) if independent else seed
        bisection.add(version, own_seed, train(versions[version], own_seed))
        if len(bisection.scores) > 1 and bisection.located is not None:
            break
    return int(bisection.posterior().argmax()) + 1, bisection.located is not None, len(bisection.scores)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--changes", type=int, default=64)
    parser.add_argument("--runs", type=int, default=40)
    options = parser.parse_args()
    print(f"largest effect of the calibration: {_effects()[0].max():.1f} standard deviations of {_effects()[1]:.3g}")
    for name, redraws, independent in (("matched", 0, False), ("some redraw", 3, False), ("independent", 0, True)):
        generator, outcomes = np.random.default_rng(0), []
        for _ in range(options.trials):
            versions, culprit, size = plant(generator, options.changes, redraws)
            named, is_located, runs = search(versions, options.runs, independent)
            outcomes.append((named == culprit, is_located, runs, size))
        right, located, runs_each, sizes = map(np.array, zip(*outcomes, strict=True))
        small = sizes < 2
        print(
            f"{name:12} right {right.sum()} of {len(right)} (below 2 deviations: {right[small].sum()} of "
            f"{small.sum()}), located {located.sum()}, of which right {(right & located).sum()}, "
            f"runs {runs_each.mean():.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
