"""Tests of M304 on row numbers of each sample that a model uses for the joined rows of all samples."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

ROWS, SAMPLES, EDGES = 6, 64, 9


class Joined(nn.Module):
    """Reads the rows of all samples as one table by row numbers of each sample, with or without the rows before."""

    def __init__(self, kind: str, shifts: bool) -> None:
        super().__init__()
        self.kind, self.shifts = kind, shifts
        self.body, self.head = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, nodes: Tensor, links: Tensor) -> Tensor:
        states = self.body(nodes.flatten(0, 1))
        before = torch.arange(len(nodes)).view(-1, 1, 1) * ROWS if self.shifts else 0
        read: Tensor = getattr(self, f"_{self.kind}")(states, links, before)
        scores: Tensor = self.head(read.relu().view(len(nodes), -1, 8).mean(1))
        return scores

    def _messages(self, states: Tensor, links: Tensor, before: Tensor | int) -> Tensor:
        source, sink = (links + before).permute(1, 0, 2).reshape(2, -1)  # joined
        return torch.zeros_like(states).index_add(0, sink, states[source])

    def _lookup(self, states: Tensor, links: Tensor, before: Tensor | int) -> Tensor:
        chosen = links + before
        return states[chosen[:, 0]]  # read

    def _selected(self, states: Tensor, links: Tensor, before: Tensor | int) -> Tensor:
        chosen = (links + before)[:, 0].reshape(-1)  # flat
        return states.index_select(0, chosen)

    def _constant(self, states: Tensor, links: Tensor, before: Tensor | int) -> Tensor:
        offset = torch.zeros(len(links), 1, 1, dtype=torch.long)  # offset
        if self.shifts:
            offset = offset + before
        return states[(links + offset)[:, 1].flatten()]

    def _gathered(self, states: Tensor, links: Tensor, before: Tensor | int) -> Tensor:
        chosen = (links + before)[:, 1].flatten().unsqueeze(1).expand(-1, 8)  # gathered
        return states.gather(0, chosen)


class Separate(nn.Module):
    """Reads the rows of each sample by its own numbers, or numbers of kinds by a table."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.body, self.head = kind, nn.Linear(3, 8), nn.Linear(8, 2)
        self.table = nn.Embedding(ROWS, 8)

    def forward(self, nodes: Tensor, links: Tensor) -> Tensor:
        states = self.body(nodes)
        if self.kind == "gather":
            read = states.gather(1, links[:, 0].unsqueeze(2).expand(-1, -1, 8))
        elif self.kind == "attention":  # between samples, on purpose
            pooled = states.mean(1) + self.table(links[:, 0]).mean(1)
            read = (torch.softmax(pooled @ pooled.T, -1) @ pooled).unsqueeze(1)
        else:
            read = self.table(links[:, 0]) + states.mean(1, keepdim=True)
        scores: Tensor = self.head(read.relu().mean(1))
        return scores


def setup_of(model: nn.Module) -> Setup:
    generator = torch.Generator().manual_seed(0)
    nodes = torch.randn(SAMPLES, ROWS, 3, generator=generator)
    links = torch.randint(0, ROWS, (SAMPLES, 2, EDGES), generator=generator)
    loader = DataLoader(TensorDataset(nodes, links, torch.arange(SAMPLES) % 2), batch_size=16, shuffle=True)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss())


KINDS = {
    "messages": "# joined",
    "lookup": "# read",
    "selected": "# flat",
    "constant": "# offset",
    "gathered": "# gathered",
}


@pytest.mark.parametrize("kind", KINDS)
def test_row_numbers_of_each_sample_are_placed_where_they_are_joined(kind: str) -> None:
    (finding,) = rule_faults(setup_of(Joined(kind, shifts=False)), "M304")
    assert "input 'links'" in finding.message
    assert str(finding.where.source).endswith(KINDS[kind])
    assert finding.evidence["rows"] == ROWS


@pytest.mark.parametrize("kind", KINDS)
def test_row_numbers_with_an_offset_are_not_reported(kind: str) -> None:
    assert rule_faults(setup_of(Joined(kind, shifts=True)), "M304") == []


@pytest.mark.parametrize("kind", ["gather", "attention", "table"])
def test_numbers_that_need_no_offset_are_not_reported(kind: str) -> None:
    assert rule_faults(setup_of(Separate(kind)), "M304") == []
