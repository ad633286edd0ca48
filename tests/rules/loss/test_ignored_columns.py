"""Tests of L214 for columns of the output and of the target that the loss ignores, in a checkup and in a loop."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup
from tests.rules.rule_findings import rule_findings

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(64, 5, generator=GENERATOR)
NUMBERS = X @ torch.randn(5, 4, generator=GENERATOR)
LABELS = torch.stack([(NUMBERS[:, k] > 0).long() + (k == 2) * (NUMBERS[:, 3] > 0.5) for k in range(3)], 1)
SIZES = (2, 2, 3)
Loss = Callable[[Tensor, Tensor], Tensor]


def first_column(output: Tensor, target: Tensor) -> Tensor:
    for column in range(target.shape[1]):
        return F.mse_loss(output[:, column], target[:, column])
    return output.sum()


def last_column_overwrites(output: Tensor, target: Tensor) -> Tensor:
    for column in range(target.shape[1]):
        loss = F.smooth_l1_loss(output[:, column], target[:, column])
    return loss


def all_columns(output: Tensor, target: Tensor) -> Tensor:
    return torch.stack([F.mse_loss(output[:, k], target[:, k]) for k in range(target.shape[1])]).sum()


def within_margins(output: Tensor, target: Tensor) -> Tensor:
    return F.relu((output - target).abs() - 0.05).mean()


def losses_of_heads(output: Tensor, target: Tensor) -> list[Tensor]:
    return [F.cross_entropy(part, target[:, k]) for k, part in enumerate(output.split(SIZES, 1))]


def first_head(output: Tensor, target: Tensor) -> Tensor:
    return next(iter(losses_of_heads(output, target)))


def all_heads(output: Tensor, target: Tensor) -> Tensor:
    return sum(losses_of_heads(output, target), torch.zeros(()))


def two_heads_and_an_identifier(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output[:, :2], target[:, 0]) + F.cross_entropy(output[:, 2:], target[:, 1] + target[:, 0])


def one_backward(output: Tensor, target: Tensor, loss: Loss) -> None:
    loss(output, target).backward()


def backward_of_each_column(output: Tensor, target: Tensor, loss: Loss) -> None:
    for column in range(target.shape[1]):
        loss(output[:, column], target[:, column]).backward(retain_graph=True)


def loop_findings(
    target: Tensor, loss: Loss, backward: Callable[[Tensor, Tensor, Loss], None] = one_backward
) -> list[Finding]:
    setup = minimal_setup(nn.Linear(5, target.shape[1]), X, target, None)
    debugger = Debugger.of(setup)
    with debugger.watch() as run:
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            backward(setup.model(x), y, loss)
            setup.optimizers[0].step()
    assert not run.error_summary
    return [finding for finding in debugger.findings if finding.code == "L214"]


@pytest.mark.parametrize("loss", [first_column, last_column_overwrites])
def test_loss_ignores_columns_of_the_output_in_a_loop_is_reported(loss: Loss) -> None:
    (finding,) = loop_findings(NUMBERS, loss)
    assert finding.message.startswith("3 of 4 columns of the output have no influence")
    assert finding.where.line is not None


@pytest.mark.parametrize("loss", [all_columns, within_margins, F.mse_loss])
def test_loss_of_all_columns_in_a_loop_is_quiet(loss: Loss) -> None:
    assert loop_findings(NUMBERS, loss) == []


def test_loss_of_a_backward_pass_for_each_column_is_quiet() -> None:
    assert loop_findings(NUMBERS, F.mse_loss, backward_of_each_column) == []


def test_loss_ignores_heads_whose_labels_have_no_influence_is_reported() -> None:
    (finding,) = rule_findings(minimal_setup(nn.Linear(5, 7), X, LABELS, first_head), "L214")
    assert finding.evidence["columns without influence"] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("loss", [all_heads, two_heads_and_an_identifier])
def test_loss_of_all_heads_is_quiet(loss: Loss) -> None:
    outputs = 7 if loss is all_heads else 5
    assert rule_findings(minimal_setup(nn.Linear(5, outputs), X, LABELS, loss), "L214") == []
