"""L206 on softmaxes that have one value to share and are right."""

from __future__ import annotations

import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup
from tests.rules.healthy_models import SelfAttention


def test_attention_over_a_sequence_of_one_is_left_alone() -> None:
    setup = minimal_setup(SelfAttention(), torch.randn(32, 1, 8), torch.arange(32) % 3, nn.CrossEntropyLoss())
    report = Debugger.of(setup).checkup(select="L206")
    assert report.checked_rules
    assert len(report) == 0
