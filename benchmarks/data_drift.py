"""How often data() finds the shift of one column, by its size and the number of samples, and the power that it states.

    python benchmarks/data_drift.py [--seeds 20] [--rows 200 500 2000]

Each seed draws both splits with replacement from the 30 columns of the breast cancer data, so that they have the same
distribution, and adds a shift to one column of the second split. A shift is found if the column is reported; other
columns that are reported, and a classifier that tells equal splits apart, are false alarms. The stated shift is the
smallest that would have been shown with 90% probability.

The first lines shift one class only: the images of one digit in the second of two random parts are made brighter, by
standard deviations of their mean. They count how often exactly this class is reported, and how often a feature of all
classes together is.
"""

from __future__ import annotations

import argparse

import torch
from data_faults import split as random_split
from data_sets import breast_cancer, digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.setup import Setup
from nbdebug.statistics.power import normal_shift_of_ks_distance
from nbdebug.tools.data.comparison_features import comparison_columns
from nbdebug.tools.data.drift_data import SplitComparison, compare_splits

_SHIFTS = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)  # standard deviations


def compare_shifted(rows: int, column: int, shift: float, seed: int) -> SplitComparison:
    """Return the comparison of two draws, of which the second has a shifted column."""
    x, y = breast_cancer()
    chosen = torch.randint(0, len(x), (2, rows), generator=torch.Generator().manual_seed(seed))
    tables = {}
    for split, part in zip(("train", "val"), chosen, strict=True):
        inputs = x[part]
        if split == "val":
            inputs[:, column] += shift
        tables[split] = SplitTable(split, (inputs,), (y[part],), range(rows), True)
    setup = Setup(nn.Linear(x.shape[1], 2), DataLoader(TensorDataset(x, y)), loss_fn=nn.CrossEntropyLoss())
    columns = {split: comparison_columns(table, ["x"], None) for split, table in tables.items()}
    comparison = compare_splits(setup, tables, ("train", "val"), ("training", "validation"), columns)
    assert comparison is not None
    return comparison


def shift_class(shift: float, seed: int) -> SplitComparison:
    """Return the comparison of two parts of the digits, of which the second has brighter images of one digit."""
    splits, digit = random_split(*digits(), seed)[0], seed % 10
    splits.x_val[splits.y_val == digit] += shift * float(splits.x[splits.y == digit].flatten(1).mean(1).std())
    parts = {"train": (splits.x, splits.y), "val": (splits.x_val, splits.y_val)}
    tables = {name: SplitTable(name, (x,), (y,), range(len(x)), True) for name, (x, y) in parts.items()}
    loader = DataLoader(TensorDataset(splits.x, splits.y))
    setup = Setup(nn.Linear(64, 10), loader, loss_fn=nn.CrossEntropyLoss())
    columns = {split: comparison_columns(table, ["x"], None) for split, table in tables.items()}
    comparison = compare_splits(setup, tables, ("train", "val"), ("training", "validation"), columns)
    assert comparison is not None
    return comparison


def report_classes(seeds: int) -> None:
    """Print how often the shift of one class is found."""
    for shift in _SHIFTS:
        exact = other = overall = energy = 0
        for seed in range(seeds):
            comparison = shift_class(shift, seed)
            assert comparison.classes is not None
            names = {item.name for item in comparison.classes.shifted_classes}
            exact += f"class {seed % 10}" in names
            other += bool(names - {f"class {seed % 10}"})
            overall += bool(comparison.shifted_features)
            energy += comparison.energy is not None and comparison.energy.is_shifted
        print(
            f"one digit brighter by {shift:.1f} sd: its class reported in {exact:3} of {seeds}, another class in "
            f"{other}, a feature of all classes in {overall}, the energy distance in {energy}",
            flush=True,
        )


def main() -> None:
    """Print a row for each number of samples and shift."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", type=int, nargs="*", default=[200, 500, 2000])
    arguments = parser.parse_args()
    report_classes(arguments.seeds)
    for rows in arguments.rows:
        for shift in _SHIFTS:
            found = alarms = 0
            for seed in range(arguments.seeds):
                column = seed % 30
                comparison = compare_shifted(rows, column, shift, seed)
                reported = {item.name for item in comparison.shifted_features}
                found += f"column {column}" in reported
                alarms += bool(comparison.faults) if not shift else bool(reported - {f"column {column}"})
            stated = normal_shift_of_ks_distance(comparison.detectable)
            seen = f"found in {found:3} of {arguments.seeds}" if shift else "equal splits     "
            print(
                f"{rows:6,} samples: shift {shift:.1f} sd, stated {stated:.2f} sd; {seen}; false alarms {alarms}",
                flush=True,
            )


if __name__ == "__main__":
    main()
