"""Tests of D102, L209 and L219: targets and predictions within and outside the domain of torch's losses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network, points
from tests.rules.rule_findings import rule_faults

X, CLASSES = points()
SIGNS = (X[:, :1] > 0).float() * 2 - 1
UNITS = (SIGNS + 1) / 2
COLUMNS = (X > 0).long()
INDICES = torch.stack([torch.cat([row.nonzero().flatten(), torch.full((4,), -1)])[:4] for row in COLUMNS])
COUNTS = X[:, :1].abs().mul(3).floor()
SHARES = X.softmax(1)
BATCH_MEAN = nn.KLDivLoss(reduction="batchmean")


class TwoVectors(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Linear(2, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.embedding(x[:, :2]), self.embedding(x[:, 2:])


def pair_loss(vectors: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    return F.cosine_embedding_loss(*vectors, target=target.squeeze(1))


def rank_loss(scores: Tensor, target: Tensor) -> Tensor:
    return F.margin_ranking_loss(scores[:, :1], scores[:, 1:], target, margin=0.5)


PROBLEMS: dict[str, tuple[nn.Module, Tensor, Callable[..., Tensor], bool]] = {
    "pairs of 0 and 1": (TwoVectors(), UNITS, pair_loss, True),
    "pairs of signs": (TwoVectors(), SIGNS, pair_loss, False),
    "ranks of 0 and 1": (network(2), UNITS, rank_loss, True),
    "ranks of signs": (network(2), SIGNS, rank_loss, False),
    "soft margin of 0 and 1": (network(1), UNITS, nn.SoftMarginLoss(), True),
    "soft margin of signs": (network(1), SIGNS, nn.SoftMarginLoss(), False),
    "multi-label margin of columns": (network(4), COLUMNS, nn.MultiLabelMarginLoss(), True),
    "multi-label margin of indices": (network(4), INDICES, nn.MultiLabelMarginLoss(), False),
    "multi-label soft margin of signs": (network(4), COLUMNS * 2.0 - 1, nn.MultiLabelSoftMarginLoss(), True),
    "multi-label soft margin of columns": (network(4), COLUMNS.float(), nn.MultiLabelSoftMarginLoss(), False),
    "standardized counts": (network(1), (COUNTS - COUNTS.mean()) / COUNTS.std(), nn.PoissonNLLLoss(), True),
    "counts": (network(1), COUNTS, nn.PoissonNLLLoss(), False),
    "rate as a logarithm": (network(1, nn.Softplus()), COUNTS, nn.PoissonNLLLoss(), True),
    "rate": (network(1, nn.Softplus()), COUNTS, nn.PoissonNLLLoss(log_input=False), False),
    "logarithm as a rate": (network(1), COUNTS, nn.PoissonNLLLoss(log_input=False), True),
    "divergence from logarithms": (network(4, nn.LogSoftmax(1)), SHARES.log(), BATCH_MEAN, True),
    "divergence from scores": (network(4, nn.LogSoftmax(1)), SHARES * 3, BATCH_MEAN, True),
    "divergence from shares": (network(4, nn.LogSoftmax(1)), SHARES, BATCH_MEAN, False),
    "divergence from stated logarithms": (
        network(4, nn.LogSoftmax(1)),
        SHARES.log(),
        nn.KLDivLoss(reduction="batchmean", log_target=True),
        False,
    ),
}


CODES = {"rate as a logarithm": "L209", "logarithm as a rate": "L219"}


@pytest.mark.parametrize("name", PROBLEMS)
def test_values_that_a_loss_of_torch_does_not_take_are_reported(name: str) -> None:
    model, target, loss_fn, is_outside = PROBLEMS[name]
    setup = minimal_setup(model, X, target, loss_fn)
    codes = [code for code in ("D102", "L209", "L219") if rule_faults(setup, code)]
    assert codes == ([CODES.get(name, "D102")] if is_outside else [])


@pytest.mark.parametrize("is_outside", [True, False], ids=["0 and 1", "signs"])
def test_target_outside_domain_in_watched_loop_reads_loss_of_the_loop(is_outside: bool) -> None:
    setup = minimal_setup(TwoVectors(), X, UNITS if is_outside else SIGNS, nn.MSELoss())
    debugger, optimizer = Debugger.of(setup), setup.optimizers[0]
    with debugger.watch():
        for x, target in setup.train_loader:
            optimizer.zero_grad()
            pair_loss(setup.model(x), target).backward()
            optimizer.step()
    assert ("D102" in {finding.code for finding in debugger.findings}) == is_outside


def test_target_outside_domain_made_by_the_loss_names_its_line() -> None:
    def shifted_loss(scores: Tensor, target: Tensor) -> Tensor:
        flags = (target + 1) / 2
        return F.soft_margin_loss(scores, flags)

    (finding,) = rule_faults(minimal_setup(network(1), X, SIGNS, shifted_loss), "D102")
    assert "flags =" in str(finding.where.source)
