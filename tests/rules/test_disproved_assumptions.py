"""What a checkup assumed of the loop is withdrawn where a watched loop shows otherwise, and kept where it does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.loop_monitor.grad_scaler import loss_operands
from nbdebug.rules.examples import network, points

Loss = Callable[[Tensor, Tensor], Tensor]


def codes(model: nn.Module, loss_fn: Loss, y: Tensor, shape: Callable[[Tensor], Tensor]) -> set[str]:
    """What is said after a checkup and a loop that hands the loss another form of the output."""
    x, _ = points()
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    debugger = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    debugger.checkup()
    with debugger.watch():
        for _ in range(2):
            for inputs, target in loader:
                optimizer.zero_grad()
                loss_fn(shape(model(inputs)), target).backward()
                optimizer.step()
    return {one.code for one in debugger.findings if one.severity == "error"}


@pytest.mark.parametrize(
    ("loss_fn", "y"), [(nn.BCEWithLogitsLoss(), points()[1] > 0), (nn.MSELoss(), points()[0].sum(1))]
)
def test_a_loop_that_squeezes_its_output_is_left_alone(loss_fn: nn.Module, y: Tensor) -> None:
    assert codes(network(1), loss_fn, y.float(), lambda output: output.squeeze(1)) == set()


def test_a_loop_that_broadcasts_is_not() -> None:
    assert "L205" in codes(network(1), nn.MSELoss(), points()[0].sum(1), lambda output: output)


def test_a_head_that_a_second_optimizer_trains_through_an_argument_is_left_alone() -> None:
    x, y = points()
    model = nn.ModuleDict({"body": nn.Linear(4, 8), "one": nn.Linear(8, 3), "two": nn.Linear(8, 3)})
    model.forward = lambda x, head="one": model[head](model["body"](x).relu())  # type: ignore[method-assign]
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    first = torch.optim.SGD([*model["body"].parameters(), *model["one"].parameters()], lr=0.1)
    second = torch.optim.SGD(model["two"].parameters(), lr=0.1)
    debugger = Debugger(model, loader, loss_fn=F.cross_entropy, optimizer=first)
    debugger.checkup(select=["O503", "M301"])
    assert {one.code for one in debugger.findings} == {"O503", "M301"}
    with debugger.watch():
        for batch, label in loader:
            for head, optimizer in (("one", first), ("two", second)):
                optimizer.zero_grad()
                F.cross_entropy(model(batch, head), label).backward()
                optimizer.step()
    assert not {"O503", "M301"} & {one.code for one in debugger.findings}


def test_operands_are_read_off_the_graph() -> None:
    output, target = torch.zeros(4, 1, requires_grad=True), torch.ones(4)
    assert loss_operands([F.mse_loss(output, target[:, None]) / 2]) is not None
    with pytest.warns(UserWarning, match="target size"):
        wrong = loss_operands([F.mse_loss(output[:, 0], target) + F.mse_loss(output, target)])
    assert wrong is not None
    assert wrong.broadcast
    assert loss_operands([output.sum()]) is None


def test_what_is_shown_after_a_loop_is_without_what_it_disproved() -> None:
    model = nn.ModuleDict({"one": nn.Linear(4, 3), "two": nn.Linear(4, 3)})
    model.forward = lambda x, head="one": model[head](x)  # type: ignore[method-assign]
    loader = DataLoader(TensorDataset(*points()), batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = Debugger(model, loader, loss_fn=F.cross_entropy, optimizer=optimizer)
    with debugger.watch() as run:
        for number, (batch, label) in enumerate(loader):
            optimizer.zero_grad()
            F.cross_entropy(model(batch, ("one", "two")[number % 2]), label).backward()
            optimizer.step()
    assert run.result is not None
    assert "M301" not in {one.code for one in debugger.reports["watch"]}
