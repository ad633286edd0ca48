"""Tests of detach points: the calls that cut a tensor from the graph, with their lines."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nbdebug.autograd import DetachPoint, trace_forward

X = torch.randn(6, 4)


class DetachingModel(nn.Module):
    """Passes its hidden layer through a function that detaches it."""

    def __init__(self, detach: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.head, self.detach = nn.Linear(4, 8), nn.Linear(8, 3), detach

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.detach(self.body(x)))


def find_detach_points(detach: Callable[[Tensor], Tensor]) -> list[DetachPoint]:
    model = DetachingModel(detach)
    with trace_forward(model) as trace:
        model(X)
    body_ids = {id(p) for p in model.body.parameters()}
    return [point for point in trace.detach_points if body_ids & {id(leaf) for leaf in point.leaves()}]


def under_no_grad(hidden: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.relu(hidden)


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's own, on turning tensors into numbers
@pytest.mark.parametrize(
    ("detach", "call"),
    [
        (lambda h: h.detach(), "detach"),
        (lambda h: h.data, "data"),
        (lambda h: torch.from_numpy(h.detach().numpy()), "detach"),
        (lambda h: torch.tensor(h), "torch.tensor"),
        (lambda h: torch.tensor(h.tolist()), "tolist"),
        (lambda h: torch.as_tensor(np.stack([np.full(8, float(row[0])) for row in h]), dtype=torch.float32), "float"),
        (lambda h: (h > 0).float(), "gt"),
        (lambda h: h.round().long().float(), "long"),
        (lambda h: torch.zeros(6, 8) + h.sum().item(), "item"),
        (under_no_grad, "torch.relu under no_grad"),
    ],
    ids=["detach", "data", "numpy", "tensor", "tolist", "float", "compare", "long", "item", "no_grad"],
)
def test_detach_points_name_every_kind_of_call_and_its_file(detach: Callable[[Tensor], Tensor], call: str) -> None:
    points = find_detach_points(detach)
    assert call in [point.call for point in points]
    assert all(point.where.file == __file__ for point in points)


def test_detach_points_of_differentiable_code_are_empty() -> None:
    def differentiable(hidden: Tensor) -> Tensor:
        return hidden.view(len(hidden), hidden.shape[1]).clone() * hidden.size(0) + hidden.dim()

    assert find_detach_points(differentiable) == []


def test_created_leaves_include_new_tensor_with_its_line() -> None:
    model = DetachingModel(lambda hidden: torch.tensor(hidden.tolist(), requires_grad=True))
    with trace_forward(model) as trace:
        loss = model(X).sum()
    created_leaves = [
        trace.created_leaves[id(leaf)] for leaf in trace.get_graph(loss).leaves if id(leaf) in trace.created_leaves
    ]
    assert len(created_leaves) == 1
    assert "requires_grad=True" in created_leaves[0][1].text
