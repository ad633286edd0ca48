"""D125 for folders that are listed as classes and are none, such as the hidden ones of notebooks."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import partial

from nbdebug.finding import Finding
from nbdebug.setup import Setup
from nbdebug.setup.part_sources import constructor_argument
from nbdebug.setup.sample_functions import nested_datasets
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.numbering_lines import numbering_of_attribute

_HIDDEN_NAME = re.compile(r"\.\w|__MACOSX|__pycache__")
_ATTRIBUTES_OF_FOLDERS = ("classes", "class_to_idx")
_PASSED_ON = (ast.Name, ast.Attribute, ast.IfExp, ast.Constant)
_SPLITS = {"train": "training", "val": "validation"}
ClassMaps = dict[str, dict[str, dict[str, int]]]


@dataclass(frozen=True)
class StrayClass:
    """A hidden folder among the classes of a split, its number, and the attribute of the dataset that contains it."""

    split: str
    attribute: str
    name: str
    number: int


def stray_classes(class_maps: ClassMaps) -> list[StrayClass]:
    """Return the first hidden folder among the classes of each split.

    An attribute other than those of folders may hold other texts, as a vocabulary does, so it must hold the name in one
    split only.
    """
    result: list[StrayClass] = []
    for split, maps in class_maps.items():
        others = [other for name, other in class_maps.items() if name != split]
        strays = [
            StrayClass(split, attribute, name, number)
            for attribute, numbers in maps.items()
            for name, number in numbers.items()
            if _HIDDEN_NAME.match(name) and not all(map(_HIDDEN_NAME.match, numbers))
            if attribute in _ATTRIBUTES_OF_FOLDERS
            or any(attribute in other and name not in other[attribute] for other in others)
        ]
        result += strays[:1]
    return result


def differing_numbers(train: dict[str, int], val: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Return the numbers in training and validation of each name that has another one in validation."""
    return {name: (number, val[name]) for name, number in train.items() if val.get(name, number) != number}


def have_one_order(train: dict[str, int], val: dict[str, int], strays: set[str]) -> bool:
    """Check whether the splits number the same names in the same order without some names."""
    orders = [sorted({*numbers} - strays, key=numbers.__getitem__) for numbers in (train, val)]
    return orders[0] == orders[1]


def list_numbers(differing: dict[str, tuple[int, int]]) -> str:
    """Return the first names that have different numbers in the splits, in words."""
    return ", ".join(
        f"{name!r} is {train} in training and {val} in validation" for name, (train, val) in [*differing.items()][:3]
    )


def stray_class_finding(
    setup: Setup, strays: list[StrayClass], class_maps: ClassMaps, *, explains: tuple[str, ...]
) -> Finding:
    """Report a hidden folder among the classes, at the line that lists them."""
    first, line = strays[0], _listing_line(setup, strays[0])
    splits = " and ".join(_SPLITS[stray.split] for stray in strays)
    numbers = [class_maps.get(split, {}).get(first.attribute, {}) for split in _SPLITS]
    differing = differing_numbers(*numbers)
    shift = (
        f" {len(differing)} class names have different numbers in the two splits: {list_numbers(differing)}."
        if differing
        else ""
    )
    skip = "Skip names that start with a dot where the classes are listed, and create both datasets again."
    return Finding(
        message=f"In the {splits} data, {first.name} is class {first.number} in the attribute `{first.attribute}` "
        f"of the dataset. It is a hidden folder, and it shifts the number of every class after it by one.{shift}",
        where=get_location(line),
        cause="A folder that is not a class is located among the class folders.",
        fix=skip
        if line and first.name.startswith(".")
        else f"# delete the folder {first.name} and create the dataset again",
        evidence={
            "split": first.split,
            "attribute": first.attribute,
            "names": [*class_maps[first.split][first.attribute]][:50],
            "name: (train, val)": dict([*differing.items()][:50]),
        },
        explains=explains,
    )


def _listing_line(setup: Setup, stray: StrayClass) -> SourceLine | None:
    """Return the user's line that lists the names of the classes of a split; None if a library lists them."""
    loader = setup.train_loader if stray.split == "train" else setup.val_loader
    try:
        datasets = nested_datasets(getattr(loader, "dataset", None))
        owner = next((dataset for dataset in datasets if hasattr(dataset, stray.attribute)), None)
        makers = numbering_of_attribute(owner, stray.attribute, partial(constructor_argument, setup, loader))
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None
    lines = [maker.line for maker in makers if not isinstance(maker.node, _PASSED_ON)]
    return max(lines, key=lambda line: line.number, default=None)
