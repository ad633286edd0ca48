# mistake: D104
# right: scaler.transform(X_train), scaler.transform(X_val)
# wrong: X_train, X_val
# debugger: net, train_dl, val_dl, loss_fn=loss_fn, optimizer=opt
# %%
import torch
import torch.nn as nn
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
# %%
X, y = load_wine(return_X_y=True)
X_train, X_val, y_train, y_val = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
scaler = StandardScaler().fit(X_train)
X_train, X_val = scaler.transform(X_train), scaler.transform(X_val)
# %%
x_tr = torch.tensor(X_train, dtype=torch.float32)
x_va = torch.tensor(X_val, dtype=torch.float32)
y_tr, y_va = torch.tensor(y_train), torch.tensor(y_val)
train_dl = DataLoader(TensorDataset(x_tr, y_tr), batch_size=16, shuffle=True)
val_dl = DataLoader(TensorDataset(x_va, y_va), batch_size=64)
# %%
net = nn.Sequential(nn.Linear(13, 32), nn.Tanh(), nn.Linear(32, 3))
loss_fn = nn.CrossEntropyLoss()
opt = torch.optim.Adam(net.parameters(), lr=0.01)
# %%
losses = []
for epoch in range(25):
    for xb, yb in train_dl:
        opt.zero_grad()
        loss = loss_fn(net(xb), yb)
        loss.backward()
        opt.step()
        losses.append(loss.item())
# %%
with torch.no_grad():
    score = (net(x_va).argmax(1) == y_va).float().mean().item()
