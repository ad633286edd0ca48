"""How often data() finds a feature that nearly is the target, and how often it suspects a healthy one.

    python benchmarks/data_leaks.py [--seeds 20]

Each seed draws two thirds of a table. The planted column is the class, replaced by another class for some rows, or the
real-valued target with noise; it is added to the columns of the table. Recall is the share of seeds in which exactly
this column is reported. The last line counts the alarms on Gaussian clusters of 2 to 10 features and 2 to 5 classes,
which are healthy although one coordinate alone often separates the classes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from data_sets import titanic
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine, make_blobs
from torch import Tensor

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.tools.data.feature_leaks import find_feature_leaks

_SHARES, _NOISES = (0.0, 0.02, 0.05), (0.1, 0.2, 0.3)


def table_of(load: Callable[[], Any]) -> tuple[Tensor, Tensor]:
    """Columns and targets of a set of scikit-learn."""
    loaded = load()
    target = torch.tensor(loaded.target)
    return torch.tensor(loaded.data).float(), target.float()[:, None] if load is load_diabetes else target


SETS: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
    "breast cancer": lambda: table_of(load_breast_cancer),
    "diabetes": lambda: table_of(load_diabetes),
    "digits": lambda: table_of(load_digits),
    "iris": lambda: table_of(load_iris),
    "wine": lambda: table_of(load_wine),
    "titanic": titanic,
}


def plant(y: Tensor, amount: float, generator: torch.Generator) -> Tensor:
    """Return a column that nearly is the target."""
    if y.is_floating_point():
        return y + amount * y.std() * torch.randn(y.shape, generator=generator)
    classes = int(y.max()) + 1
    other = (y + torch.randint(1, classes, y.shape, generator=generator)) % classes
    return torch.where(torch.rand(y.shape, generator=generator) < amount, other, y).float()[:, None]


def count_cluster_alarms(seeds: int) -> tuple[int, int]:
    """Return the number of alarms on Gaussian clusters, and the number of draws."""
    kinds = list(product((2, 3, 5, 10), (2, 3, 5), (1.0, 2.0)))
    alarms = 0
    for (features, classes, spread), seed in product(kinds, range(seeds)):
        x, y = make_blobs(400, features, centers=classes, cluster_std=spread, random_state=seed)
        table = SplitTable("train", (torch.tensor(x).float(),), (torch.tensor(y),), range(len(x)), True)
        alarms += bool(find_feature_leaks(table, None).leaks)
    return alarms, len(kinds) * seeds


def main() -> None:
    """Print the alarms on healthy tables, and the recall of planted columns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    for name, load in SETS.items():
        x, y = load()
        amounts = _NOISES if y.is_floating_point() else _SHARES
        alarms, found = 0, dict.fromkeys(amounts, 0)
        for seed in range(seeds):
            generator = torch.Generator().manual_seed(seed)
            rows = torch.randperm(len(x), generator=generator)[: 2 * len(x) // 3]
            part, target = x[rows], y[rows]
            alarms += bool(
                find_feature_leaks(SplitTable("train", (part,), (target,), range(len(part)), True), None).leaks
            )
            for amount in amounts:
                columns = torch.cat([part, plant(target, amount, generator)], 1)
                table = SplitTable("train", (columns,), (target,), range(len(part)), True)
                leaks = find_feature_leaks(table, None).leaks
                found[amount] += [leak.name for leak in leaks] == [f"column {columns.shape[1] - 1}"]
        recalls = ", ".join(f"{amount:g}: {count} of {seeds}" for amount, count in found.items())
        print(f"{name:15} alarms {alarms} of {seeds}; found with noise {recalls}", flush=True)
    print("Gaussian clusters: alarms {} of {}".format(*count_cluster_alarms(seeds)), flush=True)


if __name__ == "__main__":
    main()
