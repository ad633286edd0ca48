# ward: loop
# title: Bikes for tomorrow
# story: A city predicts how many rental bikes people will take, from the season, the hour and the weather. The loop was written for another project and adapted at night.
# complaint: The loss has not moved since the first step, to the last digit of its mean over an epoch.
# codes: O506
# hint: Three calls make a step. Write down their order in this loop.
# hint: with dbg.watch(): train() counts backward passes and steps, and what happens between them.
# hint: The line after loss.backward(): the gradients are cleared before optimizer.step() can use them.
# right: optimizer.zero_grad()\n            loss.backward()\n            optimizer.step()
# wrong: loss.backward()\n            optimizer.zero_grad()\n            optimizer.step()
# %%
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(19)
hour, warmth, rain = rng.integers(0, 24, 300), rng.normal(0, 1, 300), rng.random(300) < 0.3
rides = 3 * np.exp(-((hour - 8) ** 2) / 8) + 3 * np.exp(-((hour - 17) ** 2) / 8) + warmth - 1.5 * rain
rides = (rides - rides.mean()) / rides.std() + rng.normal(0, 0.1, 300)
angle = 2 * np.pi * hour / 24
columns = np.column_stack([np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle), warmth, rain])
X, Y = torch.as_tensor(columns, dtype=torch.float32), torch.as_tensor(rides, dtype=torch.float32)
train_loader = DataLoader(TensorDataset(X[:200], Y[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(X[200:], Y[200:]), batch_size=100)


# %%
class BikeNet(nn.Module):
    def __init__(self, hidden=20):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, hidden), nn.ReLU(), nn.Linear(hidden, 1), nn.Flatten(0))

    def forward(self, x):
        return self.net(x)


torch.manual_seed(19)
model = BikeNet()
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
curve = []


def train():
    for epoch in range(6):
        total = 0.0
        for x, y in train_loader:
            loss = loss_fn(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
        curve.append(total / 200)


def evaluate():
    with torch.no_grad():
        return (1 - loss_fn(model(X[200:]), Y[200:]) / Y[200:].var()).item()
