"""Tests of M301 for parts under a checkpoint whose input has no gradient."""

from __future__ import annotations

import pytest
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nbdebug.rules.examples import minimal_setup, points
from tests.rules.rule_findings import rule_faults


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant, self.head = reentrant, nn.Linear(8, 3)
        self.stem = nn.Sequential(nn.Linear(4, 8), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        hidden = checkpoint(self.stem, x, use_reentrant=self.reentrant)
        logits: Tensor = self.head(hidden)
        return logits


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("reentrant", [True, False])
def test_disconnected_parameter_under_reentrant_checkpoint_names_its_line(reentrant: bool) -> None:
    findings = rule_faults(minimal_setup(Checkpointed(reentrant), *points(), nn.CrossEntropyLoss()), "M301")
    assert len(findings) == reentrant
    if reentrant:
        assert "use_reentrant" in (findings[0].where.source or "")
