# mistake: M308
# right: nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
# wrong: nn.Linear(2, width), nn.Linear(width, width),
# debugger: net, train_dl, val_dl, loss_fn=loss_fn, optimizer=opt
# %%
import torch
from sklearn.datasets import make_circles
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(11)


# %%
def circles(n, seed):
    points, ring = make_circles(n, noise=0.08, factor=0.4, random_state=seed)
    return TensorDataset(torch.tensor(points, dtype=torch.float32), torch.tensor(ring))


def build(width):
    return nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))


def train(net, loader, opt, epochs):
    curve = []
    for _ in range(epochs):
        for xb, yb in loader:
            opt.zero_grad()
            loss = loss_fn(net(xb), yb)
            loss.backward()
            opt.step()
            curve.append(loss.item())
    return curve


# %%
train_dl, val_dl = DataLoader(circles(600, 0), 30, shuffle=True), DataLoader(circles(200, 1), 100)
net = build(24)
loss_fn = nn.CrossEntropyLoss()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
# %%
curve = train(net, train_dl, opt, 12)
# %%
with torch.no_grad():
    score = torch.cat([net(xb).argmax(1) == yb for xb, yb in val_dl]).float().mean().item()
