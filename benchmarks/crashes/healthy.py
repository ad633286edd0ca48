"""Cells that raise for reasons that are not torch's: an explainer of torch's errors has nothing to say about them."""

from __future__ import annotations

from benchmarks.crashes.case import OtherError

HEALTHY: tuple[OtherError, ...] = (
    OtherError(
        "pandas_missing_column",
        "a column that the table does not have",
        """
import pandas as pd
import torch

table = pd.DataFrame({"age": [31, 47, 25], "income": [2.1, 3.3, 1.8]})
features = torch.tensor(table[["age", "income"]].to_numpy(), dtype=torch.float32)
targets = torch.tensor(table["label"].to_numpy())
""",
        "KeyError",
    ),
    OtherError(
        "own_assert_between_steps",
        "an assertion of the user's inside the training loop",
        """
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    assert step < 2, "enough steps"
""",
        "AssertionError",
    ),
)
