"""Missing values of a series are filled in; the loss counts the hidden positions only."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

g = torch.Generator().manual_seed(33)
time = torch.arange(16.0)
series = torch.sin(0.3 * time + 6.28 * torch.rand(700, 1, generator=g)) * (0.5 + torch.rand(700, 1, generator=g))
mask = (torch.rand(700, 16, generator=g) < 0.25).float()
shown = series * (1 - mask)


class Filler(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, shown, mask):
        return self.layers(torch.cat([shown, mask], dim=1)), mask


def hidden_loss(output, target):
    prediction, mask = output
    return ((prediction - target).square() * mask).sum() / mask.sum()


model = Filler()
loss_fn = hidden_loss
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
train_loader = DataLoader(TensorDataset(shown[:560], mask[:560], series[:560]), batch_size=28, shuffle=True)
val_loader = DataLoader(TensorDataset(shown[560:], mask[560:], series[560:]), batch_size=70)


def train():
    for epoch in range(8):
        for values, hidden, target in train_loader:
            optimizer.zero_grad()
            loss = hidden_loss(model(values, hidden), target)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            errors = [hidden_loss(model(values, hidden), target).item() for values, hidden, target in val_loader]
        print(epoch, sum(errors) / len(errors))
