"""The graph as source code: operations, modules, the user's own lines."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from nbdebug.autograd import ForwardTrace, Graph, trace_forward

X = torch.randn(6, 4)


class Functional(nn.Module):
    """Layers and functions."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x)
        scores = self.head(hidden)
        return F.softmax(scores, dim=1)  # the line


class Twice(nn.Module):
    """Calls one layer two times."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.tanh(self.layer(x)))


class Checkpointed(nn.Module):
    """Recomputes its middle."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.middle, self.head, self.reentrant = nn.Linear(4, 4), nn.Linear(4, 2), reentrant

    def forward(self, x: Tensor) -> Tensor:
        x = checkpoint(self.middle, x.requires_grad_(), use_reentrant=self.reentrant)
        return self.head(x).softmax(1)


class Double(torch.autograd.Function):
    """A hand-written function."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 2 * gradient


def traced(model: nn.Module, x: Tensor = X) -> tuple[Graph, ForwardTrace]:
    with trace_forward(model) as trace:
        output = model(x)
        output = output[0] if isinstance(output, tuple) else output
        total = output.sum()
    return trace.get_graph(total), trace


def names(graph: Graph) -> set[str]:
    return {node.name for node in graph.nodes}


def test_an_operation_has_the_users_line_with_its_text_and_what_stands_around() -> None:
    (node,) = traced(Functional())[0].get_nodes_by_name("Softmax")
    assert node.where.file == __file__
    assert (
        node.where.source == "        return F.softmax(x=scores, dim=1)".replace("x=scores", "scores") + "  # the line"
    )
    assert [number - node.where.line for number, _ in node.where.context] == [-2, -1, 0, 1, 2]


def test_an_operation_has_the_module_it_ran_in() -> None:
    graph, _ = traced(Functional())
    assert {(node.name, node.module) for node in graph.get_nodes_by_name("Addmm", "Relu")} == {
        ("Addmm", "body.0"),
        ("Relu", "body.1"),
        ("Addmm", "head"),
    }


def test_the_leaves_are_the_parameters() -> None:
    model = Functional()
    leaves = traced(model)[0].leaves
    assert {id(leaf) for leaf in leaves} == {id(p) for p in model.parameters()}


def test_a_shared_module_is_counted_by_call() -> None:
    graph, trace = traced(Twice())
    assert trace.call_counts == {"": 1, "layer": 2}
    assert [node.module for node in graph.get_nodes_by_name("Addmm")] == ["layer", "layer"]


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_parts_can_be_read_as_far_as_torch_tells(reentrant: bool) -> None:
    graph, _ = traced(Checkpointed(reentrant), torch.randn(6, 4))
    (node,) = graph.get_nodes_by_name("Softmax")
    assert "self.head(x).softmax(1)" in node.where.source


def test_a_hand_written_function_is_a_node_of_its_own() -> None:
    class Model(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return Double.apply(super().forward(x))

    assert "Double" in names(traced(Model(4, 3))[0])


@pytest.mark.parametrize(
    "model",
    [
        nn.LSTM(4, 5, batch_first=True),
        nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
        nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Dropout(0.5, inplace=True)),
    ],
    ids=["lstm", "transformer", "in place"],
)
def test_any_model_can_be_read(model: nn.Module) -> None:
    graph, _ = traced(model, torch.randn(3, 6, 4))
    assert {id(leaf) for leaf in graph.leaves} == {id(p) for p in model.parameters()}


def test_in_lower_precision_too() -> None:
    model = Functional()
    with torch.autocast("cpu", torch.bfloat16):
        graph, _ = traced(model)
    assert {"Softmax", "ToCopy"} <= names(graph)


def test_what_the_tracing_put_on_is_off_again() -> None:
    model = Functional()
    with pytest.raises(ZeroDivisionError), trace_forward(model):
        raise ZeroDivisionError
    assert not torch.is_anomaly_enabled()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    with torch.autograd.set_detect_anomaly(True, check_nan=True), trace_forward(model):
        pass
    assert not torch.is_anomaly_enabled()


def test_anomaly_mode_of_the_users_own_stays_on() -> None:
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        traced(Functional())
        assert torch.is_anomaly_enabled()
        assert torch.is_anomaly_check_nan_enabled()


def test_a_tensor_without_a_graph_gives_an_empty_one() -> None:
    with trace_forward(nn.Identity()) as trace:
        pass
    graph = trace.get_graph(torch.ones(1))
    assert graph.root is None
    assert graph.leaves == []


def test_a_deep_graph_is_no_trouble() -> None:
    class Deep(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            for _ in range(3000):
                x = x + super().forward(x) * 1e-3
            return x

    assert len(traced(Deep(4, 4))[0].nodes) > 9000
