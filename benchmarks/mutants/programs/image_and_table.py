"""A model with two inputs, an image and a table, that are concatenated."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images / 8 - 1, dtype=torch.float32), torch.tensor(labels)
parity = labels % 2
g = torch.Generator().manual_seed(1)
table = torch.stack(
    [labels / 4.5 - 1 + torch.randn(len(labels), generator=g), torch.randn(len(labels), generator=g)], 1
)
target = ((labels > 4).long() + parity) % 2


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
        self.table = nn.Sequential(nn.Linear(2, 16), nn.ReLU())
        self.head = nn.Linear(48, 2)

    def forward(self, image, table):
        return self.head(torch.cat([self.image(image), self.table(table)], dim=1))


model = TwoInputs()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
train_loader = DataLoader(TensorDataset(images[:1300], table[:1300], target[:1300]), batch_size=50, shuffle=True)
val_loader = DataLoader(TensorDataset(images[1300:], table[1300:], target[1300:]), batch_size=100)


def train():
    for _ in range(8):
        for image, row, y in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(image, row), y)
            loss.backward()
            optimizer.step()
        scheduler.step()
