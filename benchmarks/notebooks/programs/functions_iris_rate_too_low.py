# mistake: O502 G409 T614
# right: lr=0.02
# wrong: lr=2e-6
# debugger: model, train_loader, val_loader, loss_fn=loss_fn, optimizer=optimizer
# %%
import torch
from sklearn.datasets import load_iris
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(10)


# %%
def make_loaders(batch_size=15):
    x, y = load_iris(return_X_y=True)
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    order = torch.randperm(150)
    train, val = order[:120], order[120:]
    mean, std = x[train].mean(0), x[train].std(0)
    x = (x - mean) / std
    return (
        DataLoader(TensorDataset(x[train], y[train]), batch_size=batch_size, shuffle=True),
        DataLoader(TensorDataset(x[val], y[val]), batch_size=30),
    )


def make_model():
    return nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 3))


def fit(model, loader, optimizer, epochs):
    for _ in range(epochs):
        model.train()
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(xb), yb)
            loss.backward()
            optimizer.step()


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        return torch.cat([model(xb).argmax(1) == yb for xb, yb in loader]).float().mean().item()


# %%
train_loader, val_loader = make_loaders()
model, loss_fn = make_model(), nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
# %%
fit(model, train_loader, optimizer, epochs=25)
# %%
score = accuracy(model, val_loader)
