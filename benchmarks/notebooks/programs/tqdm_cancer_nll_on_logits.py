# mistake: L204
# right: loss_fn = nn.CrossEntropyLoss()
# wrong: loss_fn = nn.NLLLoss()
# debugger: net, train_loader, val_loader, loss_fn=loss_fn, optimizer=opt
# %%
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import trange

torch.manual_seed(17)
# %%
x, y = load_breast_cancer(return_X_y=True)
x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
x = (x - x.mean(0)) / x.std(0)
order = torch.randperm(len(x))
train_loader = DataLoader(TensorDataset(x[order[:450]], y[order[:450]]), batch_size=30, shuffle=True)
val_loader = DataLoader(TensorDataset(x[order[450:]], y[order[450:]]), batch_size=60)
# %%
net = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2))
loss_fn = nn.CrossEntropyLoss()
opt = torch.optim.SGD(net.parameters(), lr=0.05)
# %%
for epoch in trange(8, disable=True):
    for xb, yb in train_loader:
        opt.zero_grad(set_to_none=True)
        loss = loss_fn(net(xb), yb)
        loss.backward()
        opt.step()
# %%
with torch.no_grad():
    score = torch.cat([net(xb).argmax(1) == yb for xb, yb in val_loader]).float().mean().item()
