# mistake: O501 T602 T603
# right: lr=0.05
# wrong: lr=50.0
# debugger: clf, train_iter, valid_iter, loss_fn=nn.BCEWithLogitsLoss(), optimizer=sgd
# %%
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
# %%
bunch = load_breast_cancer()
x = torch.tensor(bunch.data, dtype=torch.float32)
x = (x - x[:400].mean(0)) / x[:400].std(0)
y = torch.tensor(bunch.target, dtype=torch.float32)[:, None]
order = torch.randperm(len(x))
x, y = x[order], y[order]
train_iter = DataLoader(TensorDataset(x[:400], y[:400]), batch_size=32, shuffle=True)
valid_iter = DataLoader(TensorDataset(x[400:], y[400:]), batch_size=64)
# %%
clf = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
sgd = torch.optim.SGD(clf.parameters(), lr=0.05)
# %%
bce = nn.BCEWithLogitsLoss()
for epoch in range(10):
    for features, target in train_iter:
        sgd.zero_grad()
        loss = bce(clf(features), target)
        loss.backward()
        sgd.step()
# %%
with torch.no_grad():
    score = ((clf(x[400:]) > 0) == (y[400:] > 0.5)).float().mean().item()
