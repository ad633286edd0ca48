# ward: speed
# title: The swelling
# complaint: The score is fine. The memory grows with every step, and a longer run is killed at night.
# codes: P804
# reach: 0.85
# hint: What lives longer than one step, and what does it hold on to?
# hint: with dbg.watch(): train() counts the autograd graphs that are kept alive.
# hint: The line in train() that adds to history: a loss tensor keeps its whole graph.
# right: history.append(loss.item())
# wrong: history.append(loss)
# %%
import torch
from sklearn.datasets import make_classification
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)
features, groups = make_classification(1000, 12, n_informative=8, n_classes=3, class_sep=1.5, random_state=7)
x, y = torch.tensor(features, dtype=torch.float32), torch.tensor(groups)
train_loader = DataLoader(TensorDataset(x[:800], y[:800]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(x[800:], y[800:]), batch_size=200)
# %%
model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 3))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
history = []


def train():
    for epoch in range(12):
        for inputs, targets in train_loader:
            loss = loss_fn(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss.item())


def evaluate():
    with torch.no_grad():
        return (model(x[800:]).argmax(1) == y[800:]).float().mean().item()
