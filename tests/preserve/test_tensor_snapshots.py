"""Tests of Preserve on tensors of all layouts and in autograd graphs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nbdebug.preserve import Preserve
from tests.preserve.fingerprint import fingerprint


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_block_restores_tensors_of_every_layout() -> None:
    holder, matrix = nn.Module(), torch.eye(3)
    holder.tensors = [
        matrix.to_sparse(),
        matrix.to_sparse_csr(),
        torch.ones(1, 1).expand(3, 4),
        matrix.t()[:2],
        torch.ones(0),
    ]
    holder.meta = torch.ones(2, device="meta")
    with torch.inference_mode():
        holder.inference = torch.ones(3)
    before = [tensor.to_dense().clone() for tensor in holder.tensors]
    with Preserve(holder):
        for tensor in (*holder.tensors[:2], holder.tensors[2][:1, :1], *holder.tensors[3:]):
            tensor.mul_(3)
        with torch.inference_mode():
            holder.inference.zero_()
    assert all(torch.equal(tensor.to_dense(), value) for tensor, value in zip(holder.tensors, before, strict=True))
    assert torch.equal(holder.inference, torch.ones(3))


def test_block_restores_buffer_that_joined_a_graph() -> None:
    model = nn.Linear(2, 2)
    model.register_buffer("mean", torch.zeros(2))
    before = fingerprint(model)
    with Preserve(model):
        model.mean.mul_(0.9).add_(model(torch.ones(2)))
        assert model.mean.requires_grad
    before.check()


def test_block_with_detached_graph_tensor_warns() -> None:
    model = nn.Linear(2, 2)
    model.state = model(torch.ones(1, 2))
    values = model.state.detach().clone()
    with pytest.warns(RuntimeWarning, match="detached from its original graph"), Preserve(model):
        model.state.detach_().zero_()
    assert torch.equal(model.state, values)


def test_loss_computed_before_block_is_differentiable_after_it() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
    loss = model(torch.ones(1, 2)).sum()
    version = model[0].weight._version
    with Preserve(model):
        torch.nn.init.ones_(model[2].weight)
    assert model[0].weight._version == version
    loss.backward()
