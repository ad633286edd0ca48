"""Logistic regression by L-BFGS with a closure on full batches."""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x, y = load_breast_cancer(return_X_y=True)
x, y = torch.tensor((x - x.mean(0)) / x.std(0), dtype=torch.float32), torch.tensor(y)
train_loader = DataLoader(TensorDataset(x[:430], y[:430]), batch_size=430)
val_loader = DataLoader(TensorDataset(x[430:], y[430:]), batch_size=139)
model = nn.Linear(30, 2)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)


def train():
    for _ in range(10):
        for inputs, targets in train_loader:

            def closure(inputs=inputs, targets=targets):
                optimizer.zero_grad()
                loss = loss_fn(model(inputs), targets) + 1e-3 * model.weight.square().sum()
                loss.backward()
                return loss

            optimizer.step(closure)
