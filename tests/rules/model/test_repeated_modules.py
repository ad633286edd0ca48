"""Tests of M314 for one module that a container lists several times."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup
from tests.rules.rule_findings import rule_findings


class SeveralHeads(nn.Module):
    """One output for each head, from a list, a dictionary or attributes."""

    def __init__(self, repeated: bool, container: str = "list", width: int = 1) -> None:
        super().__init__()
        first = nn.Linear(16, width)
        heads = [first] * 3 if repeated else [nn.Linear(16, width) for _ in range(3)]
        self.trunk = nn.Sequential(nn.Linear(6, 16), nn.Tanh())
        self.heads: nn.Module = nn.ModuleDict({f"h{n}": head for n, head in enumerate(heads)})
        if container == "list":
            self.heads = nn.ModuleList(heads)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.trunk(x)
        return torch.cat([self.heads._modules[name](hidden) for name in self.heads._modules], dim=1)  # type: ignore[misc]


class RepeatedBlock(nn.Module):
    """One block four times in sequence, as in a network with shared layers."""

    def __init__(self) -> None:
        super().__init__()
        block = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
        self.blocks, self.head = nn.Sequential(*[block] * 4), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(x))


class SharedScorer(nn.Module):
    """One scorer for three parts of the input, which is meant to be shared."""

    def __init__(self) -> None:
        super().__init__()
        self.scorers = nn.ModuleList([nn.Linear(2, 1)] * 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([scorer(part) for scorer, part in zip(self.scorers, x.split(2, 1), strict=True)], dim=1)


class EqualColumns(nn.Module):
    """Equal outputs by intent, from modules of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).expand(-1, 3)


def findings(make: Callable[[], nn.Module]) -> list[Finding]:
    torch.manual_seed(1)
    model, x = make(), torch.randn(32, 6)
    y = torch.randn(32, model(x).shape[1])
    return rule_findings(minimal_setup(model, x, y, nn.MSELoss()), "M314")


@pytest.mark.parametrize(("container", "width"), [("list", 1), ("dictionary", 1), ("list", 2)])
def test_capacity_too_small_of_a_head_listed_three_times_names_it_and_the_equal_outputs(
    container: str, width: int
) -> None:
    (finding,) = findings(lambda: SeveralHeads(True, container, width))
    assert finding.where.module == "heads"
    assert "are one module" in finding.message
    assert "0, 1, 2" in finding.message if width == 1 else "0, 2, 4" in finding.message
    assert finding.where.line


@pytest.mark.parametrize("make", [lambda: SeveralHeads(False), RepeatedBlock, SharedScorer, EqualColumns])
def test_capacity_too_small_of_shared_modules_without_equal_outputs_is_quiet(make: Callable[[], nn.Module]) -> None:
    assert findings(make) == []
