"""A recurrent network with default layout that predicts the next character of a rhythm."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

g = torch.Generator().manual_seed(19)
pattern = torch.tensor([0, 3, 1, 4, 2, 0, 1, 5])
start = torch.randint(0, 8, (600, 1), generator=g)
text = pattern[(start + torch.arange(13)) % 8]
text = torch.where(torch.rand(600, 13, generator=g) < 0.05, torch.randint(0, 6, (600, 13), generator=g), text)


class CharacterModel(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Embedding(6, width)
        self.rnn = nn.LSTM(width, width)
        self.decode = nn.Linear(width, 6)

    def forward(self, characters):
        embedded = self.embed(characters).transpose(0, 1)
        states, _ = self.rnn(embedded)
        return self.decode(states).permute(1, 2, 0)


model = CharacterModel()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
train_loader = DataLoader(TensorDataset(text[:480, :-1], text[:480, 1:]), batch_size=24, shuffle=True)
val_loader = DataLoader(TensorDataset(text[480:, :-1], text[480:, 1:]), batch_size=60)
curve = []


def train():
    for _ in range(6):
        running = 0.0
        for source, target in train_loader:
            loss = loss_fn(model(source), target)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            optimizer.step()
            running += loss.item()
        curve.append(running / len(train_loader))
