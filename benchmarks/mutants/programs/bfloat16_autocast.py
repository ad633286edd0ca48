"""Mixed precision with bfloat16 on the CPU."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x / 8 - 1, dtype=torch.float32), torch.tensor(y)
train_loader = DataLoader(TensorDataset(x[:1300], y[:1300]), batch_size=65, shuffle=True)
val_loader = DataLoader(TensorDataset(x[1300:], y[1300:]), batch_size=100)
model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)


def train():
    for epoch in range(8):
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(inputs)
            loss = loss_fn(logits.float(), targets)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            hits = sum((model(inputs).argmax(1) == targets).sum().item() for inputs, targets in val_loader)
        print(epoch, hits / len(val_loader.dataset))
