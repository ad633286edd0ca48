"""Tests of the rules on the loss that a loop computes itself, traced at its first step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug import Debugger
from nbdebug.loop_monitor.step_trace import StepTrace
from tests.watching.points import labeled_points

X, Y = labeled_points(64)
BINARY, REAL, ROWS = (X[:, 0] > 0).float(), X.sum(1), (X[:, :3] > 0).float()
WITH_LOGITS = nn.BCEWithLogitsLoss()
_Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


@pytest.fixture(autouse=True)
def no_compiled_code() -> None:
    """Forget what other tests have compiled, since a step is traced only if nothing is."""
    torch._dynamo.reset()


def network(outputs: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, outputs))


def loader(y: Tensor) -> DataLoader[Any]:
    return DataLoader(TensorDataset(X, y), batch_size=16)


def train(model: nn.Module, batches: Any, loss: _Loss, epochs: int = 2) -> Iterator[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for x, y in batches:
            optimizer.zero_grad()
            value = loss(model, x, y)
            value.backward()
            optimizer.step()
            yield value.item()


def watch_loss(loss: _Loss, y: Tensor, outputs: int, **options: Any) -> Debugger:
    model, batches = network(outputs), loader(y)
    debugger = Debugger(model, batches, **options)
    with debugger.watch() as run:
        losses = list(train(model, batches, loss))
    assert len(losses) == 8
    assert not run.error_summary
    assert not torch._C._len_torch_function_stack()
    return debugger


def sigmoid_twice(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    probability = torch.sigmoid(model(x)).squeeze(1)
    return WITH_LOGITS(probability, y)


def sigmoid_in_helper(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    def predict(inputs: Tensor) -> Tensor:
        return model(inputs)[:, 0].sigmoid()

    return F.binary_cross_entropy_with_logits(predict(x), y)


def log_of_softmax(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    probabilities = model(x).softmax(1)
    return -torch.log(probabilities).gather(1, y[:, None]).mean()


def softmax_over_batch(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    scores = torch.log_softmax(model(x), 0)
    return F.nll_loss(scores, y)


def own_squared_error(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    error = model(x) - y
    return error.square().mean()


FAULTS = [
    ("L202", sigmoid_twice, BINARY, 1, "WITH_LOGITS(probability, y)|torch.sigmoid(model(x))"),
    ("L202", sigmoid_in_helper, BINARY, 1, "sigmoid()"),
    ("L203", log_of_softmax, Y, 3, "torch.log(probabilities)"),
    ("L204", lambda model, x, y: F.nll_loss(model(x), y), Y, 3, "F.nll_loss(model(x), y)"),
    ("L205", lambda model, x, y: F.mse_loss(model(x), y), REAL, 1, "F.mse_loss(model(x), y)"),
    ("L205", own_squared_error, REAL, 1, "model(x) - y"),
    ("L206", softmax_over_batch, Y, 3, "torch.log_softmax(model(x), 0)"),
    ("L210", lambda model, x, y: F.cross_entropy(model(x).relu(), y), Y, 3, "model(x).relu()"),
    ("L211", lambda model, x, y: F.cross_entropy(model(x), y), ROWS, 3, "F.cross_entropy(model(x), y)"),
    ("L217", lambda model, x, y: WITH_LOGITS(model(x)[:, 0], y), 3 * REAL, 1, "WITH_LOGITS(model(x)[:, 0]"),
    ("L201", lambda model, x, y: F.cross_entropy(model(x).softmax(1), y), Y, 3, "model(x).softmax(1)"),
]


@pytest.mark.parametrize(("code", "loss", "y", "outputs", "text"), FAULTS)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_watch_reports_the_fault_of_a_loss_in_the_loop_at_its_line(
    code: str, loss: _Loss, y: Tensor, outputs: int, text: str
) -> None:
    findings = [finding for finding in watch_loss(loss, y, outputs).findings if finding.code == code]
    assert len(findings) == 1
    assert any(part in (findings[0].where.source or "") for part in text.split("|"))


def test_watch_reports_the_fault_of_the_loop_if_the_loss_of_the_setup_is_right() -> None:
    def loss_fn(output: Tensor, target: Tensor) -> Tensor:
        return WITH_LOGITS(output.squeeze(1), target)

    model, batches = network(1), loader(BINARY)
    debugger = Debugger(model, batches, loss_fn=loss_fn)
    assert "L202" not in {finding.code for finding in debugger.checkup()}
    with debugger.watch():
        list(train(model, batches, sigmoid_twice))
    assert "L202" in {finding.code for finding in debugger.findings}


@pytest.mark.parametrize(
    ("loss", "y", "outputs"),
    [
        (lambda model, x, y: F.cross_entropy(model(x), y), Y, 3),
        (lambda model, x, y: F.nll_loss(model(x).log_softmax(1), y), Y, 3),
        (lambda model, x, y: F.binary_cross_entropy(model(x)[:, 0].sigmoid(), y), BINARY, 1),
        (lambda model, x, y: (model(x)[:, 0] - y).square().mean(), REAL, 1),
        (lambda model, x, y: (model(x) - y[:, None]).abs().mean(), REAL, 3),  # three quantiles
        (lambda model, x, y: F.cross_entropy(model(x) @ model(x).T, torch.arange(len(x))), Y, 3),  # a contrast
        (lambda model, x, y: WITH_LOGITS(model(x), y), ROWS, 3),
    ],
)
def test_watch_of_a_right_loss_in_the_loop_reports_nothing_of_it(loss: _Loss, y: Tensor, outputs: int) -> None:
    assert not [finding for finding in watch_loss(loss, y, outputs).findings if finding.code.startswith("L20")]


def test_watch_without_a_known_loader_traces_the_loss() -> None:
    model = network(3)
    with nbdebug.watch(model) as run:
        list(train(model, list(loader(Y)), lambda model, x, y: F.nll_loss(model(x), y)))
    assert run.result is not None
    assert "L204" in {finding.code for finding in run.result.report}


def test_traced_step_leaves_losses_and_gradients_as_they_are() -> None:
    def run_loop(is_watched: bool) -> tuple[list[float], list[Tensor]]:
        model, batches = network(3), loader(Y)
        with Debugger(model, batches).watch() if is_watched else torch.enable_grad():
            losses = list(train(model, batches, lambda model, x, y: F.cross_entropy(model(x), y)))
        return losses, [parameter.detach() for parameter in model.parameters()]

    losses, weights = run_loop(is_watched=False)
    watched_losses, watched_weights = run_loop(is_watched=True)
    assert watched_losses == losses
    assert all(map(torch.equal, watched_weights, weights))


def test_compiled_loss_is_compiled_once_under_a_watch() -> None:
    frames: list[int] = []

    def count_frames(graph: Any, _: Any) -> Any:
        frames.append(len(graph.graph.nodes))
        return graph.forward

    compiled = torch.compile(lambda output, y: F.cross_entropy(output, y), backend=count_frames, fullgraph=True)
    watch_loss(lambda model, x, y: compiled(model(x), y), Y, 3)
    assert len(frames) == 1


def test_watch_of_a_trace_that_fails_reports_it_and_training_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("in a trace")

    monkeypatch.setattr(StepTrace, "record_result", fail)
    model, batches = network(3), loader(Y)
    with Debugger(model, batches).watch() as run:
        losses = list(train(model, batches, lambda model, x, y: F.cross_entropy(model(x), y)))
    assert len(losses) == 8
    assert "first step (ZeroDivisionError: in a trace)" in run.error_summary


def temporal_difference(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    with torch.no_grad():
        target = x.sum(1) + 0.9 * model(x.roll(1, 0)).max(1).values
    taken = model(x).gather(1, y.unsqueeze(1))
    return (taken - target).square().mean()


def pairwise_ranking(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    scores, order = model(x)[:, 0], y[:, None] > y
    return F.softplus(-(scores[:, None] - scores))[order].sum() / order.sum()


@pytest.mark.parametrize(("loss", "y", "is_fault"), [(temporal_difference, Y, True), (pairwise_ranking, REAL, False)])
def test_watch_reports_targets_that_the_loop_computes_and_broadcasts(loss: _Loss, y: Tensor, is_fault: bool) -> None:
    findings = [finding for finding in watch_loss(loss, y, 3).findings if finding.code == "L205"]
    assert len(findings) == is_fault
    assert all("taken - target" in (finding.where.source or "") for finding in findings)


def test_watch_of_own_updates_leaves_no_mode() -> None:
    model, batches = network(3), list(loader(Y))
    with nbdebug.watch(model):
        for x, y in batches:
            model.zero_grad()
            F.cross_entropy(model(x), y).backward()
            for parameter in model.parameters():
                parameter.data -= 0.1 * parameter.grad  # type: ignore[operator]
    assert not torch._C._len_torch_function_stack()
