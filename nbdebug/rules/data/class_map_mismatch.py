"""D125: the splits number their classes differently, or carry a stray class."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.evidence.label_probe import Probe
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import network
from nbdebug.setup import Setup

CONSEQUENCES = ("D110", "D119", "D101", "T609", "E702", "E706", "E709")


@rule("D125", "error")
def class_map_mismatch(
    class_maps: dict[str, dict[str, dict[str, int]]], label_probe: Probe, *, share: float = 0.6, least: int = 10
) -> Iterator[Finding]:
    """The splits number their classes differently, or carry a stray class.

    ## What it does
    Compares the maps from names to numbers that both data sets hold (``class_to_idx``, ``classes``, a fitted label
    encoder, any dictionary of that kind), by name. Where they hold none, it asks what a simple learner of the training
    split takes the validation classes for.

    ## Why it matters
    Every prediction is right under one map and counted by another: validation looks as if nothing had been learned.

    ## How it is measured
    Exactly, by name. Without names it takes at least two classes, of ``least`` = 10 samples or more, each of which is
    taken for another class, a different one each, in more than ``share`` = 60 % of its samples, while the same
    learner tells the classes within each split at five standard deviations above chance. As measured on 60 draws of
    each set of scikit-learn, the largest share of a class that was taken for one other with equal maps, and how often
    two swapped classes were both over 60 %:

    | labels drawn anew | | digits | breast cancer | wine | iris |
    |---|---|---|---|---|---|
    | none | equal | 16 % | 7 % | 17 % | 18 % |
    | | swapped, found | 100 % | 100 % | 100 % | 100 % |
    | a fifth | equal | 36 % | 26 % | 31 % | 33 % |
    | | swapped, found | 85 % | 100 % | 93 % | 98 % |
    | two fifths | equal | 32 % | 43 % | 58 % | 47 % |
    | | swapped, found | 2 % | 98 % | 32 % | 68 % |

    ## How to fix
    Make the map once, from the training split, and hand it to the others.

    ## When to ignore
    When the numbers are translated later on.

    ## References
    Documentation of torchvision.datasets.ImageFolder: classes are numbered by the sorted names of the folders there.
    """
    train, val = class_maps.get("train", {}), class_maps.get("val", {})
    yield from strays(class_maps)
    shared = [name for name in train if name in val]
    for name in shared:
        differing = {key: (n, val[name][key]) for key, n in train[name].items() if val[name].get(key, n) != n}
        if differing:
            yield by_name(name, differing, sorted(set(train[name]) ^ set(val[name])))
            return
    if not shared and label_probe.across is not None and all(one.sigma >= 5 for one in label_probe.within.values()):
        yield from by_learner(label_probe.across, share, least)


def by_name(name: str, differing: dict[str, tuple[int, int]], lone: list[str]) -> Finding:
    """Which names have which numbers."""
    listed = ", ".join(f"{key} is {a} and {b}" for key, (a, b) in list(differing.items())[:3])
    only = f"; only one split has {', '.join(lone[:3])}" if lone else ""
    return Finding(
        message=f"{len(differing)} names have other numbers in validation than in training ({name}): {listed}{only}.",
        cause="Each split numbered the names that it found by itself.",
        fix=f"val_set.{name} = train_set.{name}   # and number the validation labels by it",
        evidence={"attribute": name, "name: (train, val)": dict(list(differing.items())[:50]), "in one split": lone},
        explains=CONSEQUENCES,
    )


def strays(class_maps: dict[str, dict[str, dict[str, int]]]) -> Iterator[Finding]:
    """A hidden folder that was taken for a class."""
    for split, held in class_maps.items():
        for name, numbers in held.items():
            hidden = [key for key in numbers if key.startswith((".", "__MACOSX"))]
            if hidden and len(hidden) < len(numbers):
                yield Finding(
                    message=f"The {split} data count {hidden[0]} as class {numbers[hidden[0]]} ({name}); it is a "
                    f"hidden folder, and every class after it has moved by one.",
                    cause="A folder that holds no class lies among those of the classes.",
                    fix=f"# delete the folder {hidden[0]}, and build the data set again",
                    evidence={"split": split, "attribute": name, "names": list(numbers)[:50]},
                    explains=CONSEQUENCES,
                )


def by_learner(across: Tensor, share: float, least: int) -> Iterator[Finding]:
    """The finding on classes that a learner of the training split takes for other ones, one for one."""
    counts = across.sum(1)
    taken = {
        row: int(across[row].argmax())
        for row in range(len(across))
        if counts[row] >= least and float(across[row].max()) > share * float(counts[row])
    }
    moved = {row: column for row, column in taken.items() if row != column}
    if len(moved) > 1 and len(set(taken.values())) == len(taken):
        listed = ", ".join(
            f"{row} look like training samples of class {other}" for row, other in list(moved.items())[:3]
        )
        yield Finding(
            message=f"{len(moved)} classes seem to be numbered otherwise in validation: its samples of class {listed}, "
            f"each in more than {share:.0%} of them.",
            cause="Each split numbered its classes by itself.",
            fix="# make one map from class names to numbers, and use it for both splits",
            evidence={"validation class: taken for": moved, "counts": across.tolist() if len(across) <= 20 else []},
            explains=CONSEQUENCES,
        )


def splits(numbers: Tensor) -> Setup:
    """Three classes that a linear layer can tell; validation calls them by other ``numbers``."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(600, 4, generator=generator)
    y = (x @ torch.randn(4, 3, generator=generator)).argmax(1)
    train, val = TensorDataset(x[:300], y[:300]), TensorDataset(x[300:], numbers[y[300:]])
    return Setup(network(3), DataLoader(train, 16), DataLoader(val, 16), loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """Two classes that have changed places."""
    return splits(torch.tensor([1, 0, 2]))


def good() -> Setup:
    """The same numbers in both splits."""
    return splits(torch.arange(3))
