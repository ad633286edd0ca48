# mistake: D116
# right: batch_size=32, shuffle=True)
# wrong: batch_size=32)
# debugger: mlp, moons_loader, val_loader, loss_fn=loss_fn, optimizer=optim
# %%
import numpy as np
import torch
from sklearn.datasets import make_moons
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)
# %%
points, kind = make_moons(600, noise=0.15, random_state=0)
held_out = np.arange(600) % 5 == 0
by_class = np.argsort(kind[~held_out], kind="stable")
x = torch.tensor(points[~held_out][by_class], dtype=torch.float32)
y = torch.tensor(kind[~held_out][by_class])
x_val, y_val = torch.tensor(points[held_out], dtype=torch.float32), torch.tensor(kind[held_out])
moons_loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(x_val, y_val), batch_size=120)
# %%
mlp = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
loss_fn = nn.CrossEntropyLoss()
optim = torch.optim.SGD(mlp.parameters(), lr=0.5)
# %%
for epoch in range(15):
    for xb, yb in moons_loader:
        optim.zero_grad()
        loss_fn(mlp(xb), yb).backward()
        optim.step()
# %%
with torch.no_grad():
    score = (mlp(x_val).argmax(1) == y_val).float().mean().item()
