"""The names that data sets give to class numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nbdebug.evidence.ledger import measurement
from nbdebug.setup import Setup

LISTS = ("classes", "class_names", "categories", "label_names", "label_list")
WRAPPED = ("dataset", "data", "base")
DEPTH = 4


@measurement
def class_maps(setup: Setup) -> dict[str, dict[str, dict[str, int]]]:
    """For each split, the maps from names to numbers that its data set holds, by attribute."""
    loaders = {"train": setup.train_loader, "val": setup.val_loader}
    found = {split: dict(maps(getattr(loader, "dataset", None))) for split, loader in loaders.items()}
    return {split: held for split, held in found.items() if held}


def maps(dataset: Any, depth: int = DEPTH) -> Iterator[tuple[str, dict[str, int]]]:
    """The maps of a data set and of those that it wraps, with the attributes that hold them."""
    if dataset is None or not depth:
        return
    for name, value in vars(dataset).items() if hasattr(dataset, "__dict__") else ():
        if name in WRAPPED:
            yield from maps(value, depth - 1)
        if (found := as_map(name, value)) is not None:
            yield name, found


def as_map(name: str, value: Any) -> dict[str, int] | None:
    """A mapping of names to different whole numbers, a list of class names, or a fitted label encoder, as one map."""
    if isinstance(value, Mapping) and value and all(isinstance(k, str) and type(v) is int for k, v in value.items()):
        return dict(value) if len(set(value.values())) == len(value) else None
    names = getattr(value, "classes_", value if name in LISTS else ())
    several = list(map(str, names)) if isinstance(names, (list, tuple)) or hasattr(names, "tolist") else []
    numbered = {one: number for number, one in enumerate(several)}
    return numbered if several and len(numbered) == len(several) else None
