"""Crashes: recurrent and attention layers whose batch axis stands elsewhere."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "lstm_state_other_axis",
        "an LSTM without batch_first gets the batch first, and a state of the batch size",
        kind="batch_first",
        style="script",
        source="Stack Overflow, Expected hidden[0] size",
        program="""
import torch
import torch.nn as nn

torch.manual_seed(0)
input_size, hidden_size, num_layers = 5, 16, 2
lstm = nn.LSTM(input_size, hidden_size, num_layers)
fc = nn.Linear(hidden_size, 1)
optimizer = torch.optim.Adam(list(lstm.parameters()) + list(fc.parameters()), lr=0.005)

for step in range(4):
    x = torch.randn(8, 20, input_size)
    y = x.sum(dim=(1, 2)).unsqueeze(1)
    h0 = torch.zeros(num_layers, x.size(0), hidden_size)
    c0 = torch.zeros(num_layers, x.size(0), hidden_size)
    out, _ = lstm(x, (h0, c0))
    loss = nn.functional.mse_loss(fc(out[:, -1, :]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "nn.LSTM(input_size, hidden_size, num_layers)",
                "nn.LSTM(input_size, hidden_size, num_layers, batch_first=True)",
            ),
        ),
        line=("nn.LSTM(input_size, hidden_size, num_layers)", "out, _ = lstm(x, (h0, c0))"),
        says=("batch_first", "8", "20"),
    ),
    crash(
        "attention_padding_mask_batch_first",
        "attention without batch_first gets a padding mask of batch by length",
        kind="batch_first",
        style="hand_written_model",
        source="GitHub issue, key_padding_mask shape",
        program="""
import torch
from torch import nn


class Pooler(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Embedding(40, dim, padding_idx=0)
        self.attention = nn.MultiheadAttention(dim, num_heads=4)
        self.score = nn.Linear(dim, 2)

    def forward(self, tokens):
        padding = tokens == 0
        x = self.embed(tokens)
        mixed, _ = self.attention(x, x, x, key_padding_mask=padding)
        return self.score(mixed.mean(1))


torch.manual_seed(0)
tokens = torch.randint(1, 40, (9, 13))
tokens[:, 10:] = 0
labels = torch.randint(2, (9,))
model = Pooler()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(3):
    loss = nn.functional.cross_entropy(model(tokens), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("num_heads=4)", "num_heads=4, batch_first=True)"),),
        line=("num_heads=4)", "key_padding_mask=padding"),
        says=("batch_first", "attention"),
    ),
)
