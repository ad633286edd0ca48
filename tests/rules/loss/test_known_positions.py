"""Tests of L214 and L215 on targets that are known at some positions only, as a mask beside them says."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

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


SERIES = torch.randn(64, 12, generator=torch.Generator().manual_seed(3))
HIDDEN = torch.rand(64, 12, generator=torch.Generator().manual_seed(4)) < 0.3


class Filler(nn.Module):
    """Fills in the hidden values of a series, and returns the mask too."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 12))

    def forward(self, shown: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return self.layers(torch.cat([shown, mask.float()], 1)), mask


def every_value(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    filled, _ = output
    return (filled - target).square().mean()


def hidden_values(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    filled, mask = output
    return (filled - target)[mask.bool()].square().mean()


def hidden_values_most(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    filled, mask = output
    return ((filled - target).square() * torch.where(mask.bool(), 1.0, 0.1)).mean()


@pytest.mark.parametrize(
    ("loss_fn", "filler", "noise", "is_reported"),
    [
        (every_value, 0.0, 0.0, True),
        (every_value, -9.0, 0.0, True),
        (hidden_values, 0.0, 0.0, False),
        (hidden_values_most, 0.0, 0.0, False),
        (every_value, 0.0, 0.1, False),  # removes noise too, so no value is copied
    ],
)
@pytest.mark.parametrize("marks_hidden", [True, False])
def test_losses_of_hidden_values_are_reported_if_they_learn_copies_of_the_input(
    loss_fn: Callable[..., Tensor], filler: float, noise: float, is_reported: bool, marks_hidden: bool
) -> None:
    noisy = SERIES + noise * torch.randn(SERIES.shape, generator=torch.Generator().manual_seed(5))
    shown, mask = noisy.masked_fill(HIDDEN, filler), HIDDEN if marks_hidden else ~HIDDEN
    setup = Setup(Filler(), DataLoader(TensorDataset(shown, mask, SERIES), 32), loss_fn=loss_fn)
    findings = rule_faults(setup, "L215")
    assert len(findings) == is_reported
    if is_reported:
        assert f"output[1], which is {int(marks_hidden)} only where the input is hidden" in findings[0].message
        assert findings[0].message.startswith(f"{float((~HIDDEN[:32]).float().mean()):.0%} of the values of target")
        assert findings[0].where.source is not None
        assert "(filled - target).square()" in findings[0].where.source


class Denoiser(Filler):
    """Returns no mask, so that the loss cannot use it."""

    def forward(self, shown: Tensor, mask: Tensor) -> Any:
        return super().forward(shown, mask)[0]


def test_loss_without_a_mask_may_learn_copies_of_the_input() -> None:
    dataset = TensorDataset(SERIES.masked_fill(HIDDEN, 0.0), HIDDEN, SERIES)
    setup = Setup(Denoiser(), DataLoader(dataset, 32), loss_fn=F.mse_loss)
    assert rule_faults(setup, "L215") == []
