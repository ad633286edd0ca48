# ward: loss
# title: High and low water
# story: A harbor predicts the water level, as the difference from its mean, from wind and moon. An intern made sure that no layer returns absurd values.
# complaint: High water is predicted well. Low water never is, however long the network trains.
# codes: L209
# hint: Compare the smallest prediction with the smallest target.
# hint: dbg.checkup(select="L") compares the range of the targets with the range that the last layer can return.
# hint: The list of layers in build(): the last activation cannot return a negative number.
# right: layers += [nn.Linear(sizes[-2], sizes[-1])]
# wrong: layers += [nn.Linear(sizes[-2], sizes[-1]), nn.ReLU()]
# %%
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(13)
hour = rng.uniform(0, 700, 300)
wind = rng.normal(0, 1, (300, 2))
moon = np.stack([np.sin(hour * 0.506), np.cos(hour * 0.506), np.sin(hour * 0.0089)], axis=1)
level = 1.3 * moon[:, 0] + 0.4 * wind[:, 0] + 0.2 * moon[:, 2] * wind[:, 1] + rng.normal(0, 0.1, 300)
inputs = torch.tensor(np.hstack([moon, wind]), dtype=torch.float32)
levels = torch.tensor(level, dtype=torch.float32)[:, None]
train_loader = DataLoader(TensorDataset(inputs[:200], levels[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(inputs[200:], levels[200:]), batch_size=100)


# %%
def build(sizes):
    layers = []
    for before, after in zip(sizes[:-2], sizes[1:-1]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    layers += [nn.Linear(sizes[-2], sizes[-1])]
    return nn.Sequential(*layers)


torch.manual_seed(13)
model = build([5, 24, 16, 1])
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)


def train():
    for epoch in range(6):
        for features, target in train_loader:
            optimizer.zero_grad()
            loss_fn(model(features), target).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        error = ((model(inputs[200:]) - levels[200:]) ** 2).mean()
    return 1 - (error / levels[200:].var()).item()
