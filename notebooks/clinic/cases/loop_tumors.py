# ward: loop
# title: Benign or malignant
# story: A doctor trains a network on thirty measurements of each tumor. She wrote the loop herself, line by line.
# complaint: The loss falls for a while, then it swings up and down, whatever the learning rate.
# codes: O505
# hint: Read the loop line by line: what must happen before each backward pass?
# hint: with dbg.watch(): train() records every step; look at the norm of the gradients from step to step.
# hint: The line before backward() in train(): the gradients of earlier batches are still there.
# right: optimizer.zero_grad()\n            loss.backward()
# wrong: loss.backward()
# %%
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
measures, benign = load_breast_cancer(return_X_y=True)
x, y = torch.tensor(measures, dtype=torch.float32), torch.tensor(benign)
shuffled = torch.randperm(len(x))
x, y = x[shuffled], y[shuffled]
x = (x - x[:240].mean(0)) / x[:240].std(0)
train_loader = DataLoader(TensorDataset(x[:240], y[:240]), batch_size=20, shuffle=True)
val_loader = DataLoader(TensorDataset(x[240:], y[240:]), batch_size=149)
# %%
model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)


def train():
    for epoch in range(5):
        for inputs, targets in train_loader:
            loss = loss_fn(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        return (model(x[240:]).argmax(1) == y[240:]).float().mean().item()
