"""A forecast of the next values of seasonal series, from a window of the past."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

g = torch.Generator().manual_seed(12)
time = torch.arange(1400.0)
series = torch.sin(time / 4) + 0.5 * torch.sin(time / 11 + 1) + 0.15 * torch.randn(1400, generator=g)
mean, std = series[:1000].mean(), series[:1000].std()
series = (series - mean) / std


class Windows(Dataset):
    def __init__(self, values, past=24, future=3):
        self.values, self.past, self.future = values, past, future

    def __len__(self):
        return len(self.values) - self.past - self.future

    def __getitem__(self, start):
        middle = start + self.past
        return self.values[start:middle], self.values[middle : middle + self.future]


train_loader = DataLoader(Windows(series[:1000]), batch_size=64, shuffle=True)
val_loader = DataLoader(Windows(series[1000:]), batch_size=128)
forecaster = nn.Sequential(nn.Linear(24, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3))
optimizer = torch.optim.NAdam(forecaster.parameters(), lr=4e-3)
loss_fn = nn.SmoothL1Loss()


def train():
    for epoch in range(6):
        for past, future in train_loader:
            optimizer.zero_grad()
            loss_fn(forecaster(past), future).backward()
            optimizer.step()
        with torch.no_grad():
            errors = [(forecaster(past) - future).abs().mean(1) for past, future in val_loader]
        print(f"epoch {epoch}: mean absolute error {torch.cat(errors).mean():.3f}")


SETUP = {"model": forecaster, "loss_fn": loss_fn, "optimizer": optimizer}
SETUP |= {"train_loader": train_loader, "val_loader": val_loader, "train": train}
