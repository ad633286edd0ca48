# ward: speed
# title: The night run
# story: An agency assigns the answers of a survey to three groups. The model is small, and the run on all answers takes a night.
# complaint: The score is fine. The memory grows with every step, and a longer run is killed at night.
# codes: P804
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
features, groups = make_classification(300, 12, n_informative=8, n_classes=3, class_sep=2, random_state=7)
x, y = torch.tensor(features, dtype=torch.float32), torch.tensor(groups)
train_loader = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(x[200:], y[200:]), batch_size=100)
# %%
model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 3))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
history = []


def train():
    for epoch in range(5):
        for inputs, targets in train_loader:
            loss = loss_fn(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss.item())


def evaluate():
    with torch.no_grad():
        return (model(x[200:]).argmax(1) == y[200:]).float().mean().item()
