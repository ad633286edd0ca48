# mistake: E701
# right: model.eval()\n    with torch.no_grad():
# wrong: with torch.no_grad():
# debugger: model, train_dl, val_dl, loss_fn=loss_fn, optimizer=opt
# %%
import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

torch.manual_seed(19)
# %%
x, y = load_diabetes(return_X_y=True)
x = torch.tensor(x, dtype=torch.float32) * 20
y = torch.tensor((y - 152) / 77, dtype=torch.float32)[:, None]
order = torch.randperm(len(x))
train_dl = DataLoader(TensorDataset(x[order[:340]], y[order[:340]]), 20, shuffle=True)
val_dl = DataLoader(TensorDataset(x[order[340:]], y[order[340:]]), 51)
# %%
model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 1))
loss_fn = nn.MSELoss()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
val_losses = []
# %%
for epoch in tqdm(range(12), disable=True):
    model.train()
    for xb, yb in train_dl:
        opt.zero_grad()
        loss_fn(model(xb), yb).backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        val_losses.append(sum(loss_fn(model(xb), yb).item() for xb, yb in val_dl) / len(val_dl))
# %%
score = -val_losses[-1]
