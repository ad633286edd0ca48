"""How often data() finds planted faults, how often it is quiet on clean data, and what it costs.

    python benchmarks/data.py [--resamples 20] [--clean 100] [--only clean|faults|cost] [--sets digits titanic]

The sets are those of data_sets.py. Each resample is another random split into two thirds for training and one third for
validation. A clean resample counts as quiet if no drift, duplicate, label, leak or unusual sample is reported; a
planted one counts as found if the fault is reported as such. The precision at k is that of the first k listed suspects,
where k is the number of planted wrong labels that are listed or, if fewer are, the number of suspects.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from data_sets import SETS
from process_memory import current_resident_kib, peak_resident_kib
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.setup import Setup
from nbdebug.tools.data import DataProfile, data

_PLANTED_COPIES, _FLIPPED_SHARES, _SHIFTS = 20, (0.01, 0.02, 0.05, 0.1), (0.1, 0.2, 0.3, 0.5, 1.0)
_IMAGES, _ROWS, _COLUMNS = 50_000, 1_000_000, 100


@dataclass
class Splits:
    """Training and validation, with the planted samples of training."""

    x: Tensor
    y: Tensor
    x_val: Tensor
    y_val: Tensor
    planted: Tensor

    def profile(self, **options: Any) -> DataProfile:
        """The profile of these splits."""
        classes = int(max(self.y.max(), self.y_val.max())) + 1
        model = _model(torch.cat([self.x, self.x_val]), classes)
        loaders = [DataLoader(TensorDataset(*pair), 64) for pair in ((self.x, self.y), (self.x_val, self.y_val))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return data(Setup(model, *loaders, loss_fn=nn.CrossEntropyLoss()), samples=None, **options)


def _model(x: Tensor, classes: int) -> nn.Module:
    """Return a linear model of numbers, or of embeddings of codes."""
    if x.is_floating_point():
        return nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), classes))
    return nn.Sequential(nn.Embedding(int(x.max()) + 1, 4), nn.Flatten(), nn.Linear(4 * x[0].numel(), classes))


Change = Callable[[Splits, torch.Generator], None]
Criterion = Callable[[DataProfile, Splits], bool]


def split(x: Tensor, y: Tensor, seed: int) -> tuple[Splits, torch.Generator]:
    """Return a random split, and the generator for what is planted."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(x), generator=generator)
    train, val = order[: 2 * len(x) // 3], order[2 * len(x) // 3 :]
    if x.dim() == 2 and x.is_floating_point() and not x.isnan().any():  # a scaler of both splits is itself a fault
        x = (x - x[train].mean(0)) / x[train].std(0)
    return Splits(x[train].clone(), y[train].clone(), x[val].clone(), y[val].clone(), torch.zeros(0)), generator


def flip(share: float, confusable: bool = False) -> Change:
    """Replace a share of the training labels by a random class, or by the class that is confused most with it."""

    def change(splits: Splits, generator: torch.Generator) -> None:
        classes, count = int(splits.y.max()) + 1, max(round(share * len(splits.y)), 1)
        rows = torch.randperm(len(splits.y), generator=generator)[:count]
        other = (splits.y + torch.randint(1, classes, splits.y.shape, generator=generator)) % classes
        if confusable:
            nearest = _most_confused(splits)
            other = nearest[splits.y]
        splits.y[rows], splits.planted = other[rows], rows

    return change


def _most_confused(splits: Splits) -> Tensor:
    """Return the class that a logistic regression gives the highest mean probability after the own class."""
    flat = splits.x.flatten(1).nan_to_num().numpy()
    probabilities = LogisticRegression(max_iter=300).fit(flat, splits.y).predict_proba(flat)
    means = np.stack([probabilities[splits.y.numpy() == number].mean(0) for number in range(probabilities.shape[1])])
    np.fill_diagonal(means, -1)
    return torch.tensor(means.argmax(1))


def copy_within(splits: Splits, generator: torch.Generator) -> None:
    """Repeat some training samples."""
    splits.x[:_PLANTED_COPIES] = splits.x[100 : 100 + _PLANTED_COPIES].clone()
    splits.y[:_PLANTED_COPIES] = splits.y[100 : 100 + _PLANTED_COPIES].clone()


def copy_across(splits: Splits, generator: torch.Generator) -> None:
    """Put some training samples into validation."""
    splits.x_val[:_PLANTED_COPIES], splits.y_val[:_PLANTED_COPIES] = (
        splits.x[:_PLANTED_COPIES].clone(),
        splits.y[:_PLANTED_COPIES].clone(),
    )


def copy_near(change: Callable[[Tensor, torch.Generator], Tensor]) -> Change:
    """Put slightly changed training samples into validation."""

    def plant(splits: Splits, generator: torch.Generator) -> None:
        copy_across(splits, generator)
        splits.x_val[:_PLANTED_COPIES] = change(splits.x_val[:_PLANTED_COPIES], generator)

    return plant


def change_validation(change: Callable[[Tensor], Tensor]) -> Change:
    """Preprocess validation otherwise."""

    def plant(splits: Splits, generator: torch.Generator) -> None:
        splits.x_val = change(splits.x_val)

    return plant


def shift_feature(shift: float) -> Change:
    """Shift one column of validation, or the level of its images or windows, by standard deviations."""

    def plant(splits: Splits, generator: torch.Generator) -> None:
        if splits.x.dim() == 2:
            splits.x_val[:, 2] += shift * float(np.nanstd(splits.x[:, 2].numpy()))
        else:
            splits.x_val += shift * float(splits.x.flatten(1).mean(1).std())

    return plant


def darken_slice(splits: Splits, generator: torch.Generator) -> None:
    """Darken a quarter of the validation images to 60%."""
    splits.x_val[: len(splits.x_val) // 4] *= 0.6


def shuffle_labels(splits: Splits, generator: torch.Generator) -> None:
    """Shuffle the training labels."""
    splits.y = splits.y[torch.randperm(len(splits.y), generator=generator)]


def has_mismatch(*words: str) -> Criterion:
    """Return whether another preprocessing is named with one of some words."""
    return lambda profile, _: any(
        word in text for item in profile.drift.comparisons for text in item.mismatches for word in words
    )


def has_pairs(kind: str, is_across: bool) -> Criterion:
    """Return whether nine tenths of the planted pairs are listed."""
    return lambda profile, _: profile.duplicates.count(is_across, kind) >= 0.9 * _PLANTED_COPIES


def has_drift(profile: DataProfile, _: Splits) -> bool:
    """Return whether a shift of an input is reported."""
    comparisons = profile.drift.comparisons
    return any(shift.role == "input" for item in comparisons for shift in item.shifted_features)


def has_wrong_labels(profile: DataProfile, _: Splits) -> bool:
    """Return whether training labels look wrong."""
    return any(quality.looks_wrong for quality in profile.labels.splits if quality.split == "train")


def has_unrelated_labels(profile: DataProfile, _: Splits) -> bool:
    """Return whether the training labels look unrelated to the inputs."""
    return any(not relation.is_related for split_name, relation in profile.labels.relations if split_name == "train")


def _faults(x: Tensor) -> dict[str, tuple[Change, Criterion]]:
    """Return the faults that apply to inputs of a shape."""
    deviation = 0.02 * x.nan_to_num().std()
    noise = copy_near(lambda part, generator: part + deviation * torch.randn(part.shape, generator=generator))
    faults: dict[str, tuple[Change, Criterion]] = {
        **{f"{share:.0%} of the labels flipped": (flip(share), has_wrong_labels) for share in _FLIPPED_SHARES},
        "5% flipped to a confusable class": (flip(0.05, True), has_wrong_labels),
        "10% flipped to a confusable class": (flip(0.1, True), has_wrong_labels),
        "shuffled labels": (shuffle_labels, has_unrelated_labels),
        "20 copies in training": (copy_within, has_pairs("exact", False)),
        "20 training samples in validation": (copy_across, has_pairs("exact", True)),
        "20 near copies (noise of 2%)": (noise, has_pairs("near", True)),
        "scaled by 1/255 once more": (change_validation(lambda part: part / 255), has_mismatch("divided by 255")),
        "another mean and std": (
            change_validation(lambda part: (part - 0.2) / 0.4),
            has_mismatch("normaliz", "standardized"),
        ),
        **{f"shift of {shift:g} sd": (shift_feature(shift), has_drift) for shift in _SHIFTS},
    }
    if x.dim() == 4:
        faults |= {
            "20 near copies (brightness)": (copy_near(lambda part, _: part * 0.8 + 0.05), has_pairs("near", True)),
            "transposed": (
                change_validation(lambda part: part.transpose(2, 3).contiguous()),
                has_mismatch("transposed"),
            ),
            "a quarter darkened to 60%": (darken_slice, has_drift),
        }
    return faults


def report_clean(name: str, resamples: int) -> None:
    """Print the share of quiet resamples of clean data, by kind of alarm."""
    x, y = SETS[name]()
    alarms = {"drift": 0, "duplicates": 0, "labels": 0, "leaks": 0, "unusual": 0}
    quiet = 0
    for seed in range(resamples):
        profile = split(x, y, seed)[0].profile()
        faults = {kind: bool(getattr(profile, kind).faults) for kind in ("drift", "duplicates", "labels", "leaks")}
        faults["unusual"] = bool(profile.unusual)
        alarms = {kind: count + faults[kind] for kind, count in alarms.items()}
        quiet += not any(faults.values())
    counts = ", ".join(f"{kind} {count}" for kind, count in alarms.items())
    print(f"{name:15} clean: quiet in {quiet} of {resamples} (alarms: {counts})", flush=True)


def report_faults(name: str, resamples: int) -> None:
    """Print how often each planted fault is found, and the precision of the suspect labels."""
    x, y = SETS[name]()
    for fault, (change, is_found) in _faults(x).items():
        found, precisions, recalls = 0, list[float](), list[float]()
        for seed in range(resamples):
            splits, generator = split(x, y, seed)
            change(splits, generator)
            profile = splits.profile()
            found += is_found(profile, splits)
            if len(splits.planted):
                precision, recall = _judge_suspects(profile, splits)
                precisions.append(precision)
                recalls.append(recall)
        labels = f"; precision at k {np.nanmean(precisions):.2f}, listed {np.mean(recalls):.2f}" if recalls else ""
        print(f"{name:15} {fault:35} found in {found:3} of {resamples}{labels}", flush=True)


def _judge_suspects(profile: DataProfile, splits: Splits) -> tuple[float, float]:
    """Return the precision of the first k suspects, k the number of planted labels or of suspects, and the recall."""
    suspects = [suspect.index for suspect in profile.labels.suspects if suspect.split == "train"]
    planted = set(splits.planted.tolist())
    first = suspects[: len(planted)]
    precision = float(np.mean([index in planted for index in first])) if first else float("nan")
    return precision, len(planted & set(suspects)) / len(planted)


class _ImageFiles(Dataset[Any]):
    """Images that are made one by one, as a dataset of files returns them."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=generator)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index].float().div_(255).sub_(0.5).div_(0.5), index % 10


def report_images() -> None:
    """Print CPU seconds and memory for 50,000 images of 32 × 32 from a plain DataLoader, all of them read."""
    dataset = _ImageFiles(_IMAGES)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
    loaders = DataLoader(dataset, 128, shuffle=True), DataLoader(_ImageFiles(2000), 128)
    setup, before = Setup(model, *loaders, loss_fn=nn.CrossEntropyLoss()), current_resident_kib()
    start = time.process_time()
    data(setup, samples=None)
    seconds, memory = time.process_time() - start, peak_resident_kib() - before
    print(f"{_IMAGES:,} images of 32×32: {seconds:.1f} CPU seconds, memory +{memory / 1024:.0f} MiB", flush=True)


def report_table() -> None:
    """Print CPU seconds for a million rows of 100 columns, next to describe() of pandas and one KS each."""
    import pandas as pd
    from scipy.stats import ks_2samp

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(_ROWS, _COLUMNS, generator=generator)
    y = torch.randint(0, 2, (_ROWS,), generator=generator)
    x_val, y_val = x[:200_000] + 0.0, y[:200_000]
    x_val = x_val + 0.001 * torch.randn(x_val.shape, generator=generator)
    model = nn.Linear(_COLUMNS, 2)
    loaders = DataLoader(TensorDataset(x, y), 256), DataLoader(TensorDataset(x_val, y_val), 256)
    setup = Setup(model, *loaders, loss_fn=nn.CrossEntropyLoss())
    before, start = current_resident_kib(), time.process_time()
    data(setup, samples=None)
    seconds, memory = time.process_time() - start, peak_resident_kib() - before
    print(f"{_ROWS:,} × {_COLUMNS}: {seconds:.1f} CPU seconds, memory +{memory / 1024:.0f} MiB", flush=True)
    frame, val_frame = pd.DataFrame(x.numpy()), pd.DataFrame(x_val.numpy())
    start = time.process_time()
    frame.describe()
    val_frame.describe()
    described = time.process_time() - start
    start = time.process_time()
    for column in range(_COLUMNS):
        ks_2samp(frame[column], val_frame[column], method="asymp")
    tested = time.process_time() - start
    ratio = seconds / (described + tested)
    print(f"describe() {described:.1f} CPU seconds, one KS per column {tested:.1f}: ratio {ratio:.2f}", flush=True)


def main() -> None:
    """Run the chosen parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resamples", type=int, default=20)
    parser.add_argument("--clean", type=int, default=100)
    parser.add_argument("--only", choices=["clean", "faults", "cost"])
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    arguments = parser.parse_args()
    for name in arguments.sets if arguments.only in (None, "clean") else ():
        report_clean(name, arguments.clean)
    for name in arguments.sets if arguments.only in (None, "faults") else ():
        report_faults(name, arguments.resamples)
    if arguments.only in (None, "cost"):  # the images first, since the peak of the memory is that of the process
        report_images()
        report_table()


if __name__ == "__main__":
    main()
