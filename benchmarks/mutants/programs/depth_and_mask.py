"""Dense heads in a dictionary: which pixels belong to an object, and how far each pixel is; batches have other keys."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

g = torch.Generator().manual_seed(49)
rows, columns = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
center = 4 + 8 * torch.rand(480, 2, 1, 1, generator=g)
radius = 3 + 3 * torch.rand(480, 1, 1, generator=g)
inside = (rows - center[:, 0]) ** 2 + (columns - center[:, 1]) ** 2 < radius**2
distance = torch.where(inside, 1.5 - 0.2 * radius, 0.5 + rows / 16)
pictures = torch.stack([distance + 0.1 * torch.randn(480, 16, 16, generator=g), 1.0 * inside], dim=1)
pictures[:, 1] += 0.7 * torch.randn(480, 16, 16, generator=g)
pictures = (pictures - pictures.mean((0, 2, 3), keepdim=True)) / pictures.std((0, 2, 3), keepdim=True)


class Scenes(Dataset):
    def __init__(self, first, last):
        self.span = range(first, last)

    def __len__(self):
        return len(self.span)

    def __getitem__(self, k):
        row = self.span[k]
        return {"image": pictures[row], "segmentation": inside[row].long(), "meters": distance[row]}


class DenseHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(2, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()
        )
        self.mask, self.depth = nn.Conv2d(16, 2, 1), nn.Conv2d(16, 1, 1)

    def forward(self, x):
        h = self.trunk(x)
        return {"mask": self.mask(h), "depth": self.depth(h).squeeze(1)}


model = DenseHeads()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
train_loader = DataLoader(Scenes(0, 384), batch_size=24, shuffle=True)
val_loader = DataLoader(Scenes(384, 480), batch_size=48)


def loss_fn(output, target):
    depth = F.l1_loss(output["depth"], target["meters"])
    return F.cross_entropy(output["mask"], target["segmentation"]) + depth


def train():
    for epoch in range(4):
        model.train()
        for batch in train_loader:
            output = model(batch["image"])
            loss = loss_fn(output, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            print(epoch, sum(loss_fn(model(b["image"]), b).item() for b in val_loader) / len(val_loader))


def score(trained):
    with torch.no_grad():
        return sum(loss_fn(trained(batch["image"]), batch).item() for batch in val_loader)
