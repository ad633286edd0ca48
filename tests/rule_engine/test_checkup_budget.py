"""Tests of the rules that a checkup runs and skips, by budget and after an infinite loss."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.rules.loss.softmax_before_cross_entropy import bad as double_softmax
from nbdebug.rules.optim.parameter_not_optimized import bad as not_optimized
from nbdebug.setup import Setup

passes: list[int] = []


class PassCountingNetwork(nn.Module):
    """Records the size of each batch in ``passes``."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network(3)

    def forward(self, x: Tensor) -> Tensor:
        passes.append(len(x))
        scores: Tensor = self.inner(x)
        return scores


def test_quick_checkup_runs_model_once_and_lists_skipped_rules() -> None:
    debugger = Debugger.of(minimal_setup(PassCountingNetwork(), *points(), nn.CrossEntropyLoss()))
    passes.clear()
    report = debugger.checkup("quick")
    assert len(passes) == 1
    skipped_codes = {rule.code for rule in report.not_checked if "budget='quick'" in rule.why}
    assert {"M304", "D105", "G405"} <= skipped_codes
    assert {"L201", "L205", "M301", "O503", "M303"} <= report.checked_rules


@pytest.mark.parametrize(("make_setup", "code"), [(double_softmax, "L201"), (not_optimized, "O503")])
def test_quick_checkup_finds_faults_visible_in_one_pass(make_setup: Callable[[], Setup], code: str) -> None:
    assert code in {finding.code for finding in Debugger.of(make_setup()).checkup("quick")}


def infinite_loss(logits: Tensor, target: Tensor) -> Tensor:
    """A cross-entropy whose softmax underflows."""
    return -torch.log(torch.softmax(logits * 1e4, 1)[torch.arange(len(target)), target]).mean()


def test_checkup_with_infinite_loss_skips_rules_that_compare_losses() -> None:
    setup = minimal_setup(network(3), *points(), infinite_loss)
    report = Debugger.of(setup).checkup()
    assert "G405" in {finding.code for finding in report}
    assert not {"L214", "L216"} & {finding.code for finding in report}
    skipped_codes = {rule.code for rule in report.not_checked if "the loss is inf" in rule.why}
    assert {"L214", "L216", "G407", "G416"} <= skipped_codes
