"""Embeddings of digits by a triplet loss."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Triplets(Dataset):
    def __init__(self, images, labels):
        self.images, self.labels = images, labels
        self.by_class = [torch.nonzero(labels == c).flatten() for c in range(10)]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        label = int(self.labels[index])
        other = (label + int(torch.randint(1, 10, ()))) % 10
        positive = self.by_class[label][torch.randint(len(self.by_class[label]), ())]
        negative = self.by_class[other][torch.randint(len(self.by_class[other]), ())]
        return self.images[index], self.images[positive], self.images[negative]


images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images / 8 - 1, dtype=torch.float32), torch.tensor(labels)
train_loader = DataLoader(Triplets(images[:900], labels[:900]), batch_size=60, shuffle=True)
val_loader = DataLoader(Triplets(images[900:1200], labels[900:1200]), batch_size=100)


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16))

    def forward(self, anchor, positive, negative):
        return tuple(F.normalize(self.layers(x), dim=1) for x in (anchor, positive, negative))


def triplet_loss(output, margin=0.5):
    anchor, positive, negative = output
    return F.relu((anchor - positive).pow(2).sum(1) - (anchor - negative).pow(2).sum(1) + margin).mean()


model = Embedder()
loss_fn = triplet_loss
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)


def train():
    for epoch in range(6):
        total = 0.0
        for anchor, positive, negative in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(anchor, positive, negative))
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(epoch, total / len(train_loader))


def score(trained):
    torch.manual_seed(0)
    return sum(float(triplet_loss(trained(*batch))) for batch in val_loader)
