"""Tests of M304: models whose output rows come back in another order than their samples."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

GENERATOR = torch.Generator().manual_seed(0)
LENGTHS = torch.randint(2, 9, (64,), generator=GENERATOR)
TOKENS = torch.randint(1, 20, (64, 8), generator=GENERATOR) * (torch.arange(8) < LENGTHS[:, None])
TABLE = torch.randn(64, 6, generator=GENERATOR)
Y = TOKENS[:, 0] % 3


class Ordered(nn.Module):
    """Layers for texts and tables; ``restores`` tells whether the rows are put back."""

    def __init__(self, restores: bool) -> None:
        super().__init__()
        self.restores, self.embed = restores, nn.Embedding(20, 6)
        self.body, self.left, self.right = nn.GRU(6, 6, batch_first=True), nn.Linear(6, 3), nn.Linear(6, 3)


class LongestFirst(Ordered):
    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        ordered, order = lengths.sort(descending=True)
        tokens = tokens[order]
        _, state = self.body(pack_padded_sequence(self.embed(tokens), ordered, batch_first=True))
        scores = self.left(state[-1])
        return scores[order.argsort()] if self.restores else scores


class OwnLengths(Ordered):
    """The mean includes padding, whose width depends on the longest text of the batch."""

    def forward(self, tokens: Tensor) -> Tensor:
        lengths = (tokens != 0).sum(1)
        order = torch.argsort(lengths, descending=True)
        texts = tokens.index_select(0, order)
        packed = pack_padded_sequence(self.embed(texts), lengths[order], batch_first=True)
        states, _ = pad_packed_sequence(self.body(packed)[0], batch_first=True)
        scores = self.left(states.mean(1))
        back = torch.empty_like(order).scatter(0, order, torch.arange(len(order)))
        return scores[back] if self.restores else scores


class SequencesFirst(Ordered):
    def forward(self, tokens: Tensor) -> Tensor:
        steps = self.embed(tokens).transpose(0, 1)
        order = (tokens != 0).sum(1).argsort()
        sums = steps[:, order].sum(0)
        scores = self.left(sums)
        return torch.zeros_like(scores).index_copy(0, order, scores) if self.restores else scores


class OrderTwice(Ordered):
    """Takes the order itself for its inverse."""

    def forward(self, tokens: Tensor) -> Tensor:
        order = (tokens != 0).sum(1).argsort(descending=True)
        sums = self.embed(tokens[order]).sum(1)
        back = order.argsort() if self.restores else order
        return self.left(sums)[back]


class Parts(Ordered):
    """Two experts for parts of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        is_left = x[:, 0] > 0
        left, right = self.left(x[is_left]), self.right(x[~is_left])
        if self.restores:
            return x.new_zeros(len(x), 3).index_put((is_left,), left).index_put((~is_left,), right)
        return torch.cat([left, right])


class LargestFirst(Ordered):
    def forward(self, x: Tensor) -> Tensor:
        order = x.norm(dim=1).topk(len(x)).indices
        scores = self.left(x[order])
        return scores.new_empty(scores.shape).index_copy(0, order, scores) if self.restores else scores


class Reversed(Ordered):
    """Reads the features, or the samples, from the last to the first."""

    def forward(self, x: Tensor) -> Tensor:
        return self.left(x.flip(1 if self.restores else 0))


