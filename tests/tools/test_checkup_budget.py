"""How much a checkup asks, and what it leaves out because another finding has made it meaningless."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.rules.loss.softmax_before_cross_entropy import bad as double_softmax
from nbdebug.rules.optim.parameter_not_optimized import bad as not_optimized
from nbdebug.setup import Setup


class Counting(nn.Module):
    """A network that counts its passes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network(3)

    def forward(self, x: Tensor) -> Tensor:
        passes.append(len(x))
        scores: Tensor = self.inner(x)
        return scores


passes: list[int] = []


def test_a_quick_checkup_runs_the_model_once_and_says_what_it_leaves_out() -> None:
    debugger = Debugger.of(minimal_setup(Counting(), *points(), nn.CrossEntropyLoss()))
    passes.clear()
    report = debugger.checkup("quick")
    assert len(passes) == 1
    left_out = {one.code for one in report.not_checked if "budget='quick'" in one.why}
    assert {"M304", "D105", "G405"} <= left_out
    assert {"L201", "L205", "M301", "O503", "M303"} <= report.checked_rules


@pytest.mark.parametrize(("setup", "code"), [(double_softmax, "L201"), (not_optimized, "O503")])
def test_a_quick_checkup_finds_what_one_pass_tells(setup: object, code: str) -> None:
    assert callable(setup)
    assert code in {one.code for one in Debugger.of(setup()).checkup("quick")}


def infinite(logits: Tensor, target: Tensor) -> Tensor:
    """A cross-entropy whose softmax underflows."""
    return -torch.log(torch.softmax(logits * 1e4, 1)[torch.arange(len(target)), target]).mean()


def test_nothing_is_compared_with_a_loss_that_is_not_finite() -> None:
    setup: Setup = minimal_setup(network(3), *points(), infinite)
    report = Debugger.of(setup).checkup()
    assert "G405" in {one.code for one in report}
    assert not {"L214", "L216"} & {one.code for one in report}
    assert {"L214", "L216", "G407", "G416"} <= {one.code for one in report.not_checked if "the loss is inf" in one.why}
