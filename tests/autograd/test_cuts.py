"""Which call cut a gradient off, and where it stands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nbdebug.autograd import DetachPoint, trace_forward

X = torch.randn(6, 4)


class Cutting(nn.Module):
    """Passes its hidden layer through a function that cuts it off."""

    def __init__(self, cut: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.head, self.cut = nn.Linear(4, 8), nn.Linear(8, 3), cut

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cut(self.body(x)))


def cuts(cut: Callable[[Tensor], Tensor]) -> list[DetachPoint]:
    model = Cutting(cut)
    with trace_forward(model) as trace:
        model(X)
    own = {id(p) for p in model.body.parameters()}
    return [one for one in trace.detach_points if own & {id(leaf) for leaf in one.leaves()}]


def under_no_grad(hidden: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.relu(hidden)


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's own, on turning tensors into numbers
@pytest.mark.parametrize(
    ("cut", "call"),
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
def test_every_way_to_cut_is_seen_with_its_line(cut: Callable[[Tensor], Tensor], call: str) -> None:
    found = cuts(cut)
    assert call in [one.call for one in found]
    assert all(one.where.file == __file__ for one in found)


def test_reading_shapes_and_flowing_on_is_no_cut() -> None:
    def fine(hidden: Tensor) -> Tensor:
        return hidden.view(len(hidden), hidden.shape[1]).clone() * hidden.size(0) + hidden.dim()

    assert cuts(fine) == []


def test_a_leaf_made_on_the_way_is_kept_with_its_line() -> None:
    model = Cutting(lambda hidden: torch.tensor(hidden.tolist(), requires_grad=True))
    with trace_forward(model) as trace:
        loss = model(X).sum()
    fresh = [
        trace.created_leaves[id(leaf)] for leaf in trace.get_graph(loss).leaves if id(leaf) in trace.created_leaves
    ]
    assert len(fresh) == 1
    assert "requires_grad=True" in fresh[0][1].text
