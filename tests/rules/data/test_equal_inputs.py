"""Tests of D107 and D112: inputs, or one of several inputs, that are the same in all training samples."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

GENERATOR = torch.Generator().manual_seed(0)
WORDS = torch.randint(0, 20, (200, 6), generator=GENERATOR)
OTHERS = torch.randint(0, 20, (200, 6), generator=GENERATOR)
NUMBERS = torch.randn(200, 6, generator=GENERATOR)
FIRST_OF_ALL = WORDS[:1].expand_as(WORDS)


class Sum(nn.Module):
    """Scores of a word at each position, from one or two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.numbers, self.head = nn.Embedding(20, 8), nn.Linear(1, 8), nn.Linear(8, 20)

    def forward(self, *inputs: Tensor) -> Tensor:
        parts = [self.numbers(x[..., None]) if x.is_floating_point() else self.words(x) for x in inputs]
        scores: Tensor = self.head(torch.stack(parts).sum(0))
        return scores


def setup_of(train: tuple[Tensor, ...], val: tuple[Tensor, ...]) -> Setup:
    loaders = [DataLoader(TensorDataset(*parts, OTHERS), 20, shuffle=True) for parts in (train, val)]
    loss = nn.CrossEntropyLoss()
    return Setup(Sum(), *loaders, loss_fn=lambda scores, target: loss(scores.transpose(1, 2), target))


INPUTS: dict[str, tuple[tuple[Tensor, ...], tuple[Tensor, ...], str]] = {
    "tokens": ((FIRST_OF_ALL,), (WORDS,), "D107"),
    "one of two inputs of tokens": ((FIRST_OF_ALL, WORDS), (OTHERS, WORDS), "D112"),
    "one of two inputs of numbers": ((WORDS, NUMBERS[:1].expand_as(NUMBERS)), (WORDS, NUMBERS), "D112"),
    "no equal inputs": ((WORDS, OTHERS), (OTHERS, WORDS), ""),
    "the same in both splits": ((FIRST_OF_ALL, WORDS), (FIRST_OF_ALL, WORDS), ""),
    "a mask of ones": ((torch.ones(200, 6), NUMBERS), ((WORDS > 3).float(), NUMBERS), ""),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_that_are_the_same_in_all_training_samples(name: str) -> None:
    train, val, code = INPUTS[name]
    findings = [finding for code in ("D107", "D112") for finding in rule_findings(setup_of(train, val), code)]
    assert [finding.code for finding in findings if finding.severity != "note"] == [code] * bool(code)
