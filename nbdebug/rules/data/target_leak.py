"""D115: one input feature gives the target away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nbdebug.evidence.tables import Table
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import network, points, program
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.tools.importance import Importance

LEAST_OF_CLASS = 5  # samples for a spread
LOOK = 200  # samples after which most columns are out of the question


@rule("D115", "error")
def target_leak(
    setup: Setup,
    tables: dict[str, Table] | NotChecked,
    importance: Importance | NotChecked,
    *,
    least: int = 50,
    columns: int = 3,
    exact: float = 1e-5,
    alone: float = 0.85,
    skill: float = 0.9,
    gap: float = 10.0,
) -> Iterator[Finding]:
    """One input feature gives the target away.

    ## What it does
    Compares each feature (each column of a table, each step of a series) with the target: a real target with what
    multiplying by a number and adding one makes of the feature, a class with the few values of the feature. After
    ``dbg.importance()``: whether one feature alone decides what the model says.

    ## Why it matters
    The model learns to read the answer. Every score looks excellent, and nothing is left once the answer is not there.

    ## How it is measured
    Exactly, on the training samples that can be read, from ``least`` = 50 samples and ``columns`` = 3 features on: a
    correlation that differs from 1 by less than ``exact`` = 1e-5, which rounding to float32 leaves; or a feature with
    one value for each class, and another for each. A feature that only predicts well is no leak; one that puts ``gap``
    = 10 standard deviations between all classes where no other feature puts a third of that draws a warning: an answer
    with noise on it. By importance, as a warning: the feature that gets most attribution, and without which the metric
    falls most, takes ``skill`` = 0.9 of what the model is better by than a constant answer, no other feature takes a
    third of that, and a small tree on it alone gets ``alone`` = 0.85 of what a constant gets wrong right, out of
    sample.

    ## How to fix
    Drop the column where the inputs are made; end the window of a series before the step that is to be predicted.

    ## When to ignore
    When the rule to be learned is that the target is one of the inputs, as in a test of the code.

    ## References
    S. Kaufman, S. Rosset, C. Perlich, Leakage in Data Mining: Formulation, Detection, and Avoidance (2011).
    """
    table = None if isinstance(tables, NotChecked) else tables.get("train")
    found = list(copies(setup, table, least, columns, exact))
    found = found or list(apart(setup, table, least, columns, gap))
    yield from found
    if not isinstance(importance, NotChecked):
        if not found:
            yield from decisive(importance, least, columns, alone, skill)
    elif isinstance(tables, NotChecked):
        raise tables
    elif unfit(tables.get("train"), least):
        raise NotChecked(f"it takes {least} training samples that can be read, with one target each")


def unfit(table: Table | None, least: int) -> bool:
    """Whether a table cannot be compared with its target."""
    return table is None or len(table) < least or len(table.targets) != 1 or table.targets[0][0].numel() != 1


def copies(setup: Setup, table: Table | None, least: int, columns: int, exact: float) -> Iterator[Finding]:
    """The features that are the target in another form."""
    if table is None or unfit(table, least):
        return
    target = table.targets[0].reshape(len(table)).float()
    for place, part in enumerate(table.inputs):
        if not part.is_floating_point() or part.dim() not in (2, 3) or part[0].numel() < columns:
            continue
        flat = part.reshape(len(part), -1).float()
        found = same_classes(flat, table.labels) if table.labels is not None else same_values(flat, target, exact)
        for column in found[:3]:
            yield finding(setup, part, place, column)


def apart(setup: Setup, table: Table | None, least: int, columns: int, gap: float) -> Iterator[Finding]:
    """The one feature that tells all classes apart by far more than their own spread, and than any other feature."""
    if table is None or unfit(table, least) or table.labels is None or len(table.inputs) != 1:
        return
    part = table.inputs[0]
    if not part.is_floating_point() or part.dim() != 2 or part.shape[1] < columns:
        return
    gaps = gaps_between(part.float(), table.labels)
    best, *rest = gaps.sort(descending=True).values.tolist()
    if best > gap and rest[0] < gap / 3:
        column = int(gaps.argmax())
        said = finding(setup, part, 0, column)
        yield replace(
            said,
            message=f"{name_of(setup, part, column)} alone tells all classes apart: {best:.0f} of its own standard "
            f"deviations lie between them, and at most {rest[0]:.1f} in any other feature, in {len(part):,} samples.",
            cause="The feature is made of the target, or known only after it; or the task is that easy.",
            evidence={**said.evidence, "gap": best, "next": rest[0]},
            severity="warning",
        )


def gaps_between(flat: Tensor, labels: Tensor) -> Tensor:
    """For each column, the least distance between the means of two classes over the spread inside of classes."""
    groups = [flat[labels == one] for one in sorted(set(labels.tolist()))]
    if len(groups) < 2 or min(len(one) for one in groups) < LEAST_OF_CLASS or not bool(flat.isfinite().all()):
        return torch.zeros(flat.shape[1])
    means = torch.stack([one.mean(0) for one in groups]).sort(0).values
    spread = torch.stack([one.var(0) for one in groups]).mean(0).sqrt()
    found: Tensor = means.diff(dim=0).amin(0) / spread.clamp_min(1e-12)
    return torch.where(spread > 0, found, torch.zeros_like(found))


def decisive(found: Importance, least: int, columns: int, alone: float, skill: float) -> Iterator[Finding]:
    """The one feature that the model goes by, where it alone tells the target."""
    lost = found.drop_of_skill
    if len(found) < least or len(found.features) < columns or not bool((lost == lost).any()):
        return
    first = int(found.order[0])
    rest = [float(one) for j, one in enumerate(lost) if j != first and one == one]
    if not lost[first] >= skill or not found.told[first] or max(rest, default=0.0) >= skill / 3:
        return
    told = found.skill_alone(first)
    if told >= alone:
        yield decides(found, first, told)


def decides(found: Importance, feature: int, told: float) -> Finding:
    """What one feature does alone."""
    name = found.names[feature]
    return Finding(
        message=f"{name} alone decides: permuted, it costs {found.drop_of_skill[feature]:.0%} of what the model is "
        f"better by than a constant answer, and a small tree on it alone gets {told:.0%} of what a constant gets wrong "
        f"right ({len(found)} samples).",
        cause=f"{name} may be made of the target, or be known only after it; or the task is that easy.",
        fix=f"# Is {name!r} known when the model is asked? If not, drop it where the inputs are made, and train again.",
        evidence={
            "feature": name,
            "skill lost without it": round(float(found.drop_of_skill[feature]), 4),
            "skill alone": round(told, 4),
            "samples": len(found),
        },
        severity="warning",
    )


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
    name = name_of(setup, part, column)
    return Finding(
        message=f"The target of every training sample stands in its inputs: {name} of input {place} is the target in "
        f"other units or under other numbers, in all {len(part):,} samples.",
        cause="The inputs were made from a table that holds the target too, or a window reaches to the predicted step.",
        fix="x = np.delete(x, column, axis=1)   # or end the window one step earlier",
        evidence={"input": place, "column": column, "samples": len(part)},
        explains=("T611", "D105", "L208"),
    )


def name_of(setup: Setup, part: Tensor, column: int) -> str:
    """What a column is called."""
    names = setup.feature_names or []
    if part.dim() == 2:
        return names[column] if len(names) == part.shape[1] else f"column {column}"
    return f"step {column // part.shape[-1]} of {part.shape[1]}, column {column % part.shape[-1]}"


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
