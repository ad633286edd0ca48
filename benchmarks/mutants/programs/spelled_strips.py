"""Strips of drawn letters are spelled without their places, by connectionist temporal classification."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

g = torch.Generator().manual_seed(47)
LETTERS, COLUMNS = 5, 18
shapes = torch.randn(LETTERS, 8, generator=g)
strips = 0.3 * torch.randn(600, COLUMNS, 8, generator=g)
words = torch.randint(1, LETTERS + 1, (600, 4), generator=g)
lengths = torch.randint(2, 5, (600,), generator=g)
words[torch.arange(4) >= lengths[:, None]] = 0
for k in range(600):
    for j in range(lengths[k]):
        strips[k, 1 + 4 * j : 4 + 4 * j] += shapes[words[k, j] - 1]


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 32, batch_first=True, bidirectional=True)
        self.letters = nn.Linear(64, LETTERS + 1)

    def forward(self, strip):
        return self.letters(self.rnn(strip)[0]).log_softmax(2)


model = Reader()
ctc = nn.CTCLoss(blank=0)
optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
train_loader = DataLoader(TensorDataset(strips[:480], words[:480], lengths[:480]), batch_size=24, shuffle=True)
val_loader = DataLoader(TensorDataset(strips[480:], words[480:], lengths[480:]), batch_size=60)


def loss_fn(log_probabilities, word, length):
    steps = torch.full_like(length, log_probabilities.shape[1])
    return ctc(log_probabilities.transpose(0, 1), word, steps, length)


def train():
    for epoch in range(8):
        for strip, word, length in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(strip), word, length)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            print(epoch, sum(loss_fn(model(a), b, c).item() for a, b, c in val_loader) / len(val_loader))
