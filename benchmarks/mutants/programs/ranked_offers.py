"""Two offers are scored by one network; the ranking loss takes both scores and which of the two is better."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

g = torch.Generator().manual_seed(53)
offers = torch.randn(900, 2, 8, generator=g)
worth = (offers * torch.randn(8, generator=g)).sum(2) + 0.8 * (offers[..., 0] * offers[..., 1])
better = torch.where(worth[:, 0] > worth[:, 1], 1.0, -1.0)

scorer = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
ranking = nn.MarginRankingLoss(margin=0.5)
optimizer = torch.optim.Adam(scorer.parameters(), lr=5e-3)
train_loader = DataLoader(TensorDataset(offers[:720], better[:720]), batch_size=36, shuffle=True)
val_loader = DataLoader(TensorDataset(offers[720:], better[720:]), batch_size=90)


def loss_fn(scores, target):
    return ranking(scores[:, 0, 0], scores[:, 1, 0], target)


def train():
    for epoch in range(6):
        for pair, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(scorer(pair), target)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            hits = [((scorer(p)[:, 0] > scorer(p)[:, 1]).squeeze(1) == (t > 0)).float().mean() for p, t in val_loader]
        print(epoch, float(sum(hits) / len(hits)))


SETUP = {"model": scorer, "loss_fn": loss_fn, "optimizer": optimizer, "train": train}
SETUP |= {"train_loader": train_loader, "val_loader": val_loader}
