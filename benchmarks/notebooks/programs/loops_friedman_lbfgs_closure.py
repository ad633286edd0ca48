# mistake: O505
# right: def closure():\n    lbfgs.zero_grad()
# wrong: lbfgs.zero_grad()\n\n\ndef closure():
# debugger: net, train_dl, val_dl, loss_fn=mse, optimizer=lbfgs
# %%
import torch
from sklearn.datasets import make_friedman2
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(20)
# %%
x, y = make_friedman2(500, noise=1.0, random_state=0)
x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)[:, None]
x, y = (x - x[:400].mean(0)) / x[:400].std(0), (y - y[:400].mean()) / y[:400].std()
train_dl = DataLoader(TensorDataset(x[:400], y[:400]), batch_size=400, shuffle=True)
val_dl = DataLoader(TensorDataset(x[400:], y[400:]), batch_size=100)
# %%
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
mse = nn.MSELoss()
lbfgs = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=5)
xb, yb = next(iter(train_dl))


def closure():
    lbfgs.zero_grad()
    loss = mse(net(xb), yb)
    loss.backward()
    return loss


# %%
for step in range(20):
    lbfgs.step(closure)
# %%
with torch.no_grad():
    score = -mse(net(x[400:]), y[400:]).item()
