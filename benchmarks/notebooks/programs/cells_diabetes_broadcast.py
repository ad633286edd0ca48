# mistake: L205
# right: pred = model(xb).squeeze(1)
# wrong: pred = model(xb)
# debugger: model, loader, loss_fn=mse, optimizer=optimizer
# %%
import torch
import torch.nn.functional as F
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
# %%
data = load_diabetes()
x = torch.tensor(data.data, dtype=torch.float32) * 20
y = torch.tensor(data.target, dtype=torch.float32)
y = (y - y[:350].mean()) / y[:350].std()
loader = DataLoader(TensorDataset(x[:350], y[:350]), batch_size=32, shuffle=True)
# %%
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
mse = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
# %%
for epoch in range(20):
    for xb, yb in loader:
        pred = model(xb).squeeze(1)
        loss = mse(pred, yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
# %%
with torch.no_grad():
    score = -F.mse_loss(model(x[350:]).squeeze(1), y[350:]).item()
