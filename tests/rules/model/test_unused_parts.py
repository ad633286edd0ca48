"""M301 on layers that are called for nothing, and on layers that are never called."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.rules.rule_findings import checkup_findings, setup_builder


class Block(nn.Module):
    """Two layers and a shortcut, one of which may be left out."""

    def __init__(self, left_out: str) -> None:
        super().__init__()
        self.left_out = left_out
        self.body = nn.Linear(4, 4)
        self.shortcut = nn.Linear(4, 4)
        self.scores = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = self.shortcut(x)
        hidden = x.relu() if self.left_out == "body" else self.body(x).relu()
        best = self.scores(x).topk(2, dim=0).indices
        hidden = hidden + 0.1 * x[best.flatten()].mean(0)
        return hidden if self.left_out == "shortcut" else hidden + shortcut


CASES = [
    ("shortcut", "shortcut", "shortcut = self.shortcut(x)"),
    ("body", "body", "self.body = nn.Linear(4, 4)"),
    ("", "scores", "self.scores(x).topk"),
]


@pytest.mark.parametrize(("left_out", "module", "line"), CASES)
def test_what_is_left_out_is_told_at_its_line(left_out: str, module: str, line: str) -> None:
    model = nn.Sequential(Block(left_out), nn.Linear(4, 3))
    if left_out:
        model[0].scores.requires_grad_(False)
    (found,) = checkup_findings(setup_builder(model)(), "M301")
    assert found.where.module == f"0.{module}"
    assert line in (found.where.source or "")


def test_modules_in_a_list_are_told_where_the_list_is_made() -> None:
    class Looped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers[:2]:
                x = torch.relu(layer(x))
            return self.head(x)

    (found,) = checkup_findings(setup_builder(Looped())(), "M301")
    assert found.where.module == "layers.2"
    assert "self.layers = nn.ModuleList" in (found.where.source or "")


def test_all_that_one_block_without_gradients_cuts_off_is_told_at_once() -> None:
    class Frozen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                x = self.body(x)
            return self.head(x)

    (found,) = checkup_findings(setup_builder(Frozen())(), "M301")
    assert "with torch.no_grad()" in (found.where.source or "")
    assert len(found.evidence["parameters"]) == 4
