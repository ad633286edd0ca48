"""Tensors of every layout, and their place in autograd graphs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nbdebug.preserve import Preserve
from tests.preserve.fingerprint import fingerprint


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_tensors_of_every_layout_come_back() -> None:
    holder, plain = nn.Module(), torch.eye(3)
    holder.tensors = [
        plain.to_sparse(),
        plain.to_sparse_csr(),
        torch.ones(1, 1).expand(3, 4),
        plain.t()[:2],
        torch.ones(0),
    ]
    holder.meta = torch.ones(2, device="meta")
    with torch.inference_mode():
        holder.inference = torch.ones(3)
    before = [one.to_dense().clone() for one in holder.tensors]
    with Preserve(holder):
        for one in (*holder.tensors[:2], holder.tensors[2][:1, :1], *holder.tensors[3:]):
            one.mul_(3)
        with torch.inference_mode():
            holder.inference.zero_()
    assert all(torch.equal(one.to_dense(), value) for one, value in zip(holder.tensors, before, strict=True))
    assert torch.equal(holder.inference, torch.ones(3))


def test_a_buffer_drawn_into_a_graph_is_free_again() -> None:
    model = nn.Linear(2, 2)
    model.register_buffer("mean", torch.zeros(2))
    before = fingerprint(model)
    with Preserve(model):
        model.mean.mul_(0.9).add_(model(torch.ones(2)))
        assert model.mean.requires_grad
    before.check()


def test_a_link_to_a_graph_that_was_cut_is_told() -> None:
    model = nn.Linear(2, 2)
    model.state = model(torch.ones(1, 2))
    values = model.state.detach().clone()
    with pytest.warns(RuntimeWarning, match="detached from its original graph"), Preserve(model):
        model.state.detach_().zero_()
    assert torch.equal(model.state, values)


def test_a_loss_computed_before_the_block_can_be_differentiated_after_it() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
    loss = model(torch.ones(1, 2)).sum()
    version = model[0].weight._version
    with Preserve(model):
        torch.nn.init.ones_(model[2].weight)
    assert model[0].weight._version == version
    loss.backward()
