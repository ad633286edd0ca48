"""Tests of L214 and L215 on targets that are known at some positions only, as a mask beside them says."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import apply_edits
from tests.rules.rule_findings import rule_faults

X, _ = points()
KNOWN = torch.rand(64, 3, generator=torch.Generator().manual_seed(1)) < 0.6
VALUES = (X[:, :3] * 2 + X[:, 3:]) * KNOWN
Target = dict[str, Tensor]


class Assays(Dataset[Any]):
    """Inputs, three values of which some are known, and a mask of these."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> tuple[Tensor, Target]:
        return X[index], {"values": VALUES[index], "known": KNOWN[index]}


def all_positions(output: Tensor, target: Target) -> Tensor:
    return (output - target["values"]).square().mean()


def known_only(output: Tensor, target: Target) -> Tensor:
    return ((output - target["values"]).square() * target["known"]).sum() / target["known"].sum()


def selected(output: Tensor, target: Target) -> Tensor:
    known = target["known"]
    return (output[known] - target["values"][known]).abs().mean()


def inverted(output: Tensor, target: Target) -> Tensor:
    unknown = ~target["known"]  # here
    return (output[unknown] - target["values"][unknown]).square().mean()


def multiplied(output: Tensor, target: Target) -> Tensor:
    loss = (output - target["values"]).abs()
    weight = 1 - target["known"].float()  # here
    return (loss * weight).sum() / weight.sum()


def two_parts(output: Tensor, target: Target) -> Tensor:
    """Learn the zeros too, with half the weight."""
    weight = torch.where(target["known"], 1.0, 0.5)
    return ((output - target["values"]).square() * weight).mean()


@pytest.mark.parametrize(
    ("loss_fn", "codes"),
    [
        (all_positions, ["L215"]),
        (inverted, ["L214"]),
        (multiplied, ["L214"]),
        (known_only, []),
        (selected, []),
        (two_parts, []),
    ],
    ids=["all", "inverted", "multiplied", "weights", "selection", "lower weight"],
)
def test_losses_of_partly_known_targets_are_reported_if_they_learn_what_fills_the_gaps(
    loss_fn: Callable[..., Tensor], codes: list[str]
) -> None:
    setup = Setup(network(3), DataLoader(Assays(), 32), loss_fn=loss_fn)
    findings = [finding for code in ("L214", "L215") for finding in rule_faults(setup, code)]
    assert [finding.code for finding in findings] == codes
    if findings:
        assert findings[0].where.source is not None
        assert findings[0].where.source.rstrip().endswith(("# here", "mean()"))
        assert "known" in findings[0].message


class Landmarks(Assays):
    """The same with the values and the mask as two targets."""

    def __getitem__(self, index: int) -> Any:
        return X[index], VALUES[index], KNOWN[index].float()


def every_landmark(found: Tensor, marks: Tensor, seen: Tensor) -> Tensor:
    return F.mse_loss(found, marks)


def test_fix_selects_the_known_targets_by_the_names_of_the_loss() -> None:
    setup = Setup(network(3), DataLoader(Landmarks(), 32), loss_fn=every_landmark)
    (finding,) = rule_faults(setup, "L215")
    assert "of the values of marks in the first batch lie where seen is zero" in finding.message
    source = apply_edits(Path(__file__).read_text(encoding="utf-8"), finding.edits)
    changed = next(node for node in ast.parse(source).body if getattr(node, "name", "") == "every_landmark")
    names: dict[str, Any] = {"Tensor": Tensor, "F": F}
    exec(ast.unparse(changed), names)
    output = X[:, :3]
    assert torch.isclose(
        names["every_landmark"](output, VALUES, KNOWN.float()), F.mse_loss(output[KNOWN], VALUES[KNOWN])
    )
