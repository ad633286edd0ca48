"""Tests of trace_forward and its graph: operations, modules and source lines."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from nbdebug.autograd import ForwardTrace, Graph, trace_forward
from nbdebug.autograd.tracing import describe_call

X = torch.randn(6, 4)


class FunctionalModel(nn.Module):
    """Layers and functions."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x)
        scores = self.head(hidden)
        return F.softmax(scores, dim=1)


class SharedLayerModel(nn.Module):
    """Calls one layer twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.tanh(self.layer(x)))


class CheckpointedModel(nn.Module):
    """Recomputes its middle layer in the backward pass."""

    def __init__(self, use_reentrant: bool) -> None:
        super().__init__()
        self.middle, self.head, self.use_reentrant = nn.Linear(4, 4), nn.Linear(4, 2), use_reentrant

    def forward(self, x: Tensor) -> Tensor:
        x = checkpoint(self.middle, x.requires_grad_(), use_reentrant=self.use_reentrant)
        return self.head(x).softmax(1)


class DoublingFunction(torch.autograd.Function):
    """A custom autograd function."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 2 * gradient


def trace_model(model: nn.Module, x: Tensor = X) -> tuple[Graph, ForwardTrace]:
    with trace_forward(model) as trace:
        output = model(x)
        output = output[0] if isinstance(output, tuple) else output
        total = output.sum()
    return trace.get_graph(total), trace


def node_names(graph: Graph) -> set[str]:
    return {node.name for node in graph.nodes}


def test_node_location_is_user_line_with_context() -> None:
    (node,) = trace_model(FunctionalModel())[0].get_nodes_by_name("Softmax")
    assert node.where.file == __file__
    assert node.where.source == "        return F.softmax(scores, dim=1)"
    assert [number - node.where.line for number, _ in node.where.context] == [-2, -1, 0, 1, 2]


def test_node_module_is_module_that_ran_it() -> None:
    graph, _ = trace_model(FunctionalModel())
    assert {(node.name, node.module) for node in graph.get_nodes_by_name("Addmm", "Relu")} == {
        ("Addmm", "body.0"),
        ("Relu", "body.1"),
        ("Addmm", "head"),
    }


def test_graph_leaves_are_parameters() -> None:
    model = FunctionalModel()
    leaves = trace_model(model)[0].leaves
    assert {id(leaf) for leaf in leaves} == {id(p) for p in model.parameters()}


def test_trace_of_shared_module_counts_calls() -> None:
    graph, trace = trace_model(SharedLayerModel())
    assert trace.call_counts == {"": 1, "layer": 2}
    assert [node.module for node in graph.get_nodes_by_name("Addmm")] == ["layer", "layer"]


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_graph_of_checkpointed_model_locates_later_operation(use_reentrant: bool) -> None:
    graph, _ = trace_model(CheckpointedModel(use_reentrant), torch.randn(6, 4))
    (node,) = graph.get_nodes_by_name("Softmax")
    assert "self.head(x).softmax(1)" in node.where.source


def test_graph_of_custom_function_has_its_node() -> None:
    class DoublingModel(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return DoublingFunction.apply(super().forward(x))

    assert "DoublingFunction" in node_names(trace_model(DoublingModel(4, 3))[0])


@pytest.mark.parametrize(
    "model",
    [
        nn.LSTM(4, 5, batch_first=True),
        nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
        nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Dropout(0.5, inplace=True)),
    ],
    ids=["lstm", "transformer", "in place"],
)
def test_graph_leaves_of_any_architecture_are_parameters(model: nn.Module) -> None:
    graph, _ = trace_model(model, torch.randn(3, 6, 4))
    assert {id(leaf) for leaf in graph.leaves} == {id(p) for p in model.parameters()}


def test_graph_under_autocast_includes_casts() -> None:
    model = FunctionalModel()
    with torch.autocast("cpu", torch.bfloat16):
        graph, _ = trace_model(model)
    assert {"Softmax", "ToCopy"} <= node_names(graph)


def test_trace_forward_removes_hooks_and_anomaly_mode() -> None:
    model = FunctionalModel()
    with pytest.raises(ZeroDivisionError), trace_forward(model):
        raise ZeroDivisionError
    assert not torch.is_anomaly_enabled()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    with torch.autograd.set_detect_anomaly(True, check_nan=True), trace_forward(model):
        pass
    assert not torch.is_anomaly_enabled()


def test_trace_forward_keeps_anomaly_mode_of_user() -> None:
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        trace_model(FunctionalModel())
        assert torch.is_anomaly_enabled()
        assert torch.is_anomaly_check_nan_enabled()


def test_graph_of_tensor_without_history_is_empty() -> None:
    with trace_forward(nn.Identity()) as trace:
        pass
    graph = trace.get_graph(torch.ones(1))
    assert graph.root is None
    assert graph.leaves == []


def test_graph_of_deep_computation_is_complete() -> None:
    class DeepModel(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            for _ in range(3000):
                x = x + super().forward(x) * 1e-3
            return x

    assert len(trace_model(DeepModel(4, 4))[0].nodes) > 9000


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("getitem", "the indexing"),
        ("add", "the addition"),
        ("radd", "the addition"),
        ("isub", "the subtraction"),
        ("rtruediv", "the division"),
        ("softmax", "softmax"),
        ("relu", "relu"),
        ("index_add", "index_add"),
    ],
)
def test_operators_are_described_by_what_they_do(name: str, words: str) -> None:
    assert describe_call(name) == words
    assert describe_call(name, starts_sentence=True) == words.replace("the ", "The ")
