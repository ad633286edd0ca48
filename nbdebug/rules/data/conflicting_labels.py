"""D122: identical inputs with different labels."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from torch import nn

from nbdebug.evidence.sameness import is_rich
from nbdebug.evidence.tables import Table, keys
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup
from nbdebug.setup.task import Task


@rule("D122", "warning")
def conflicting_labels(task: Task, tables: dict[str, Table], *, share: float = 0.01) -> Iterator[Finding]:
    """Identical inputs bear different labels.

    ## What it does
    Groups the samples of each split by their inputs, bit by bit, and names the groups whose labels differ. Only tasks
    with one class for each sample are judged: elsewhere one input may well have several answers.

    ## Why it matters
    No model can be right on both, so that the training loss has a floor, and one of the labels is false.

    ## How it is measured
    Exactly, on the samples that can be read. A warning from ``share`` = 1 % of the samples on, as many wrong labels
    as well-kept data sets have (Northcutt found 3.3 % on average); less is a note, and so is any number where inputs
    with few different values repeat by chance.

    ## How to fix
    Look at the pairs, keep the right one of each.

    ## When to ignore
    When the label is random given the input, as in a game of chance.

    ## References
    C. Northcutt, A. Athalye, J. Mueller, Pervasive Label Errors in Test Sets (2021).
    """
    if task.name not in ("classification", "binary"):
        raise NotChecked(f"the task is {task.name}, where one input may have several answers")
    if all(table.labels is None for table in tables.values()):
        raise NotChecked("there is not one class for each sample")
    for table in tables.values():
        if groups := conflicts(table):
            yield finding(table, groups, share)


def conflicts(table: Table) -> list[list[int]]:
    """The places of samples whose inputs are equal and whose labels are not."""
    labels = table.labels
    if labels is None or not table.inputs:
        return []
    codes = keys(table.inputs)
    if len(set(codes)) == len(codes):
        return []
    groups: dict[Hashable, list[int]] = {}
    for place, key in enumerate(codes):
        groups.setdefault(key, []).append(place)
    classes = labels.tolist()
    return [group for group in groups.values() if len({classes[place] for place in group}) > 1]


def finding(table: Table, groups: list[list[int]], share: float) -> Finding:
    """How many samples contradict each other, and which."""
    count, classes = sum(map(len, groups)), table.labels.tolist() if table.labels is not None else []
    pairs = [[(table.indices[place], classes[place]) for place in group[:4]] for group in groups[:10]]
    first = " and ".join(f"sample {index} is labeled {label}" for index, label in pairs[0][:2])
    loud = count >= share * len(table) and is_rich(table, keys([*table.inputs, *table.targets]))
    return Finding(
        message=f"{count} of {len(table)} {table.split} samples ({count / len(table):.1%}) have the same input as "
        f"another and a different label, for example: {first}; expected none.",
        where=Where(sample=pairs[0][0][0]),
        cause="Copies were labeled twice, or labels were joined to the wrong inputs."
        if loud
        else "Inputs with few different values repeat, or a few samples were labeled twice.",
        fix=f"for i in ({', '.join(str(index) for index, _ in pairs[0][:2])}):\n    print(dataset[i])",
        evidence={"split": table.split, "samples": count, "groups of (index, label)": pairs},
        explains=("T606", "T608", "D111", "D107"),
        severity=None if loud else "note",
    )


def bad() -> Setup:
    """Four samples that came twice, the second time with another label."""
    x, y = points()
    x[4:8] = x[:4]
    y[4:8] = (y[:4] + 1) % 3
    return program(network(3), x, y, nn.CrossEntropyLoss())


def good() -> Setup:
    """Each sample once."""
    return classifier()
