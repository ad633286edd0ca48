# ward: dynamics
# title: Two moons
# story: Nora separates two interlocking moons of points, a task for which a tiny network is enough.
# complaint: The loss begins near 0.7, jumps into the hundreds, and never recovers.
# codes: O501
# hint: Look at the first ten values of the loss, not at the last ones.
# hint: dbg.lr_range() sweeps the learning rate, and says which rates this model stands.
# hint: The line that creates the optimizer: its learning rate is a thousand times too high.
# right: optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
# wrong: optimizer = torch.optim.SGD(model.parameters(), lr=50, momentum=0.9)
# %%
import torch
from sklearn.datasets import make_moons
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
points, moons = make_moons(280, noise=0.15, random_state=1)
x, y = torch.tensor(points, dtype=torch.float32), torch.tensor(moons)
train_loader = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(x[200:], y[200:]), batch_size=80)
# %%
model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)


def train():
    for epoch in range(5):
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss_fn(model(inputs), targets).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        return (model(x[200:]).argmax(1) == y[200:]).float().mean().item()
