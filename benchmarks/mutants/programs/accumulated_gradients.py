"""Gradients of four small batches are averaged before each step."""

import torch
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x, y = load_wine(return_X_y=True)
x = (x - x.mean(0)) / x.std(0)
x_train, x_val, y_train, y_val = train_test_split(x, y, test_size=0.3, random_state=1, stratify=y)
train_set = TensorDataset(torch.tensor(x_train).float(), torch.tensor(y_train))
val_set = TensorDataset(torch.tensor(x_val).float(), torch.tensor(y_val))
train_loader = DataLoader(train_set, batch_size=4, shuffle=True, drop_last=True)
val_loader = DataLoader(val_set, batch_size=54)

model = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 3))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.8)
ACCUMULATED = 4


def train():
    for _ in range(15):
        optimizer.zero_grad()
        for k, (inputs, targets) in enumerate(train_loader, start=1):
            loss = loss_fn(model(inputs), targets) / ACCUMULATED
            loss.backward()
            if k % ACCUMULATED == 0:
                optimizer.step()
                optimizer.zero_grad()
