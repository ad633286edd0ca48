"""Tests of L213 on losses that train the opposite of what the evaluation counts as right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.loop_monitor.wrong_decisions import TwoValuedDecisionCounter

Loss = Callable[[Tensor, Tensor], Tensor]


def ranking(better: int, worse: int) -> Loss:
    def loss(scores: Tensor, preferred: Tensor) -> Tensor:
        return F.margin_ranking_loss(scores[:, better], scores[:, worse], preferred, margin=0.5)

    return loss


class Scorer(nn.Module):
    """Gives each of two items a score."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, pairs: Tensor) -> Tensor:
        return self.layer(pairs).squeeze(-1)  # type: ignore[no-any-return]


def pairs_of_items(count: int, seed: int) -> TensorDataset:
    pairs = torch.randn(count, 2, 4, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(pairs, torch.sign(pairs[:, 0, 0] - pairs[:, 1, 0]))


def findings_of(loss: Loss, steps: bool = True) -> list[Finding]:
    torch.manual_seed(0)
    model = Scorer()
    train, val = DataLoader(pairs_of_items(320, 0), 32, shuffle=True), DataLoader(pairs_of_items(120, 1), 40)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    dbg = Debugger(model, train, val, loss_fn=loss, optimizer=optimizer, task="ranking")
    with dbg.watch():
        for _ in range(4):
            for pairs, preferred in train if steps else ():
                optimizer.zero_grad()
                loss(model(pairs), preferred).backward()
                optimizer.step()
            with torch.no_grad():
                for pairs, preferred in val:
                    scores = model(pairs)
                    (torch.sign(scores[:, 0] - scores[:, 1]) == preferred).sum().item()
    return [finding for finding in dbg.findings if finding.code == "L213"]


def test_loss_with_exchanged_items_is_named_at_its_line() -> None:
    (finding,) = findings_of(ranking(1, 0))
    assert finding.severity == "warning"
    assert "F.margin_ranking_loss(" in str(finding.where.source)
    assert finding.evidence["rows"] == 120
    assert finding.evidence["correlation"] < -0.8


@pytest.mark.parametrize("steps", [True, False], ids=["trained", "only evaluated"])
def test_loss_of_the_right_order_is_quiet(steps: bool) -> None:
    assert findings_of(ranking(0, 1), steps=steps) == []


def test_decisions_of_the_latest_evaluation_are_counted() -> None:
    counter = TwoValuedDecisionCounter()
    target = torch.tensor([1.0, 1.0, 1.0, -1.0])
    for steps, decisions in enumerate((torch.tensor([-1.0, -1.0, 1.0, 1.0]), torch.tensor([1.0, 1.0, -1.0, -1.0]))):
        counter.on_forward_begin(steps)
        counter.targets = [target]
        counter.on_comparison(target, decisions)
    summary = counter.summary()
    assert summary is not None
    assert (summary.rows, summary.equal) == (4, 3)
    assert summary.correlation == pytest.approx(0.577, abs=1e-3)


@pytest.mark.parametrize(
    ("left", "right"),
    [(torch.ones(4), torch.ones(4)), (torch.arange(4.0), torch.ones(4)), (torch.ones(4, 1), torch.ones(4)), (3, 4)],
    ids=["constant", "four values", "other shape", "numbers"],
)
def test_other_comparisons_have_no_summary(left: object, right: object) -> None:
    counter = TwoValuedDecisionCounter()
    counter.targets = [torch.ones(4)]
    counter.on_comparison(left, right)
    assert counter.summary() is None
