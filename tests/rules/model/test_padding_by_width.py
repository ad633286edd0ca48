"""Padding that nothing tells: read off the ends of rows, and answers that depend on how much of it there is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from nbdebug.debugger import Debugger
from nbdebug.measurements.padding import find_trailing_padding


class Bag(nn.Module):
    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked, self.embed, self.head = masked, nn.Embedding(12, 8), nn.Linear(8, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        real = (tokens != 0).float().unsqueeze(2) if self.masked else torch.ones(*tokens.shape, 1)
        scores: Tensor = self.head((self.embed(tokens) * real).sum(1) / real.sum(1))
        return scores


def collate(batch: list[Any]) -> tuple[Tensor, Tensor]:
    rows = pad_sequence([row for row, _ in batch], batch_first=True)
    return rows, torch.tensor([label for _, label in batch])


@pytest.mark.parametrize(("masked", "said"), [(False, ["warning"]), (True, [])])
def test_a_mean_over_padding(masked: bool, said: list[str]) -> None:
    drawn = torch.Generator().manual_seed(0)
    lengths = torch.randint(3, 20, (96,), generator=drawn).tolist()
    data = [(torch.randint(1, 12, (n,), generator=drawn), n % 2) for n in lengths]
    model = Bag(masked)
    loader: Any = DataLoader(data, batch_size=8, collate_fn=collate)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters())
    debugger = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    assert [one.severity for one in debugger.checkup(select=["M310"])] == said


def test_an_end_token_or_a_common_word_is_no_padding() -> None:
    assert find_trailing_padding(torch.tensor([[1, 2, 9, 9], [3, 9, 9, 9], [4, 5, 6, 9]])) is not None
    assert find_trailing_padding(torch.tensor([[1, 2, 3, 9], [3, 1, 2, 9], [4, 5, 6, 9]])) is None
    assert find_trailing_padding(torch.tensor([[1, 9, 3, 9], [3, 9, 9, 9], [4, 5, 9, 9]])) is None
