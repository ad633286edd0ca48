# mistake: O504
# right: optimizer = torch.optim.Adam(model.parameters(), lr=0.01)\nmodel.load
# wrong: optimizer = torch.optim.Adam(model.parameters(), lr=0.01)\nmodel = build()\nmodel.load
# debugger: model, train_dl, val_dl, loss_fn=criterion, optimizer=optimizer
# %%
import torch
from sklearn.datasets import load_wine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

torch.manual_seed(15)
# %%
wine = load_wine()
x = torch.tensor(wine.data, dtype=torch.float32)
y = torch.tensor(wine.target)
order = torch.randperm(len(x))
x, y = x[order], y[order]
x = (x - x[:130].mean(0)) / x[:130].std(0)
train_dl = DataLoader(TensorDataset(x[:130], y[:130]), batch_size=13, shuffle=True)
val_dl = DataLoader(TensorDataset(x[130:], y[130:]), batch_size=48)


# %%
def build():
    return nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 3))


start = build().state_dict()
model = build()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model.load_state_dict(start)
# %%
progress = tqdm(range(10), disable=True)
for epoch in progress:
    for xb, yb in tqdm(train_dl, leave=False, disable=True):
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
    progress.set_postfix(loss=loss.item())
# %%
with torch.no_grad():
    score = (model(x[130:]).argmax(1) == y[130:]).float().mean().item()
