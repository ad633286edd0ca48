"""How often data() finds planted faults, how often it is quiet on clean data, and what it costs.

    python benchmarks/data.py [--resamples 20] [--clean 100] [--first-seed 0]
        [--only clean|faults|sources|cost] [--sets digits titanic]

The sets are those of data_sets.py, and the faults those of data_faults.py. Each resample is another random split into
two thirds for training and one third for validation. A clean resample counts as quiet if no drift, duplicate, label,
leak or unusual sample is reported; a planted one counts as found if the fault is reported as such, and as out of reach
if the profile says that it cannot tell or would not have shown a fault of this size. The precision at k is that of the
first k listed suspects, where k is the number of planted wrong labels that are listed or, if fewer are, the number of
suspects.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch
from data_faults import Splits, faults_of, make_model, split
from data_sets import SETS, smartwatch
from process_memory import current_resident_kib, peak_resident_kib
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from nbdebug.setup import Setup
from nbdebug.tools.data import DataProfile, data

_IMAGES, _ROWS, _COLUMNS = 50_000, 1_000_000, 100


def report_clean(name: str, resamples: int, first_seed: int) -> None:
    """Print the share of quiet resamples of clean data, by kind of alarm."""
    x, y = SETS[name]()
    alarms = {"drift": 0, "duplicates": 0, "labels": 0, "leaks": 0, "unusual": 0}
    quiet = 0
    for seed in range(first_seed, first_seed + resamples):
        profile = split(x, y, seed)[0].profile()
        faults = {kind: getattr(profile, kind).faults for kind in ("drift", "duplicates", "labels", "leaks")}
        faults["unusual"] = [str(item) for item in profile.unusual]
        alarms = {kind: count + bool(faults[kind]) for kind, count in alarms.items()}
        quiet += not any(faults.values())
        for kind, texts in faults.items():
            if texts:
                print(f"{name:15} resample {seed}: {kind}: {'; '.join(texts)[:200]}", flush=True)
    counts = ", ".join(f"{kind} {count}" for kind, count in alarms.items())
    print(f"{name:15} clean: quiet in {quiet} of {resamples} (alarms: {counts})", flush=True)


def report_faults(name: str, resamples: int) -> None:
    """Print how often each planted fault is found or said to be out of reach, and the precision of suspect labels."""
    x, y = SETS[name]()
    for title, fault in faults_of(x).items():
        found, excluded, precisions, recalls = 0, 0, list[float](), list[float]()
        for seed in range(resamples):
            splits, generator = split(x, y, seed)
            fault.plant(splits, generator)
            profile = splits.profile()
            is_found = fault.is_found(profile)
            found += is_found
            excluded += not is_found and fault.is_excluded(profile)
            if len(splits.planted):
                precision, recall = _judge_suspects(profile, splits)
                precisions.append(precision)
                recalls.append(recall)
        missed = resamples - found - excluded
        text = f"found in {found:3} of {resamples}, said to be out of reach in {excluded}, missed in {missed}"
        listed = [value for value in precisions if not np.isnan(value)]
        text += f"; precision at k {np.mean(listed):.2f}" if listed else ""
        text += f"; listed {np.mean(recalls):.2f}" if recalls else ""
        print(f"{name:15} {title:35} {text}", flush=True)


def report_sources(resamples: int) -> None:
    """Print how often subjects in both splits are found, and how often splits by subject give an alarm."""
    x, y, subjects = smartwatch(step=200)
    counts = dict.fromkeys(("by the order", "by groups", "alarms"), 0)
    for seed in range(resamples):
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(x), generator=generator)
        chosen = torch.randperm(int(subjects.max()) + 1, generator=generator)[: len(subjects.unique()) // 3]
        is_val = torch.isin(subjects, chosen)
        mixed = _profile_subsets(x, y, order[: 2 * len(x) // 3], order[2 * len(x) // 3 :])
        grouped = _profile_subsets(x, y, order[: 2 * len(x) // 3], order[2 * len(x) // 3 :], groups=subjects)
        apart = _profile_subsets(x, y, (~is_val).nonzero()[:, 0], is_val.nonzero()[:, 0])
        counts["by the order"] += mixed.leaks.has_neighboring_sources
        counts["by groups"] += grouped.leaks.groups is not None and grouped.leaks.groups.is_leak
        counts["alarms"] += bool(apart.leaks.faults)
    text = ", ".join(f"{name} {count}" for name, count in counts.items())
    print(f"watch           subjects in both splits, found or alarms of splits by subject, of {resamples}: {text}")


def _profile_subsets(x: Tensor, y: Tensor, train: Tensor, val: Tensor, **options: Any) -> DataProfile:
    """Return the profile of two parts of one dataset."""
    dataset = TensorDataset(x, y)
    loaders = [DataLoader(Subset(dataset, rows.tolist()), 64) for rows in (train, val)]
    model = make_model(x, int(y.max()) + 1)
    return data(Setup(model, *loaders, loss_fn=nn.CrossEntropyLoss()), samples=None, **options)


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
    parser.add_argument("--first-seed", type=int, default=0, help="of the clean resamples")
    parser.add_argument("--only", choices=["clean", "faults", "sources", "cost"])
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    arguments = parser.parse_args()
    for name in arguments.sets if arguments.only in (None, "clean") else ():
        report_clean(name, arguments.clean, arguments.first_seed)
    for name in arguments.sets if arguments.only in (None, "faults") else ():
        report_faults(name, arguments.resamples)
    if arguments.only == "sources" or (arguments.only is None and "watch" in SETS):
        report_sources(arguments.resamples)
    if arguments.only in (None, "cost"):  # the images first, since the peak of the memory is that of the process
        report_images()
        report_table()


if __name__ == "__main__":
    main()
