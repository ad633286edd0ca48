"""Pairs of sentences, given as counts of words, are embedded; the cosine loss takes both and a target of one or -1."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

g = torch.Generator().manual_seed(43)
topics = torch.rand(6, 40, generator=g) ** 4
first_topic = torch.randint(0, 6, (800,), generator=g)
is_same = torch.rand(800, generator=g) < 0.5
second_topic = torch.where(is_same, first_topic, (first_topic + torch.randint(1, 6, (800,), generator=g)) % 6)
first, second = (torch.poisson(3 * topics[topic], generator=g).sqrt() for topic in (first_topic, second_topic))
same = 2.0 * is_same - 1


class Sentences(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(40, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, first, second):
        return self.layers(first), self.layers(second)


model = Sentences()
criterion = nn.CosineEmbeddingLoss(margin=0.1)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
train_loader = DataLoader(TensorDataset(first[:640], second[:640], same[:640]), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(first[640:], second[640:], same[640:]), batch_size=80)


def pair_loss(output, target):
    return criterion(output[0], output[1], target)


def train():
    for epoch in range(8):
        for a, b, target in train_loader:
            left, right = model(a, b)
            loss = criterion(left, right, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            losses = [criterion(*model(a, b), target).item() for a, b, target in val_loader]
        print(epoch, sum(losses) / len(losses))


SETUP = {"model": model, "loss_fn": pair_loss, "optimizer": optimizer, "train": train}
SETUP |= {"train_loader": train_loader, "val_loader": val_loader}
