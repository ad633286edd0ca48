# mistake: R906
# right: model.load_state_dict(checkpoint["model"])
# wrong: model.load_state_dict({f"module.{k}": v for k, v in checkpoint["model"].items()}, strict=False)
# debugger: model, train_dl, val_dl, loss_fn=loss_fn, optimizer=optimizer
# %%
import io

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(24)
# %%
time = torch.arange(16) / 4
kind = torch.randint(0, 3, (800,))
phase = 6.28 * torch.rand(800, 1)
series = torch.sin((1 + kind[:, None]) * time + phase) + 0.1 * torch.randn(800, 16)
train_dl = DataLoader(TensorDataset(series[:600, None], kind[:600]), batch_size=30, shuffle=True)
val_dl = DataLoader(TensorDataset(series[600:, None], kind[600:]), batch_size=100)


# %%
def build():
    return nn.Sequential(
        nn.Conv1d(1, 16, 5), nn.ReLU(), nn.Conv1d(16, 16, 5), nn.ReLU(), nn.Flatten(), nn.Linear(128, 3)
    )


def train(model, optimizer, epochs):
    for _ in range(epochs):
        for xb, yb in train_dl:
            optimizer.zero_grad()
            loss_fn(model(xb), yb).backward()
            optimizer.step()


loss_fn = nn.CrossEntropyLoss()
model = build()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
train(model, optimizer, 6)
file = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
# %%
model = build()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
# %%
checkpoint = torch.load(io.BytesIO(file.getvalue()))
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
train(model, optimizer, 1)
# %%
with torch.no_grad():
    score = torch.cat([model(xb).argmax(1) == yb for xb, yb in val_dl]).float().mean().item()
