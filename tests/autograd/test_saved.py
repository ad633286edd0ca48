"""What is read from an operation of the graph, and what a backward pass tells of it."""

from __future__ import annotations

import torch
from torch import nn

from nbdebug.autograd import Node
from nbdebug.autograd.tracing import trace_forward


def test_an_axis_counted_from_the_end_is_negative() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=-1))
    with trace_forward(model) as trace:
        loss = model(torch.ones(2, 4)).sum()
    (node,) = trace.get_graph(loss).get_nodes_by_name("Softmax")
    assert node.get_saved("dim") == -1
    assert node.get_saved("nothing of the kind") is None


def test_each_operation_is_heard_in_the_backward_pass_and_not_after() -> None:
    model, seen = nn.Sequential(nn.Linear(4, 3), nn.ReLU()), list[str]()

    def hook(node: Node):
        return lambda given, taken: seen.append(node.name)

    with trace_forward(model) as trace:
        loss = model(torch.ones(2, 4)).sum()
    with trace.get_graph(loss).backward_hooks(hook):
        torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    assert seen[:2] == ["Sum", "Relu"]
    count = len(seen)
    loss.backward()
    assert len(seen) == count