class Upper(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 1.0
        return self.score(x)


class PackedPart(Ordered):
    """A part of the model computes the scores."""

    def __init__(self, restores: bool) -> None:
        super().__init__(restores)
        self.upper = Upper()

    def forward(self, tokens: Tensor) -> Tensor:
        order = (tokens != 0).sum(1).argsort(descending=True)
        states = self.embed(tokens[order]).sum(1)
        result = self.upper(torch.relu(states))
        if self.restores:
            result = result[order.argsort()]
        return result


class SortedElsewhere(Ordered):
    def sort(self, rows: Tensor, places: Tensor) -> Tensor:
        return rows[places]

    def forward(self, tokens: Tensor) -> Tensor:
        places = (tokens != 0).sum(1).argsort()
        rows = self.embed(tokens) if self.restores else self.sort(self.embed(tokens), places)
        return self.left(rows.sum(1))


class GivesOrder(Ordered):
    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        order = (tokens != 0).sum(1).argsort(descending=True)
        sums = self.embed(tokens[order]).sum(1)
        return self.left(sums), order


def loss_of_returned_order(output: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
    return F.cross_entropy(output[0], y[output[1]])


def loss_without_order(output: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
    return F.cross_entropy(output[0], y)


def loss_of_set(scores: Tensor, y: Tensor) -> Tensor:
    return (scores.mean(0) - F.one_hot(y, 3).float().mean(0)).square().sum()


CE = nn.CrossEntropyLoss()
# By name: the model, its inputs, what the line that changes the order has, and what the last line that keeps it has.
CASES: dict[str, tuple[type[Ordered], tuple[Tensor, ...], str, str]] = {
    "packed texts": (LongestFirst, (TOKENS, LENGTHS), "tokens = tokens[order]", "scores = self.left(state[-1])"),
    "padded mean": (OwnLengths, (TOKENS,), "tokens.index_select(0, order)", "scores = self.left(states.mean(1))"),
    "steps before samples": (SequencesFirst, (TOKENS,), "steps[:, order]", "scores = self.left(sums)"),
    "order for its inverse": (OrderTwice, (TOKENS,), "self.left(sums)[back]", "self.left(sums)[back]"),
    "parts of the batch": (Parts, (TABLE,), "torch.cat([left, right])", "torch.cat([left, right])"),
    "largest first": (LargestFirst, (TABLE,), "self.left(x[order])", "self.left(x[order])"),
    "reversed": (Reversed, (TABLE,), "x.flip(", "x.flip("),
    "part of a model": (PackedPart, (TOKENS,), "self.embed(tokens[order])", "self.upper(torch.relu(states))"),
    "order of another function": (SortedElsewhere, (TOKENS,), "return rows[places]", "return self.left(rows.sum(1))"),
}


def setup_of(model: nn.Module, inputs: tuple[Tensor, ...], loss_fn: Callable[..., Tensor] = CE) -> Setup:
    loader = DataLoader(TensorDataset(*inputs, Y), batch_size=16, shuffle=True)
    return Setup(model, loader, loss_fn=loss_fn, optimizers=(torch.optim.Adam(model.parameters()),))


@pytest.mark.parametrize("name", CASES)
def test_rows_in_another_order_are_an_error_at_the_last_line_with_this_order(name: str) -> None:
    build, inputs, changing, returning = CASES[name]
    torch.manual_seed(0)
    (finding,) = rule_findings(setup_of(build(False), inputs), "M304")
    assert finding.severity == "error"
    assert finding.message.startswith("The rows of the output are in another order than the inputs")
    assert returning in (finding.where.source or "")
    assert changing == returning or changing in (finding.related[0].where.source or "")


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("packed texts", "scores = self.left(state[-1])[order.argsort()]"),
        ("padded mean", "scores = self.left(states.mean(1))[order.argsort()]"),
        ("steps before samples", "scores = self.left(sums)[order.argsort()]"),
        ("part of a model", "result = self.upper(torch.relu(states))[order.argsort()]"),
        ("order for its inverse", "Put the output rows back"),  # this index has been applied twice
        ("order of another function", "Put the output rows back"),
    ],
)
def test_fix_restores_the_order_in_the_names_of_the_user(name: str, fix: str) -> None:
    build, inputs, *_ = CASES[name]
    torch.manual_seed(0)
    (finding,) = rule_findings(setup_of(build(False), inputs), "M304")
    assert fix in finding.fix_text


@pytest.mark.parametrize("name", CASES)
def test_rows_that_are_put_back_are_no_finding(name: str) -> None:
    build, inputs, *_ = CASES[name]
    torch.manual_seed(0)
    assert not rule_findings(setup_of(build(True), inputs), "M304")


def test_named_row_is_the_one_of_the_named_sample() -> None:
    torch.manual_seed(0)
    (finding,) = rule_findings(setup_of(Reversed(False), (TABLE,)), "M304")
    assert finding.evidence["row"] == 15 - finding.evidence["sample"]
    assert finding.evidence["displaced"] == finding.evidence["checked"] == 8


@pytest.mark.parametrize(
    ("build", "loss_fn", "severities"),
    [
        (GivesOrder, CE, []),  # a loop may put the rows back before the loss
        (GivesOrder, loss_of_returned_order, []),
        (GivesOrder, loss_without_order, ["error"]),
        (OrderTwice, loss_of_set, []),
    ],
)
def test_order_that_is_returned_or_that_the_loss_ignores_is_a_fault_only_if_the_loss_changes(
    build: type[Ordered], loss_fn: Callable[..., Tensor], severities: list[str]
) -> None:
    torch.manual_seed(0)
    findings = rule_findings(setup_of(build(False), (TOKENS,), loss_fn), "M304")
    assert [finding.severity for finding in findings] == severities
