"""Crashes: images given to layers of sequences and the other way round."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "digits_into_lstm",
        "images with a channel axis go into an LSTM that reads rows",
        kind="layout",
        style="script",
        source="Stack Overflow, LSTM: Expected 2D or 3D, got 4D",
        program="""
import torch
from torch import nn

torch.manual_seed(0)


class RowReader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(input_size=28, hidden_size=32, batch_first=True)
        self.out = nn.Linear(32, 10)

    def forward(self, x):
        r_out, (h_n, h_c) = self.rnn(x)
        return self.out(r_out[:, -1, :])


rnn = RowReader()
optimizer = torch.optim.Adam(rnn.parameters(), lr=0.01)
for step in range(3):
    b_x = torch.rand(12, 1, 28, 28)
    b_y = torch.randint(10, (12,))
    output = rnn(b_x)
    loss = nn.functional.cross_entropy(output, b_y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("output = rnn(b_x)", "output = rnn(b_x.squeeze(1))"),),
        line=("output = rnn(b_x)", "self.rnn(x)", "b_x = torch.rand(12, 1, 28, 28)"),
        says=("rnn", "4", "squeeze|view|reshape"),
    ),
    crash(
        "patches_channels_first",
        "the patches of an image stay maps where tokens are needed",
        kind="layout",
        style="hand_written_model",
        source="GitHub issue, vision transformer from scratch",
        program="""
import torch
from torch import nn


class PatchTransformer(nn.Module):
    def __init__(self, dim=32, patch=4, n_classes=6):
        super().__init__()
        self.patchify = nn.Conv2d(3, dim, patch, stride=patch)
        self.norm = nn.LayerNorm(dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(dim, n_classes)

    def forward(self, images):
        tokens = self.patchify(images).flatten(2)
        tokens = self.encoder(self.norm(tokens))
        return self.head(tokens.mean(1))


torch.manual_seed(0)
model = PatchTransformer()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(3):
    images, labels = torch.randn(5, 3, 16, 16), torch.randint(6, (5,))
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("flatten(2)", "flatten(2).transpose(1, 2)"),),
        line=("flatten(2)", "self.encoder(self.norm(tokens))"),
        says=("norm", "32", "16", "transpose|permute|swap|last"),
    ),
)
