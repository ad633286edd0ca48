"""Tests of L214 on tokens and classes that the loss ignores since their number also stands for padding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

END, ROWS, WIDTH = 9, 32, 8
GENERATOR = torch.Generator().manual_seed(0)
LENGTHS = torch.randint(3, WIDTH, (ROWS,), generator=GENERATOR)
POSITIONS = torch.arange(WIDTH)
WORDS = torch.randint(0, END, (ROWS, WIDTH), generator=GENERATOR)
TOKENS = torch.where(LENGTHS.unsqueeze(1) > POSITIONS, WORDS, END)
MASK = (LENGTHS.unsqueeze(1) >= POSITIONS).long()  # the first END of a row is real


class Sentences(Dataset[tuple[tuple[Tensor, Tensor], Tensor]]):
    """Tokens, their mask, and their labels."""

    def __init__(self, labels: Tensor) -> None:
        self.labels = labels

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
        return (TOKENS[index], MASK[index]), self.labels[index]


class Speaker(nn.Module):
    """Scores of the next token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(END + 1, 16), nn.Linear(16, END + 1)

    def forward(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        tokens, mask = batch
        return self.head(self.embed(tokens) * mask.unsqueeze(2))


def next_token_loss(scores: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(scores[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


LABELS: dict[str, tuple[Tensor, bool]] = {
    "ignored by token": (TOKENS.masked_fill(TOKENS == END, -100), True),
    "ignored by mask": (TOKENS.masked_fill(MASK == 0, -100), False),
    "nothing ignored": (TOKENS, False),
}


@pytest.mark.parametrize("name", LABELS)
def test_loss_ignores_samples_reports_end_tokens_that_are_padding(name: str) -> None:
    labels, is_unlearned = LABELS[name]
    model = Speaker()
    loader = DataLoader(Sentences(labels), batch_size=ROWS)
    setup = Setup(model, loader, loss_fn=next_token_loss, optimizers=(torch.optim.Adam(model.parameters()),))
    assert [finding.evidence["token"] for finding in rule_faults(setup, "L214")] == ([END] if is_unlearned else [])


class Tagger(nn.Module):
    """Scores of three classes at each position."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(END + 1, 16, padding_idx=END), nn.Linear(16, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.embed(tokens)).transpose(1, 2)


# Labels by token, the label of padding, and what the loss ignores. Class 0 is an ordinary class unless words have none.
TAGS: dict[str, tuple[Tensor, int, int, bool]] = {
    "padding has a class": (TOKENS % 3, 0, 0, True),
    "padding has a number of its own": (TOKENS % 3, -100, -100, False),
    "a class that only padding has": (1 + TOKENS % 2, 0, 0, False),
}


def without_blank(scores: Tensor, labels: Tensor) -> Tensor:
    chosen = scores.log_softmax(1).gather(1, labels[:, None])[:, 0]
    is_counted = labels.ne(0)  # marks
    return -(chosen * is_counted).sum() / is_counted.sum()


class WeightedLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.ones(3)
        self.weight[0] = 0.0  # zero

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.cross_entropy(scores, labels, weight=self.weight)


@pytest.mark.parametrize(("loss_fn", "marker"), [(without_blank, "# marks"), (WeightedLoss(), "# zero")])
def test_class_that_an_own_loss_ignores_is_reported_where_it_is_left_out(loss_fn: Any, marker: str) -> None:
    model, labels = Tagger(), torch.where(TOKENS == END, 0, TOKENS % 3)
    loader = DataLoader(TensorDataset(TOKENS, labels), batch_size=ROWS)
    (finding,) = rule_faults(Setup(model, loader, loss_fn=loss_fn), "L214")
    assert finding.evidence["class"] == 0
    assert (finding.where.source or "").endswith(marker)


@pytest.mark.parametrize("name", TAGS)
def test_loss_ignores_samples_reports_a_class_that_is_also_padding(name: str) -> None:
    tags, padding, ignored, is_unlearned = TAGS[name]
    model = Tagger()
    labels = torch.where(TOKENS == END, padding, tags)
    loader = DataLoader(TensorDataset(TOKENS, labels), batch_size=ROWS)
    optimizers = (torch.optim.Adam(model.parameters()),)
    setup = Setup(model, loader, loss_fn=nn.CrossEntropyLoss(ignore_index=ignored), optimizers=optimizers)
    findings = rule_faults(setup, "L214")
    assert [finding.evidence["class"] for finding in findings] == ([0] if is_unlearned else [])
    assert all("ignore_index=ignored" in (finding.where.source or "") for finding in findings)
