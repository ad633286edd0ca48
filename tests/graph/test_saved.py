"""What is read from an operation of the graph, and what a backward pass tells of it."""

from __future__ import annotations

import torch
from torch import nn

from nbdebug.graph import Node
from nbdebug.graph.tracing import tracing


def test_an_axis_counted_from_the_end_is_negative() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=-1))
    with tracing(model) as trace:
        loss = model(torch.ones(2, 4)).sum()
    (node,) = trace.graph(loss).named("Softmax")
    assert node.saved("dim") == -1
    assert node.saved("nothing of the kind") is None


def test_each_operation_is_heard_in_the_backward_pass_and_not_after() -> None:
    model, seen = nn.Sequential(nn.Linear(4, 3), nn.ReLU()), list[str]()

    def hook(node: Node):
        return lambda given, taken: seen.append(node.name)

    with tracing(model) as trace:
        loss = model(torch.ones(2, 4)).sum()
    with trace.graph(loss).heard(hook):
        torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    assert seen[:2] == ["Sum", "Relu"]
    count = len(seen)
    loss.backward()
    assert len(seen) == count
