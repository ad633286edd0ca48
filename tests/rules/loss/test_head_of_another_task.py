"""L207 of few labels: a head of a thousand for three classes, unless many classes are still to come."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger


@pytest.mark.parametrize(
    ("labels", "outputs", "said"),
    [
        (torch.arange(90) % 3, 1000, True),
        (torch.arange(90) % 3, 3, False),
        (torch.arange(90) % 10, 100, False),
        (torch.arange(90), 1000, False),
        (torch.arange(30) % 3, 1000, False),
    ],
)
def test_classes_that_never_come(labels: Tensor, outputs: int, said: bool) -> None:
    loader = DataLoader(TensorDataset(torch.randn(len(labels), 4), labels), batch_size=10, shuffle=True)
    model = nn.Linear(4, outputs)
    debugger = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(model.parameters()))
    assert [one.code for one in debugger.checkup(select=["L207"])] == ["L207"] * said
