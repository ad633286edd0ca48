# ward: speed
# title: Every pair of pictures
# story: A gallery lets visitors rate pictures. The loss compares each picture of a batch with every other one: the better one must get the higher score.
# complaint: The loss is correct, and a step takes so long that the gallery trains on a tenth of its pictures. (The score is 1 if the loss at most doubles the time of a pass.)
# codes: P802
# hint: Which part of a step is so slow: data, model, loss or optimizer?
# hint: dbg.profile() counts the operations of the loss in each step, and measures what a loss without cost would gain.
# hint: The body of loss_fn(): a loop over pairs can be one operation on a matrix of all differences.
# right: gaps = (scores[:, None] - scores[None, :])[ratings[:, None] > ratings[None, :]]
# wrong: gaps = torch.stack([scores[i] - scores[j] for i, j in torch.nonzero(ratings[:, None] > ratings[None, :])])
# %%
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

generator = torch.Generator().manual_seed(62)
pictures = torch.randn(280, 16, generator=generator)
stars = (pictures[:, :5].sum(1) + 0.5 * torch.randn(280, generator=generator)).round()
train_loader = DataLoader(TensorDataset(pictures[:192], stars[:192]), batch_size=64, shuffle=True)
val_loader = DataLoader(TensorDataset(pictures[192:], stars[192:]), batch_size=88)
# %%
torch.manual_seed(62)
model = nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1), nn.Flatten(0))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def loss_fn(scores, ratings):
    gaps = (scores[:, None] - scores[None, :])[ratings[:, None] > ratings[None, :]]
    return nn.functional.softplus(-gaps).mean()


def train():
    for epoch in range(1):
        for picture, rating in train_loader:
            optimizer.zero_grad()
            loss_fn(model(picture), rating).backward()
            optimizer.step()


def evaluate():
    """Return 1 if the loss at most doubles the time of both passes, otherwise a smaller number."""
    (picture, rating), seconds = next(iter(train_loader)), {}
    for name, loss in (("mean", lambda scores, _: scores.mean()), ("ranking", loss_fn)) * 8:
        started = time.process_time()
        loss(model(picture), rating).backward()
        seconds.setdefault(name, []).append(time.process_time() - started)
    return min(1.0, 2 * min(seconds["mean"]) / min(seconds["ranking"]))
