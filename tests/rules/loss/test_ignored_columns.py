"""Tests of L214 for columns of the output and of the target that the loss ignores, in a checkup and in a loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
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


def losses_of_tasks(output: Tensor, *targets: Tensor) -> list[Tensor]:
    """Return a class loss for each of the targets, on a slice of its own."""
    return [F.cross_entropy(part, target) for part, target in zip(output.split(SIZES, -1), targets, strict=True)]


def all_tasks(output: Tensor, *targets: Tensor) -> Tensor:
    return torch.stack(losses_of_tasks(output, *targets)).sum()


def last_task_of_weight_zero(output: Tensor, *targets: Tensor) -> Tensor:
    first, second, third = losses_of_tasks(output, *targets)
    return first + second + 0.0 * third


def first_task_detached(output: Tensor, *targets: Tensor) -> Tensor:
    first, second, third = losses_of_tasks(output, *targets)
    return first.detach() + second + third


def second_task_overlaps(output: Tensor, *targets: Tensor) -> Tensor:
    slices = output[:, :2], output[:, 1:3], output[:, 4:]
    return torch.stack([F.cross_entropy(part, target) for part, target in zip(slices, targets, strict=True)]).sum()


def copied_columns(output: Tensor, target: Tensor) -> Tensor:
    copy = torch.tensor([row[1:] for row in output.tolist()])
    return F.mse_loss(output[:, 0], target[:, 0]) + F.mse_loss(copy, target[:, 1:])


def detached_column(output: Tensor, target: Tensor) -> Tensor:
    return F.l1_loss(torch.cat([output[:, :3], output[:, 3:].detach()], 1), target)


def numpy_penalty(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output[:, :2], target[:, 0]) + float(np.abs(output[:, 2:].detach().numpy()).mean())


def saturated_column(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(torch.cat([output[:, :3], output[:, 3:].clamp(-9, -8)], 1), target)


def gated_by_threshold(output: Tensor, target: Tensor) -> Tensor:
    is_used = (output[:, 3:] > 0).float()
    return (is_used * (output[:, :3] - target[:, :3]).square()).mean()


def looked_up(output: Tensor, *targets: Tensor) -> Tensor:
    return F.nll_loss(output.log_softmax(1), targets[0]) + output.gather(1, targets[1][:, None]).square().mean()


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


DETACHED = [(copied_columns, NUMBERS, 4, [1, 2, 3]), (detached_column, NUMBERS, 4, [3])]
DETACHED += [(numpy_penalty, LABELS, 5, [2, 3, 4])]


@pytest.mark.parametrize(("loss", "target", "outputs", "columns"), DETACHED)
def test_columns_that_the_loss_reads_without_a_graph_are_reported_as_detached(
    loss: Loss, target: Tensor, outputs: int, columns: list[int]
) -> None:
    setup = minimal_setup(nn.Linear(5, outputs), X, target, loss)
    (finding,) = rule_findings(setup, "L212")
    assert finding.evidence["columns without a gradient"] == columns
    assert finding.where.source is not None
    assert any(word in finding.where.source for word in ("tolist", "detach"))
    assert rule_findings(setup, "L214") == []


def test_detached_columns_in_a_loop_are_reported() -> None:
    setup = minimal_setup(nn.Linear(5, 4), X, NUMBERS, copied_columns)
    debugger = Debugger.of(setup)
    with debugger.watch():
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            copied_columns(setup.model(x), y).backward()
            setup.optimizers[0].step()
    assert [finding.code for finding in debugger.findings if finding.code.startswith("L2")] == ["L212"]


@pytest.mark.parametrize(
    "loss", [first_column, last_column_overwrites, saturated_column, all_columns, gated_by_threshold]
)
def test_columns_whose_small_changes_have_no_influence_are_not_detached(loss: Loss) -> None:
    x = torch.randn(2048, 5, generator=GENERATOR)
    targets = x @ torch.randn(5, 4, generator=GENERATOR)
    setup = replace(
        minimal_setup(nn.Linear(5, 4), x, targets, loss),
        train_loader=DataLoader(TensorDataset(x, targets), batch_size=2048),
    )
    assert rule_findings(setup, "L212") == []


def test_loss_ignores_heads_whose_labels_have_no_influence_is_reported() -> None:
    (finding,) = rule_findings(minimal_setup(nn.Linear(5, 7), X, LABELS, first_head), "L214")
    assert finding.evidence["columns without influence"] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("loss", [all_heads, two_heads_and_an_identifier])
def test_loss_of_all_heads_is_quiet(loss: Loss) -> None:
    outputs = 7 if loss is all_heads else 5
    assert rule_findings(minimal_setup(nn.Linear(5, outputs), X, LABELS, loss), "L214") == []


@pytest.mark.parametrize(
    ("loss", "channels"),
    [
        (last_task_of_weight_zero, [4, 5, 6]),
        (first_task_detached, [0, 1]),
        (second_task_overlaps, [3]),
        (all_tasks, []),
        (looked_up, []),
    ],
)
def test_loss_ignores_channels_of_a_task_is_reported_at_the_loss_of_the_task(
    loss: Callable[..., Tensor], channels: list[int]
) -> None:
    loader = DataLoader(TensorDataset(X, *LABELS.unbind(1)), 16)
    setup = Setup(nn.Linear(5, 7), loader, loss_fn=loss)
    findings = rule_findings(setup, "L214")
    assert [finding.evidence["channels without influence"] for finding in findings] == [channels] * bool(channels)
    if channels == [4, 5, 6]:
        assert "F.cross_entropy(part, target)" in str(findings[0].where.source)


class Steps(nn.Module):
    """One number for each step of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.GRU(3, 8, batch_first=True)
        self.head = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.head(self.layers(x)[0])
        return output


def last_step(output: Tensor, target: Tensor) -> Tensor:
    return (output[:, -1] - target[:, -1]).square().mean()


def first_step(output: Tensor, target: Tensor) -> Tensor:
    return (output[:, 0] - target[:, 0]).square().mean()


def last_step_overwrites(output: Tensor, target: Tensor) -> Tensor:
    for step in range(target.shape[1]):
        loss = F.mse_loss(output[:, step], target[:, step])
    return loss


@pytest.mark.parametrize(
    ("loss_fn", "severity"), [(last_step, "note"), (first_step, "error"), (last_step_overwrites, "error")]
)
def test_loss_of_one_step_is_a_note_if_it_takes_the_last_one_by_name(loss_fn: Loss, severity: str) -> None:
    x = torch.randn(64, 6, 3, generator=GENERATOR)
    (finding,) = rule_findings(minimal_setup(Steps(), x, x.cumsum(1)[..., :1], loss_fn), "L214")
    assert finding.severity == severity
