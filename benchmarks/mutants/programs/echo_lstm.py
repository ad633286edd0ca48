"""An LSTM that adds the two marked numbers of a sequence."""

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, TensorDataset

torch_random = torch.Generator().manual_seed(11)
values = torch.rand(900, 8, generator=torch_random)
marks = torch.zeros(900, 8)
first = torch.randint(0, 4, (900, 1), generator=torch_random)
second = torch.randint(4, 8, (900, 1), generator=torch_random)
marks.scatter_(1, first, 1.0).scatter_(1, second, 1.0)
sums = (values * marks).sum(1, keepdim=True) - 1.0
sequences = torch.stack([values - 0.5, marks], dim=2)


class Adder(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.lstm = nn.LSTM(2, hidden, batch_first=True)
        self.readout = nn.Linear(hidden, 1)

    def forward(self, sequence):
        _, (hidden, _) = self.lstm(sequence)
        return self.readout(hidden[-1])


model = Adder()
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
train_loader = DataLoader(TensorDataset(sequences[:700], sums[:700]), batch_size=50, shuffle=True)
val_loader = DataLoader(TensorDataset(sequences[700:], sums[700:]), batch_size=200)


def train():
    epoch = 0
    while epoch < 10:
        running = 0.0
        for sequence, target in train_loader:
            prediction = model(sequence)
            loss = loss_fn(prediction, target)
            optimizer.zero_grad()
            loss.backward()
            clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            running += loss.item() * len(sequence)
        print("epoch", epoch, "mse", running / 700)
        epoch += 1
