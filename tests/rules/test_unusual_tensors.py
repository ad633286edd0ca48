"""Tests of rules on tensors without values, without a batch axis, in sparse layout and of bool: none may break."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.rule_engine.slice_edits import without_last_to_later
from nbdebug.rules.examples import minimal_setup, points
from tests.rules.rule_findings import broken_rules, rule_findings

X, _ = points()
SIGN = X[:, 0] > 0


class Head(nn.Module):
    """One linear layer in a function of the input."""

    def __init__(self, function: Callable[[nn.Module, Tensor], Tensor], width: int = 4) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(width, 1), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.linear, x)


def _join_to_empty(linear: nn.Module, x: Tensor) -> Tensor:
    rows: Tensor = linear(torch.cat([torch.empty(0, 4), x - x.mean(0)]))
    return rows


def _multiply_sparse(linear: nn.Module, x: Tensor) -> Tensor:
    rows: Tensor = linear(torch.sparse.mm(torch.eye(len(x)).to_sparse(), x[x[:, 0].argsort()]))
    return rows


def _join_empty_vector(linear: nn.Module, x: Tensor) -> Tensor:
    rows: Tensor = linear(torch.cat([torch.tensor([]), x, torch.zeros_like(x), x * 2], 1))
    return rows


def _first_column(linear: nn.Module, x: Tensor) -> Tensor:
    scores: Tensor = linear(x)[:, 0]
    return scores


def _margin_of_one_value(scores: Tensor, target: Tensor) -> Tensor:
    return F.multilabel_margin_loss(scores[0], target[0].long() * 0)


@pytest.mark.parametrize(
    ("code", "model", "target", "loss_fn"),
    [
        ("M304", Head(_join_to_empty), X[:, :1], nn.MSELoss()),
        ("M304", Head(_multiply_sparse), X[:, :1], nn.MSELoss()),
        ("M306", Head(_join_empty_vector, 12), X[:, :1], nn.MSELoss()),
        ("D102", Head(_first_column), SIGN, nn.SoftMarginLoss()),
        ("D102", Head(_first_column), SIGN, nn.HingeEmbeddingLoss()),
        ("D102", Head(_first_column), SIGN, _margin_of_one_value),
    ],
    ids=["empty rows", "sparse", "empty vector", "bool", "bool distances", "one value"],
)
def test_rule_does_not_break_on_unusual_tensors(
    code: str, model: nn.Module, target: Tensor, loss_fn: Callable[..., Tensor]
) -> None:
    rule_findings(minimal_setup(model, X, target, loss_fn), code)


def test_slice_without_axes_is_no_slice_without_the_last_token() -> None:
    statement = ast.parse("tokens[()]").body[0]
    assert isinstance(statement, ast.Expr)
    assert without_last_to_later(__file__, statement.value) == ""


class Gather(nn.Module):
    """A linear layer for each row without its mean, and the values at some indices of it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x: Tensor, index: Tensor) -> Tensor:
        centered = x - x.mean(0)
        scores: Tensor = self.linear(centered)[:, 0] + centered.gather(1, index).sum(1)
        return scores.squeeze()


@pytest.mark.parametrize("count", [0, 2], ids=["no index", "no axis of one sample"])
def test_indices_of_rows_do_not_break_the_rule(count: int) -> None:
    rows = TensorDataset(X, torch.zeros(len(X), count, dtype=torch.long), X[:, 0])
    debugger = Debugger(Gather(), loss_fn=nn.MSELoss(), train_loader=DataLoader(rows, batch_size=16))
    assert broken_rules(debugger.checkup(select=["M304"])) == []
