"""Tests of the place of L215 where the padding is a class of its own, which the loss could ignore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

from nbdebug.rules.loss.padding_in_loss import tagged_sentences
from tests.rules.rule_findings import rule_findings
from tests.source.source_modules import load_module

BRANCHES = """
import torch
from torch import nn
from nbdebug.setup import Setup

PAD = 0

def collate(samples):
    return [torch.nn.utils.rnn.pad_sequence(part, batch_first=True) for part in zip(*samples)]

def criterion(ignores):
    if ignores:
        return nn.CrossEntropyLoss(ignore_index=PAD)
    return {call}  # here

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.head = nn.Embedding(9, 8, padding_idx=0), nn.Linear(8, 9)

    def forward(self, words):
        return self.head(self.word(words)).transpose(1, 2)

def make(data, ignores, **options):
    return Setup(Tagger(), torch.utils.data.DataLoader(data, 64, **options), loss_fn=criterion(ignores))
"""


@pytest.mark.parametrize("ignores", [False, True])
@pytest.mark.parametrize(
    "call",
    [
        "nn.CrossEntropyLoss()",
        "nn.CrossEntropyLoss(label_smoothing=0.0)",
        "nn.CrossEntropyLoss(reduction='mean')",
        "torch.nn.CrossEntropyLoss(weight=None)",
        "nn.CrossEntropyLoss(None)",
    ],
)
@pytest.mark.parametrize("is_padded_by_user", [False, True])
def test_padding_of_a_class_of_its_own_is_placed_at_the_loss_that_ignores_none(
    call: str, ignores: bool, is_padded_by_user: bool, tmp_path: Path
) -> None:
    module = load_module(tmp_path / "tagger_with_branches.py", BRANCHES.format(call=call))
    _, tokens, tags = tagged_sentences()
    tags = torch.where(tokens == 0, 0, 1 + tags % 8)  # no word has the tag of the padding
    samples: Any = [(row[:4], tag[:4]) for row, tag in zip(tokens, tags, strict=True)]
    samples += [(row[:3].repeat(2), tag[:3].repeat(2)) for row, tag in samples]
    data: Any = samples if is_padded_by_user else TensorDataset(tokens, tags)
    options = {"collate_fn": module.collate} if is_padded_by_user else {}
    findings = rule_findings(module.make(data, ignores, **options), "L215")
    assert len(findings) == (not ignores)
    assert all("# here" in (finding.where.source or "") for finding in findings)
    assert all("ignore_index=0" in finding.fix for finding in findings)
