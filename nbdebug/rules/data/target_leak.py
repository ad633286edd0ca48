"""D115: one input feature gives the target away."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.evidence.tables import Table
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup

LOOK = 200  # samples after which most columns are out of the question


@rule("D115", "error")
def target_leak(
    setup: Setup, tables: dict[str, Table], *, least: int = 50, columns: int = 3, exact: float = 1e-5
) -> Iterator[Finding]:
    """One input feature is the target in another form.

    ## What it does
    Compares each feature (each column of a table, each step of a series) with the target: a real target with what
    multiplying by a number and adding one makes of the feature, a class with the few values of the feature.

    ## Why it matters
    The model learns to read the answer. Every score looks excellent, and nothing is left once the answer is not there.

    ## How it is measured
    Exactly, on the training samples that can be read, from ``least`` = 50 samples and ``columns`` = 3 features on: a
    correlation that differs from 1 by less than ``exact`` = 1e-5, which rounding to float32 leaves; or a feature with
    one value for each class, and another for each. A feature that only predicts well is no leak.

    ## How to fix
    Drop the column where the inputs are made; end the window of a series before the step that is to be predicted.

    ## When to ignore
    When the rule to be learned is that the target is one of the inputs, as in a test of the code.

    ## References
    S. Kaufman, S. Rosset, C. Perlich, Leakage in Data Mining: Formulation, Detection, and Avoidance (2011).
    """
    table = tables.get("train")
    if table is None or len(table) < least or len(table.targets) != 1 or table.targets[0][0].numel() != 1:
        raise NotChecked(f"it takes {least} training samples that can be read, with one target each")
    target = table.targets[0].reshape(len(table)).float()
    for place, part in enumerate(table.inputs):
        if not part.is_floating_point() or part.dim() not in (2, 3) or part[0].numel() < columns:
            continue
        flat = part.reshape(len(part), -1).float()
        found = same_classes(flat, table.labels) if table.labels is not None else same_values(flat, target, exact)
        for column in found[:3]:
            yield finding(setup, part, place, column)


def same_values(flat: Tensor, target: Tensor, exact: float) -> list[int]:
    """The columns that are the target in other units."""
    if not bool(flat.isfinite().all() and target.isfinite().all()) or float(target.std()) == 0:
        return []
    some = spread(len(flat))
    close = (correlation(flat[some], target[some]) > 1 - 10 * exact).nonzero().flatten()
    found: list[int] = close[correlation(flat[:, close], target) > 1 - exact].tolist()
    return found


def spread(rows: int) -> Tensor:
    """Some rows from first to last."""
    return torch.linspace(0, rows - 1, min(LOOK, rows)).long()


def correlation(flat: Tensor, target: Tensor) -> Tensor:
    """The size of the correlation of each column with the target, in double precision."""
    columns, wanted = flat.double(), target.double()
    columns, wanted = columns - columns.mean(0), wanted - wanted.mean()
    size = columns.norm(dim=0) * wanted.norm()
    found: Tensor = (columns * wanted[:, None]).sum(0).abs() / size.clamp_min(1e-12)
    return found


def same_classes(flat: Tensor, labels: Tensor) -> list[int]:
    """The columns with one value for each class, and another for each."""
    classes = sorted(set(labels.tolist()))
    if len(classes) < 2:
        return []
    first = torch.stack([flat[labels == one][0] for one in classes])
    places = torch.searchsorted(torch.tensor(classes), labels)
    some = spread(len(flat))
    columns = (flat[some] == first[places[some]]).all(0).nonzero().flatten().tolist()
    several = [column for column in columns if len(set(first[:, column].tolist())) == len(classes)]
    return [column for column in several if bool((flat[:, column] == first[places, column]).all())]


def finding(setup: Setup, part: Tensor, place: int, column: int) -> Finding:
    """Which feature it is."""
    names = setup.feature_names or []
    known = part.dim() == 2 and len(names) == part.shape[1]
    series = f"step {column // part.shape[-1]} of {part.shape[1]}, column {column % part.shape[-1]}"
    name = names[column] if known else f"column {column}" if part.dim() == 2 else series
    return Finding(
        message=f"The target of every training sample stands in its inputs: {name} of input {place} is the target in "
        f"other units or under other numbers, in all {len(part):,} samples.",
        cause="The inputs were made from a table that holds the target too, or a window reaches to the predicted step.",
        fix="x = np.delete(x, column, axis=1)   # or end the window one step earlier",
        evidence={"input": place, "column": column, "samples": len(part)},
        explains=("T611", "D105", "L208"),
    )


def with_column(leak: bool) -> Setup:
    """Points with three classes, whose last column is or is not the class."""
    x, y = points()
    return program(
        network(3), torch.cat([x[:, :3], (y.float() if leak else x[:, 3])[:, None]], 1), y, nn.CrossEntropyLoss()
    )


def bad() -> Setup:
    """The class stands in the last column."""
    return with_column(leak=True)


def good() -> Setup:
    """Inputs without it."""
    return with_column(leak=False)
