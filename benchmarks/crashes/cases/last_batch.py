"""Crashes: last batches that are smaller."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "state_of_full_batch",
        "the state is made for the full batch, the last batch is smaller",
        kind="last_batch",
        style="script",
        source="Stack Overflow, Expected hidden size (1, 32, 16), got (1, 8, 16)",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
batch_size, hidden_size = 16, 12
data = TensorDataset(torch.randn(40, 9, 3), torch.randn(40, 1))
loader = DataLoader(data, batch_size=batch_size)
gru = nn.GRU(3, hidden_size, batch_first=True)
head = nn.Linear(hidden_size, 1)
optimizer = torch.optim.Adam([*gru.parameters(), *head.parameters()], lr=0.01)
for x, y in loader:
    h0 = torch.zeros(1, batch_size, hidden_size)
    _, last = gru(x, h0)
    loss = nn.functional.mse_loss(head(last[0]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.zeros(1, batch_size, hidden_size)", "torch.zeros(1, x.shape[0], hidden_size)"),),
        line=(
            "torch.zeros(1, batch_size, hidden_size)",
            "loader = DataLoader(data, batch_size=batch_size)",
            "_, last = gru(x, h0)",
        ),
        says=("16", "8", "batch"),
    ),
    crash(
        "contrastive_labels_fixed",
        "the labels of a contrastive loss are made for the full batch",
        kind="last_batch",
        style="hand_written_model",
        source="GitHub issue, CLIP loss and the last batch",
        program="""
import torch
from torch import nn
from torch.nn.functional import cross_entropy, normalize
from torch.utils.data import DataLoader, TensorDataset


class TwoTowers(nn.Module):
    def __init__(self, batch_size):
        super().__init__()
        self.left, self.right = nn.Linear(9, 5), nn.Linear(4, 5)
        self.register_buffer("pairs", torch.arange(batch_size))

    def forward(self, a, b):
        scores = normalize(self.left(a), dim=1) @ normalize(self.right(b), dim=1).T
        return cross_entropy(scores / 0.1, self.pairs) + cross_entropy(scores.T / 0.1, self.pairs)


torch.manual_seed(0)
BATCH = 12
data = TensorDataset(torch.randn(40, 9), torch.randn(40, 4))
model = TwoTowers(BATCH)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for a, b in DataLoader(data, batch_size=BATCH, shuffle=True):
    loss = model(a, b)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "return cross_entropy(scores / 0.1, self.pairs) + cross_entropy(scores.T / 0.1, self.pairs)",
                "n = self.pairs[: len(a)]\n"
                "        return cross_entropy(scores / 0.1, n) + cross_entropy(scores.T / 0.1, n)",
            ),
        ),
        line=(
            "return cross_entropy(scores / 0.1, self.pairs)",
            "DataLoader(data, batch_size=BATCH, shuffle=True)",
            'self.register_buffer("pairs"',
        ),
        says=(
            "12",
            "4",
            "pairs|last batch|drop_last|smaller",
        ),
    ),
)
