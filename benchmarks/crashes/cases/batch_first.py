"""Crashes: recurrent and attention layers whose batch axis stands elsewhere."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "packed_lengths_batch_first",
        "padded sequences are packed along the wrong axis",
        kind="batch_first",
        style="custom_parts",
        source="discuss.pytorch.org, pack_padded_sequence lengths",
        program="""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader


class Pad:
    def __call__(self, samples):
        samples = sorted(samples, key=lambda sample: -len(sample[0]))
        series, labels = zip(*samples)
        lengths = torch.tensor([len(s) for s in series])
        return pad_sequence(list(series), batch_first=True), lengths, torch.tensor(labels)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, 10, batch_first=True)
        self.head = nn.Linear(10, 3)

    def forward(self, series, lengths):
        packed = pack_padded_sequence(series, lengths)
        _, last = self.gru(packed)
        return self.head(last[-1])


torch.manual_seed(0)
data = [(torch.randn(int(n), 4), i % 3) for i, n in enumerate(torch.randint(11, 20, (24,)))]
model = Encoder()
optimizer = torch.optim.Adam(model.parameters())
for series, lengths, labels in DataLoader(data, batch_size=6, collate_fn=Pad()):
    loss = nn.functional.cross_entropy(model(series, lengths), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("pack_padded_sequence(series, lengths)", "pack_padded_sequence(series, lengths, batch_first=True)"),),
        says=("batch_first", "length"),
    ),
    crash(
        "transformer_source_target_axes",
        "source and target of a transformer have their batch axis first, the layer has it second",
        kind="batch_first",
        style="lightning_like",
        source="Stack Overflow, the batch number of src and tgt must be equal",
        program="""
import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, vocab=50, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.transformer = nn.Transformer(
            d_model=dim, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=32, dropout=0.0
        )
        self.head = nn.Linear(dim, vocab)

    def forward(self, source, target):
        return self.head(self.transformer(self.embed(source), self.embed(target)))

    def training_step(self, batch, batch_idx):
        source, target = batch
        logits = self(source, target[:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


torch.manual_seed(0)
module = Translator()
optimizer = module.configure_optimizers()
for i in range(3):
    batch = torch.randint(50, (4, 12)), torch.randint(50, (4, 9))
    loss = module.training_step(batch, i)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("dropout=0.0\n", "dropout=0.0, batch_first=True\n"),),
        line=("self.transformer = nn.Transformer(", "dropout=0.0", "self.transformer(self.embed(source)"),
        says=("batch_first", "transformer"),
    ),
    crash(
        "decoder_state_axes",
        "the state of a decoder has the batch first, which batch_first does not change",
        kind="batch_first",
        style="trainer",
        source="discuss.pytorch.org, batch_first does not apply to the hidden state",
        program="""
import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self, n_in=4, hidden=10):
        super().__init__()
        self.start = nn.Linear(n_in, hidden)
        self.gru = nn.GRU(n_in, hidden, batch_first=True)
        self.head = nn.Linear(hidden, n_in)

    def forward(self, series):
        state = torch.tanh(self.start(series[:, 0])).unsqueeze(1)
        states, _ = self.gru(series, state)
        return self.head(states)


class Trainer:
    def __init__(self):
        self.model = Forecaster()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

    def step(self, series):
        loss = nn.functional.mse_loss(self.model(series[:, :-1]), series[:, 1:])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
trainer = Trainer()
for _ in range(3):
    trainer.step(torch.randn(6, 15, 4))
""",
        repair=((".unsqueeze(1)", ".unsqueeze(0)"),),
        line=(".unsqueeze(1)", "states, _ = self.gru(series, state)"),
        says=("state|hidden", "6", "unsqueeze|transpose|first axis|layers|batch_first|batch"),
    ),
    crash(
        "cell_unroll_axes",
        "a recurrent layer without batch_first gets sequences with the batch first, by functional helpers",
        kind="batch_first",
        style="functional",
        source="Stack Overflow, Expected hidden size (1, 12, 8), got [1, 5, 8]",
        program="""
import torch
from torch import nn


def make():
    return nn.RNN(3, 8), nn.Linear(8, 2)


def initial(batch):
    return torch.zeros(1, batch, 8)


def classify(rnn, head, x):
    _, last = rnn(x, initial(x.shape[0]))
    return head(last[0])


def train(rnn, head, steps):
    optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
    for _ in range(steps):
        x, y = torch.randn(5, 12, 3), torch.randint(2, (5,))
        loss = nn.functional.cross_entropy(classify(rnn, head, x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
train(*make(), steps=3)
""",
        repair=(("nn.RNN(3, 8)", "nn.RNN(3, 8, batch_first=True)"),),
        line=("nn.RNN(3, 8)", "_, last = rnn(x, initial(x.shape[0]))"),
        says=("batch_first|transpose", "5", "12"),
    ),
)
