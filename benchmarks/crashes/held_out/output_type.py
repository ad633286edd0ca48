"""Crashes: modules that return something else than a tensor."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "gru_output_unpacked",
        "a GRU gives one state, and the code unpacks two as from an LSTM",
        kind="output_type",
        style="lightning_like",
        source="Stack Overflow, replacing LSTM by GRU",
        program="""
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 12, num_layers=3, batch_first=True)
        self.head = nn.Linear(12, 4)

    def forward(self, x):
        output, (hidden, cell) = self.rnn(x)
        return self.head(hidden[-1])

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


torch.manual_seed(0)
module = Classifier()
optimizer = module.configure_optimizers()
for i in range(3):
    loss = module.training_step((torch.randn(6, 9, 3), torch.randint(4, (6,))), i)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("output, (hidden, cell) = self.rnn(x)", "output, hidden = self.rnn(x)"),),
        says=("gru|rnn", "cell|one|tuple|3"),
    ),
    crash(
        "packed_sequence_output",
        "the output of a packed sequence goes into a linear layer",
        kind="output_type",
        style="custom_parts",
        source="discuss.pytorch.org, linear(): argument 'input' must be Tensor, not PackedSequence",
        program="""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence
from torch.utils.data import DataLoader


def collate(samples):
    series, targets = zip(*samples)
    return pack_sequence(list(series), enforce_sorted=False), torch.stack(targets)


class SeriesMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(2, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, packed):
        states, _ = self.rnn(packed)
        return self.head(states).mean(dim=0)


torch.manual_seed(0)
series = [torch.randn(3 + i % 5, 2) for i in range(20)]
data = [(s, s.mean(0)) for s in series]
model = SeriesMean()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for packed, targets in DataLoader(data, batch_size=5, collate_fn=collate):
    loss = nn.functional.mse_loss(model(packed), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("self.head(states)", "self.head(pad_packed_sequence(states)[0])"),),
        line=("self.head(states)", "states, _ = self.rnn(packed)"),
        says=("packed", "pad_packed_sequence|.data"),
    ),
)
