"""A residual convolutional network that removes noise from images."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

g = torch.Generator().manual_seed(44)
grid = torch.linspace(0, 3.14, 12)
phase = 3 * torch.rand(500, 2, 1, 1, generator=g)
clean = torch.sin(grid.view(1, 12, 1) * 2 + phase[:, 0]) * torch.cos(grid.view(1, 1, 12) * 2 + phase[:, 1])
clean = clean.unsqueeze(1)
noisy = clean + 0.5 * torch.randn(clean.shape, generator=g)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 12, 3, padding=1)
        self.second = nn.Conv2d(12, 12, 3, padding=1)
        self.last = nn.Conv2d(12, 1, 3, padding=1)
        self.activation = nn.LeakyReLU(0.1)

    def forward(self, image):
        hidden = self.activation(self.first(image))
        hidden = hidden + self.activation(self.second(hidden))
        return image + self.last(hidden)


denoiser = Denoiser()
criterion = nn.L1Loss()
optimizer = torch.optim.Adam(denoiser.parameters(), lr=5e-3)
train_loader = DataLoader(TensorDataset(noisy[:400], clean[:400]), batch_size=20, shuffle=True)
val_loader = DataLoader(TensorDataset(noisy[400:], clean[400:]), batch_size=50)


def train():
    for epoch in range(5):
        for image, target in train_loader:
            optimizer.zero_grad()
            loss = criterion(denoiser(image), target)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            print(
                epoch, sum(criterion(denoiser(image), target).item() for image, target in val_loader) / len(val_loader)
            )


SETUP = {"model": denoiser, "loss_fn": criterion, "optimizer": optimizer}
SETUP |= {"train_loader": train_loader, "val_loader": val_loader, "train": train}
