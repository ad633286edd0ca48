# mistake: O511
# right: (loss / accumulate).backward()
# wrong: loss.backward()
# debugger: model, loader, val_loader, loss_fn=loss_fn, optimizer=optimizer
# %%
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(21)
accumulate = 8
# %%
x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y)
order = torch.randperm(len(x))
loader = DataLoader(TensorDataset(x[order[:1536]], y[order[:1536]]), batch_size=16, shuffle=True)
val_loader = DataLoader(TensorDataset(x[order[1536:]], y[order[1536:]]), batch_size=261)
# %%
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
# %%
for epoch in range(10):
    for i, (xb, yb) in enumerate(loader):
        loss = loss_fn(model(xb), yb)
        (loss / accumulate).backward()
        if (i + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
# %%
with torch.no_grad():
    score = torch.cat([model(xb).argmax(1) == yb for xb, yb in val_loader]).float().mean().item()
