"""Graphs, recommendations, attention between samples, and tables."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from nbdebug.debugger import Debugger
from tests.rules.real.catalog import healthy
from tests.rules.real.datasets import digits, loader, split


def citations(count: int = 90) -> tuple[Tensor, Tensor, Tensor]:
    """Features, a normalized adjacency and the class of each node; neighbors are mostly of one class."""
    g = torch.Generator().manual_seed(0)
    label = torch.arange(count) % 3
    chance = torch.where(label[:, None] == label[None], 0.2, 0.02)
    edges = torch.bernoulli(chance, generator=g).triu(1)
    edges = edges + edges.t() + torch.eye(count)
    scale = edges.sum(1).rsqrt()
    features = F.one_hot(label, 3).float() + torch.randn(count, 3, generator=g)
    return torch.cat([features, torch.randn(count, 5, generator=g)], 1), scale[:, None] * edges * scale, label


class GCN(nn.Module):
    def __init__(self, inputs: int = 8, width: int = 16, classes: int = 3) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(inputs, width), nn.Linear(width, classes)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        h = F.dropout(F.relu(adjacency @ self.first(x)), 0.5, self.training)
        return adjacency @ self.second(h)


@healthy
def graph_of_all_nodes() -> Debugger:
    """The whole graph as one batch, with the loss on the labeled nodes."""
    x, adjacency, label = citations()
    model = GCN()
    training_labels = torch.where(torch.arange(len(label)) < 60, label, -100)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    return Debugger(model, [(x, adjacency, training_labels)], loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)


@healthy
def graph_with_a_training_mask() -> Debugger:
    x, adjacency, label = citations()
    model, is_training = GCN(), torch.arange(len(label)) < 60
    return Debugger(
        model,
        [(x, adjacency, label)],
        loss_fn=lambda logits, label: F.cross_entropy(logits[is_training], label[is_training]),
        optimizer=torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4),
    )


class GraphClassifier(nn.Module):
    """Sums messages along edges into nodes, and nodes into graphs."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embed, self.message, self.update = nn.Linear(4, width), nn.Linear(width, width), nn.GRUCell(width, width)
        self.head = nn.Linear(width, 2)

    def forward(self, x: Tensor, edges: Tensor, graph: Tensor) -> Tensor:
        h = torch.relu(self.embed(x))
        for _ in range(2):
            messages = torch.relu(self.message(h[edges[0]]))
            h = self.update(torch.zeros_like(h).index_add(0, edges[1], messages), h)
        pooled = torch.zeros(int(graph.max()) + 1, h.shape[1]).index_add(0, graph, h)
        return self.head(pooled)


def molecules(count: int = 96) -> list[Any]:
    """Rings and chains of 5 to 8 nodes."""
    g, graphs = torch.Generator().manual_seed(0), []
    for i in range(count):
        n = int(torch.randint(5, 9, (), generator=g))
        sources = torch.arange(n - i % 2)
        targets = (sources + 1) % n
        edges = torch.cat([torch.stack([sources, targets]), torch.stack([targets, sources])], 1)
        graphs.append((torch.rand(n, 4, generator=g), edges, i % 2))
    return graphs


def collate_graphs(samples: list[Any]) -> Any:
    """Merge several graphs into one."""
    sizes = torch.tensor([len(x) for x, _, _ in samples])
    start = F.pad(sizes.cumsum(0), (1, 0))
    edges = torch.cat([e + int(s) for (_, e, _), s in zip(samples, start, strict=False)], 1)
    graph = torch.arange(len(samples)).repeat_interleave(sizes)
    return torch.cat([x for x, _, _ in samples]), edges, graph, torch.tensor([y for _, _, y in samples])


@healthy
def graphs_in_a_batch() -> Debugger:
    model = GraphClassifier()
    train: Any = DataLoader(molecules(), batch_size=16, shuffle=True, collate_fn=collate_graphs)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return Debugger(model, train, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)


class Recommender(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(200, 8, sparse=True), nn.Embedding(300, 8, sparse=True)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        return (self.user(user) * self.item(item)).sum(1)


@healthy
def recommendations_with_sparse_gradients() -> Debugger:
    g = torch.Generator().manual_seed(0)
    user, item = torch.randint(200, (800,), generator=g), torch.randint(300, (800,), generator=g)
    taste = (torch.randn(200, 3, generator=g)[user] * torch.randn(300, 3, generator=g)[item]).sum(1)
    model = Recommender()
    train, val = split(user, item, (taste > 0).float())
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=1e-2)
    return Debugger(model, train, val, loss_fn=nn.BCEWithLogitsLoss(), optimizer=optimizer)


class BatchAttention(nn.Module):
    """Attention over the samples of a batch by design, as in non-parametric Transformers."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU())
        self.attend = nn.MultiheadAttention(width, 4)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x).unsqueeze(1)
        return self.head(self.norm(h + self.attend(h, h, h)[0]).squeeze(1))


@healthy
def attention_between_samples() -> Debugger:
    model = BatchAttention()
    train, val = split(*digits())
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(model.parameters()))


class ClickModel(nn.Module):
    """Embeddings of categories and some numbers, as for tables of clicks."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(n, 4) for n in (50, 12, 7))
        self.net = nn.Sequential(nn.Linear(15, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))

    def forward(self, categories: Tensor, numbers: Tensor) -> Tensor:
        parts = [embed(categories[:, i]) for i, embed in enumerate(self.embeddings)]
        return self.net(torch.cat([*parts, numbers], 1)).squeeze(1)


@healthy
def clicks_in_a_table() -> Debugger:
    g = torch.Generator().manual_seed(0)
    categories = torch.stack([torch.randint(n, (600,), generator=g) for n in (50, 12, 7)], 1)
    numbers = torch.randn(600, 3, generator=g)
    odds = numbers[:, 0] + (categories[:, 1] > 5) - 1.5
    clicks = torch.bernoulli(torch.sigmoid(2 * odds), generator=g)
    model = ClickModel()
    train = loader(categories, numbers, clicks, batch_size=64)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    return Debugger(model, train, loss_fn=nn.BCEWithLogitsLoss(), optimizer=optimizer)
