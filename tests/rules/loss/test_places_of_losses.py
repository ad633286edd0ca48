"""Tests of the line and the module that findings on a loss name: where a part of the output or the sign is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.finding import Finding
from nbdebug.rules.data.targets_not_shifted import RecurrentLanguageModel, token_cross_entropy
from nbdebug.rules.examples import minimal_setup, points, regressor
from nbdebug.setup import Setup
from nbdebug.source.executed_lines import find_early_return
from tests.loop_monitor.watched_loops import source_line
from tests.rules.rule_findings import rule_faults


class Heads(nn.Module):
    """A head for each of three targets, joined along the last axis, or in a dictionary."""

    def __init__(self, *, named: bool = False) -> None:
        super().__init__()
        self.trunk, self.named = nn.Linear(4, 8), named
        self.heads = nn.ModuleList(nn.Linear(8, 1) for _ in range(3))

    def forward(self, x: Tensor) -> Any:
        hidden = torch.relu(self.trunk(x))
        outputs = [head(hidden) for head in self.heads]
        return {str(i): output.squeeze(1) for i, output in enumerate(outputs)} if self.named else torch.cat(outputs, 1)


def returns_in_loop(output: Tensor, target: Tensor) -> Any:
    total = torch.zeros(())
    for k in range(3):
        total = total + F.mse_loss(output[:, k], target[:, k])
        return total  # here
    return None


def returns_in_while(output: dict[str, Tensor], target: Tensor) -> Any:
    number, total = 0, torch.zeros(())
    while number < 3:
        total = total + F.l1_loss(output[str(number)], target[:, number])
        number += 1
        return total  # here
    return None


class ReturnsInMethod(nn.Module):
    """A loss of the first output, from a helper."""

    def terms(self, output: Tensor, target: Tensor) -> Any:
        for prediction, truth in zip(output.T, target.T, strict=True):
            error = prediction - truth
            return error.square().mean()  # here
        return None

    def forward(self, output: Tensor, target: Tensor) -> Any:
        return 2 * self.terms(output, target)


def first_output(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(output[:, 0], target[:, 0])  # here


def returns_if_finite(output: Tensor, target: Tensor) -> Any:
    for k in range(3):
        loss = F.mse_loss(output[:, k], target[:, k])  # here
        if loss.isfinite():
            return loss
    return None


def heads_setup(loss_fn: Callable[..., Any], *, named: bool = False) -> Setup:
    x, _ = points()
    return minimal_setup(Heads(named=named), x, torch.stack([x.sum(1), x[:, 0], x[:, 1]], 1), loss_fn)


@pytest.mark.parametrize("loss_fn", [returns_in_loop, ReturnsInMethod(), first_output, returns_if_finite])
def test_loss_of_one_output_names_its_line_and_the_head_without_gradient(loss_fn: Any) -> None:
    (finding,) = rule_faults(heads_setup(loss_fn), "L214")
    assert finding.where.module == "heads.1"
    assert source_line(finding).endswith("# here"), str(finding)


def test_loss_of_one_output_names_no_module_if_all_have_a_gradient() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    x, _ = points()
    (finding,) = rule_faults(minimal_setup(model, x, x[:, :3], first_output), "L214")
    assert finding.where.module is None
    assert source_line(finding).endswith("# here")


def sum_of_named(output: dict[str, Tensor], target: Tensor) -> Tensor:
    return sum((F.l1_loss(output[str(k)], target[:, k]) for k in range(2)), torch.zeros(()))  # here


@pytest.mark.parametrize("loss_fn", [returns_in_while, sum_of_named])
def test_head_that_the_loss_ignores_is_placed_in_the_loss(loss_fn: Any) -> None:
    (finding,) = rule_faults(heads_setup(loss_fn, named=True), "M301")
    assert finding.where.module in ("heads.1", "heads.2")
    assert source_line(finding).endswith("# here"), str(finding)
    assert "the loss does not use it" in finding.message


class UnusedHead(Heads):
    """A head whose result is not returned."""

    def forward(self, x: Tensor) -> Any:
        hidden = torch.relu(self.trunk(x))
        outputs = [head(hidden) for head in self.heads]
        return torch.cat(outputs[:2], 1)


def test_head_that_the_model_does_not_return_is_placed_in_the_model() -> None:
    x, _ = points()
    (finding,) = rule_faults(minimal_setup(UnusedHead(), x, x[:, :2], nn.MSELoss()), "M301")
    assert finding.where.module == "heads.2"
    assert "loss" not in finding.cause


def similarity(output: Tensor, target: Tensor) -> Tensor:
    return -(output - target).abs()  # similarity


def similarity_loss(output: Tensor, target: Tensor) -> Tensor:
    return similarity(output, target).mean()


def negated_error(output: Tensor, target: Tensor) -> Tensor:
    error = (output - target).square()
    return -error.mean()  # negated


def similarity_in_place(output: Tensor, target: Tensor) -> Tensor:
    closeness = -(output - target).abs()
    return closeness.sum()  # summed


@pytest.mark.parametrize(
    ("loss_fn", "marker"),
    [(similarity_loss, "similarity"), (negated_error, "negated"), (similarity_in_place, "summed")],
)
def test_wrong_sign_names_the_function_that_makes_the_values(loss_fn: Any, marker: str) -> None:
    (finding,) = rule_faults(regressor(loss_fn=loss_fn), "L213")
    assert source_line(finding).endswith(f"# {marker}"), str(finding)


def test_find_early_return_without_one_is_none() -> None:
    output, target = torch.ones(4, 3), torch.zeros(4, 3)
    assert find_early_return(lambda: returns_if_finite(output, target)) is None
    assert find_early_return(lambda: first_output(output, target)) is None
    assert find_early_return(lambda: 1 / 0) is None
    both = find_early_return(lambda: (returns_in_loop(output, target), ReturnsInMethod()(output, target)))
    assert both is None


def findings_of_language_model(loss_fn: Any, shift: int) -> list[Finding]:
    tokens = torch.randint(0, 11, (64, 12), generator=torch.Generator().manual_seed(0))
    model = RecurrentLanguageModel()
    return rule_faults(minimal_setup(model, tokens[:, :8], tokens[:, shift:][:, :8], loss_fn), "D126")


def shifted_again(logits: Tensor, target: Tensor) -> Tensor:
    earlier = logits[:, :-1]
    return F.cross_entropy(earlier.flatten(0, 1), target[:, 1:].flatten())  # here


def shifted_in_call(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, :-1].reshape(-1, 11), target[:, 1:].reshape(-1))  # here


@pytest.mark.parametrize("loss_fn", [shifted_again, shifted_in_call])
def test_targets_shifted_twice_name_the_shift_in_the_loss(loss_fn: Any) -> None:
    (finding,) = findings_of_language_model(loss_fn, 1)
    assert source_line(finding).endswith("# here"), str(finding)


def test_targets_shifted_twice_in_the_data_do_not_name_the_loss() -> None:
    (finding,) = findings_of_language_model(token_cross_entropy, 2)
    assert "cross_entropy" not in source_line(finding)


class ChosenValues:
    """Compares the value of an action with its target, which has one axis less."""

    def chosen(self, values: Tensor, action: Tensor) -> Tensor:
        return values.gather(1, action.unsqueeze(1))  # here

    def __call__(self, values: Tensor, target: Tensor) -> Tensor:
        return ((self.chosen(values, target.long() % 3) - target) ** 2).mean()


def test_broadcast_is_placed_at_the_function_that_gives_the_output_an_axis() -> None:
    x, y = points()
    (finding,) = rule_faults(minimal_setup(nn.Linear(4, 3), x, y.float(), ChosenValues()), "L205")
    assert source_line(finding).endswith("# here"), str(finding)
