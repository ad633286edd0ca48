"""Tests of graph nodes: saved values and backward hooks."""

from __future__ import annotations

import torch
from torch import nn

from nbdebug.autograd import Node
from nbdebug.autograd.tracing import trace_forward


def test_get_saved_of_axis_from_end_is_negative() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=-1))
    with trace_forward(model) as trace:
        loss = model(torch.ones(2, 4)).sum()
    (node,) = trace.get_graph(loss).get_nodes_by_name("Softmax")
    assert node.get_saved("dim") == -1
    assert node.get_saved("missing") is None


def test_only_copies_into_a_constant_have_the_name_of_copies() -> None:
    model, copied = nn.Linear(4, 3), torch.zeros(2, 5, 3)
    with trace_forward(model) as trace:
        output = model(torch.ones(2, 5, 4))
        copied[:, 0] = output[:, 0]
        copied[:, 1] = output[:, 1]
        loss = output.mul_(output.sigmoid()).relu_().sum() + copied.sum()
    names = [node.name for node in trace.get_graph(loss).nodes if node.name in ("InPlace", "CopySlices")]
    assert sorted(names) == ["CopySlices", "CopySlices", "InPlace", "InPlace"]


def test_backward_hooks_run_for_each_node_and_are_removed() -> None:
    model, node_names = nn.Sequential(nn.Linear(4, 3), nn.ReLU()), list[str]()

    def hook(node: Node):
        return lambda grad_inputs, grad_outputs: node_names.append(node.name)

    with trace_forward(model) as trace:
        loss = model(torch.ones(2, 4)).sum()
    with trace.get_graph(loss).backward_hooks(hook):
        torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    assert node_names[:2] == ["Sum", "Relu"]
    count = len(node_names)
    loss.backward()
    assert len(node_names) == count
