# mistake: R905
# right: best_state = copy.deepcopy(model.state_dict())
# wrong: best_state = model.state_dict()
# debugger: model, train_dl, val_dl, loss_fn=loss_fn, optimizer=optimizer
# %%
import copy

import torch
from sklearn.datasets import make_moons
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(22)
# %%
x, y = make_moons(300, noise=0.35, random_state=1)
x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
train_dl = DataLoader(TensorDataset(x[:60], y[:60]), batch_size=15, shuffle=True)
val_dl = DataLoader(TensorDataset(x[60:], y[60:]), batch_size=120)
# %%
model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def validate():
    with torch.no_grad():
        return sum(loss_fn(model(xb), yb).item() for xb, yb in val_dl) / len(val_dl)


# %%
best, waited, best_state = float("inf"), 0, None
for epoch in range(60):
    for xb, yb in train_dl:
        optimizer.zero_grad()
        loss_fn(model(xb), yb).backward()
        optimizer.step()
    value = validate()
    if value < best:
        best, waited = value, 0
        best_state = copy.deepcopy(model.state_dict())
    else:
        waited += 1
        if waited == 30:
            break
model.load_state_dict(best_state)
# %%
score = -validate()
