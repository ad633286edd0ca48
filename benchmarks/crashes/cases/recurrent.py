"""Crashes: recurrent layers, their states, their outputs and packed sequences."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "initial_state_of_time_first",
        "the initial state is made from the first axis, and the sequences do not have the batch there",
        kind="recurrent",
        style="hand_written_model",
        source="Stack Overflow, Expected hidden[0] size (2, 12, 16), got [2, 7, 16]",
        program="""
import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self, n_features=3, hidden=16, layers=2):
        super().__init__()
        self.hidden, self.layers = hidden, layers
        self.lstm = nn.LSTM(n_features, hidden, layers)
        self.out = nn.Linear(hidden, 1)

    def init_state(self, x):
        shape = (self.layers, x.size(0), self.hidden)
        return torch.zeros(shape), torch.zeros(shape)

    def forward(self, x):
        # x: (time, batch, features)
        states, _ = self.lstm(x, self.init_state(x))
        return self.out(states[-1])


torch.manual_seed(0)
model = Forecaster()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    x = torch.randn(7, 12, 3)
    loss = nn.functional.mse_loss(model(x), x.mean(dim=(0, 2)).unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("shape = (self.layers, x.size(0), self.hidden)", "shape = (self.layers, x.size(1), self.hidden)"),),
        line=("shape = (self.layers, x.size(0), self.hidden)",),
        says=("7", "12", "batch", "size(1)|shape[1]|batch_first|second axis|axis 1|dim 1|dimension 1"),
    ),
    crash(
        "packed_in_wrong_order",
        "the collate function sorts its samples from short to long",
        kind="recurrent",
        style="custom_parts",
        source="Stack Overflow, lengths array has to be sorted in decreasing order",
        program="""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader


def collate(samples):
    samples = sorted(samples, key=lambda sample: len(sample[0]))
    words, labels = zip(*samples)
    lengths = torch.tensor([len(w) for w in words])
    return pad_sequence(words, batch_first=True), lengths, torch.tensor(labels)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 8, padding_idx=0)
        self.rnn = nn.GRU(8, 10, batch_first=True)
        self.head = nn.Linear(10, 2)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.embed(words), lengths, batch_first=True)
        _, state = self.rnn(packed)
        return self.head(state[-1])


torch.manual_seed(0)
samples = [(torch.randint(1, 30, (n,)), n % 2) for n in (3, 9, 4, 7, 5, 6, 8, 2)]
model = Reader()
optimizer = torch.optim.Adam(model.parameters())
for words, lengths, labels in DataLoader(samples, batch_size=4, collate_fn=collate):
    loss = nn.functional.cross_entropy(model(words, lengths), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("key=lambda sample: len(sample[0]))", "key=lambda sample: len(sample[0]), reverse=True)"),),
        line=("samples = sorted(samples, key=lambda sample: len(sample[0]))", "packed = pack_padded_sequence("),
        says=("enforce_sorted=false|reverse=true|descending", "lengths", "3|ascending|increasing|short"),
    ),
    crash(
        "rnn_inside_sequential",
        "a GRU stands in a Sequential, and the next layer receives its pair",
        kind="recurrent",
        style="script",
        source="discuss.pytorch.org, linear(): argument 'input' must be Tensor, not tuple",
        program="""
import torch
from torch import nn


class Last(nn.Module):
    def forward(self, states):
        return states[:, -1]


class States(nn.Module):
    def forward(self, output):
        return output[0]


torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(4, 8),
    nn.GRU(8, 8, batch_first=True),
    nn.Tanh(),
    Last(),
    nn.Linear(8, 2),
)
optimizer = torch.optim.RMSprop(model.parameters())
for _ in range(3):
    x, y = torch.randn(6, 5, 4), torch.randint(2, (6,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("nn.GRU(8, 8, batch_first=True),", "nn.GRU(8, 8, batch_first=True), States(),"),),
        line=("nn.GRU(8, 8, batch_first=True),", "nn.Tanh(),"),
        says=("gru", "tuple|pair", "output[0]|first|hidden|state|[0]"),
    ),
    crash(
        "cell_state_is_pair",
        "the pair of an LSTMCell is taken for its hidden state",
        kind="recurrent",
        style="functional",
        source="Stack Overflow, LSTMCell hidden state tuple in a loop",
        program="""
import torch
from torch import nn


def unroll(cell, head, x):
    state = (torch.zeros(x.size(0), cell.hidden_size), torch.zeros(x.size(0), cell.hidden_size))
    outputs = []
    for step in x.unbind(1):
        state = cell(step, state)
        outputs.append(head(state))
    return torch.stack(outputs, dim=1)


def train(cell, head, steps=3):
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
    for _ in range(steps):
        x = torch.randn(5, 9, 2)
        loss = nn.functional.mse_loss(unroll(cell, head, x[:, :-1]), x[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
train(nn.LSTMCell(2, 10), nn.Linear(10, 2))
""",
        repair=(("outputs.append(head(state))", "outputs.append(head(state[0]))"),),
        line=("outputs.append(head(state))", "state = cell(step, state)"),
        says=("lstmcell", "state[0]|first|hidden|[0]"),
    ),
)
