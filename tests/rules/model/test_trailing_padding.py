"""Tests of M310 and find_trailing_padding: padding that no mask or length declares."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from nbdebug.debugger import Debugger
from nbdebug.measurements.padding import find_trailing_padding


class MeanOfEmbeddings(nn.Module):
    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked, self.embed, self.head = masked, nn.Embedding(12, 8), nn.Linear(8, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        weights = (tokens != 0).float().unsqueeze(2) if self.masked else torch.ones(*tokens.shape, 1)
        scores: Tensor = self.head((self.embed(tokens) * weights).sum(1) / weights.sum(1))
        return scores


def collate(batch: list[Any]) -> tuple[Tensor, Tensor]:
    rows = pad_sequence([row for row, _ in batch], batch_first=True)
    return rows, torch.tensor([label for _, label in batch])


@pytest.mark.parametrize(("masked", "severities"), [(False, ["warning"]), (True, [])])
def test_padding_changes_output_of_mean_is_warning_unless_masked(masked: bool, severities: list[str]) -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(3, 20, (96,), generator=generator).tolist()
    data = [(torch.randint(1, 12, (n,), generator=generator), n % 2) for n in lengths]
    model = MeanOfEmbeddings(masked)
    loader: Any = DataLoader(data, batch_size=8, collate_fn=collate)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters())
    debugger = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    assert [finding.severity for finding in debugger.checkup(select=["M310"])] == severities


def test_find_trailing_padding_excludes_end_token_and_common_word() -> None:
    assert find_trailing_padding(torch.tensor([[1, 2, 9, 9], [3, 9, 9, 9], [4, 5, 6, 9]])) is not None
    assert find_trailing_padding(torch.tensor([[1, 2, 3, 9], [3, 1, 2, 9], [4, 5, 6, 9]])) is None
    assert find_trailing_padding(torch.tensor([[1, 9, 3, 9], [3, 9, 9, 9], [4, 5, 9, 9]])) is None
