"""A siamese network that learns distances between pairs of digits by a contrastive loss."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

images, digits = load_digits(return_X_y=True)
images, digits = torch.tensor(images / 8 - 1, dtype=torch.float32), torch.tensor(digits)
g = torch.Generator().manual_seed(0)
left = torch.randperm(len(digits), generator=g)[:1600]
classes = [torch.nonzero(digits == digit).flatten() for digit in range(10)]
right = torch.tensor(
    [
        classes[digits[i]][torch.randint(0, 150, (1,), generator=g)].item() if k % 2 else (i + 7 * k) % len(digits)
        for k, i in enumerate(left.tolist())
    ]
)
same = (digits[left] == digits[right]).float()


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16))

    def forward(self, a, b):
        return (self.tower(a) - self.tower(b)).pow(2).sum(1)


def contrastive(distance, same, margin=2.0):
    apart = torch.clamp(margin - torch.sqrt(distance + 1e-6), min=0).pow(2)
    return (same * distance + (1 - same) * apart).mean()


model = Siamese()
loss_fn = contrastive
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
pairs = TensorDataset(images[left], images[right], same)
train_loader = DataLoader(torch.utils.data.Subset(pairs, range(1300)), batch_size=50, shuffle=True)
val_loader = DataLoader(torch.utils.data.Subset(pairs, range(1300, 1600)), batch_size=100)


def train():
    for epoch in range(10):
        for a, b, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(a, b), target)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            print(epoch, sum(loss_fn(model(a, b), target).item() for a, b, target in val_loader) / len(val_loader))
