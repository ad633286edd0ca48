"""Tests of M304 on collate functions that concatenate samples of different sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

GENERATOR = torch.Generator().manual_seed(0)


def random_graph(number: int) -> dict[str, Any]:
    size = 5 + number % 4
    edges = torch.randint(0, size, (2, 3 * size), generator=GENERATOR)
    return {"nodes": torch.randn(size, 3, generator=GENERATOR), "edges": edges, "label": number % 2}


GRAPHS = [random_graph(number) for number in range(64)]
BAGS = [(torch.randint(1, 30, (3 + i % 5,), generator=GENERATOR), i % 2) for i in range(64)]


class GraphNet(nn.Module):
    """One round of messages along edges given as (2, E) or (E, 2), and the sum of the nodes of each graph."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.readout = nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, nodes: Tensor, edges: Tensor, owner: Tensor) -> Tensor:
        source, target = edges if len(edges) == 2 else edges.T
        received = nodes.new_zeros(len(nodes), 8).index_add(0, target, self.message(nodes[source]).relu())
        return self.readout(nodes.new_zeros(int(owner.max()) + 1, 8).index_add(0, owner, received))


class MeanNet(GraphNet):
    """The mean over the nodes of each graph, whose number is an input."""

    def forward(self, nodes: Tensor, edges: Tensor, owner: Tensor, count: Tensor) -> Tensor:  # type: ignore[override]
        source, target = edges
        received = nodes.new_zeros(len(nodes), 8).index_add(0, target, self.message(nodes[source]).relu())
        return self.readout(nodes.new_zeros(len(count), 8).index_add(0, owner, received) / count)


class AtomNet(GraphNet):
    """The same for nodes of kinds 0 and 1, for which larger numbers raise an error."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = nn.Embedding(2, 3)

    def forward(self, kinds: Tensor, edges: Tensor, owner: Tensor) -> Tensor:
        return super().forward(self.kinds(kinds), edges, owner)


class BagModel(nn.Module):
    """Sums of embedded tokens, concatenated and cut by offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(30, 8), nn.Linear(8, 2)

    def forward(self, tokens: Tensor, starts: Tensor) -> Tensor:
        return self.head(self.bag(tokens, starts))


def join_graphs(graphs: list[dict[str, Any]], *, offset: bool, columns: bool = False) -> tuple[Tensor, ...]:
    sizes = torch.tensor([len(graph["nodes"]) for graph in graphs])
    starts = (sizes.cumsum(0) - sizes) * offset
    edges = torch.cat([graph["edges"] + start for graph, start in zip(graphs, starts, strict=True)], 1)
    owner = torch.arange(len(graphs)).repeat_interleave(sizes)
    labels = torch.tensor([graph["label"] for graph in graphs])
    return torch.cat([graph["nodes"] for graph in graphs]), edges.T if columns else edges, owner, labels


def join_appended(graphs: list[dict[str, Any]]) -> tuple[Tensor, ...]:
    nodes, edges, owner, labels = [], [], [], []
    for number, graph in enumerate(graphs):
        nodes.append(graph["nodes"])
        edges.append(graph["edges"])  # here
        owner.append(torch.full((len(graph["nodes"]),), number))
        labels.append(graph["label"])
    return torch.cat(nodes), torch.cat(edges, 1), torch.cat(owner), torch.tensor(labels)


def unchanged_edges(graph: dict[str, Any]) -> Tensor:
    return graph["edges"]  # here


def join_by_helper(graphs: list[dict[str, Any]]) -> tuple[Tensor, ...]:
    joined = join_graphs(graphs, offset=False)
    edges = []
    for graph in graphs:
        edges.append(unchanged_edges(graph))
    return joined[0], torch.cat(edges, 1), *joined[2:]


def join_counted(graphs: list[dict[str, Any]]) -> tuple[Tensor, ...]:
    *inputs, labels = join_graphs(graphs, offset=True)
    return *inputs, torch.tensor([[float(len(graph["nodes"]))] for graph in graphs]), labels


def join_bags(bags: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor, Tensor]:
    sizes = torch.tensor([len(tokens) for tokens, _ in bags])
    return torch.cat([tokens for tokens, _ in bags]), sizes.cumsum(0) - sizes, torch.tensor([y for _, y in bags])


def joined_setup(model: nn.Module, data: list[Any], collate: Callable[[list[Any]], Any]) -> Setup:
    loader = DataLoader(data, batch_size=8, shuffle=True, collate_fn=collate)  # type: ignore[arg-type]
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss())


def graph_setup(**options: bool) -> Setup:
    return joined_setup(GraphNet(), GRAPHS, lambda graphs: join_graphs(graphs, **options))


@pytest.mark.parametrize("columns", [False, True])
def test_batch_mixing_of_edges_without_offset_names_the_input_and_the_line(columns: bool) -> None:
    (finding,) = rule_faults(graph_setup(offset=False, columns=columns), "M304")
    assert "input '1'" in finding.message
    assert 'graph["edges"] + start' in (finding.where.source or "")


@pytest.mark.parametrize("join", [join_appended, join_by_helper])
def test_batch_mixing_of_edges_without_offset_names_the_line_that_appends_or_returns_them(
    join: Callable[[list[dict[str, Any]]], Any],
) -> None:
    (finding,) = rule_faults(joined_setup(GraphNet(), GRAPHS, join), "M304")
    assert (finding.where.source or "").endswith("# here")


def test_batch_mixing_of_edges_beside_indices_of_an_embedding_names_the_edges() -> None:
    kinds = [{**graph, "nodes": (graph["nodes"][:, 0] > 0).long()} for graph in GRAPHS]
    (finding,) = rule_faults(joined_setup(AtomNet(), kinds, join_appended), "M304")
    assert "input '1'" in finding.message


@pytest.mark.parametrize(
    "build",
    [
        lambda: graph_setup(offset=True),
        lambda: graph_setup(offset=True, columns=True),
        lambda: joined_setup(BagModel(), BAGS, join_bags),
        lambda: joined_setup(MeanNet(), GRAPHS, join_counted),
    ],
    ids=["rows", "columns", "bags of tokens", "counts"],
)
def test_batch_mixing_of_correctly_concatenated_samples_is_quiet(build: Callable[[], Setup]) -> None:
    assert rule_faults(build(), "M304") == []
