# ward: evaluation
# title: The shaking scale
# story: A bank reads the amounts on checks, and reports the accuracy of each new model to its auditors.
# complaint: Two evaluations of the same model give two scores, and both are worse than they should be.
# codes: E701
# hint: Evaluate twice without training in between. What is random?
# hint: with dbg.watch(): train() also sees the evaluations in it, and the mode of each module.
# hint: The first line of evaluate(): the dropout is still on.
# right: model.eval()\n    with torch.no_grad():
# wrong: with torch.no_grad():
# %%
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
images, labels = load_digits(return_X_y=True)
x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
shuffled = torch.randperm(len(x))[:420]
x, y = x[shuffled], y[shuffled]
train_loader = DataLoader(TensorDataset(x[:300], y[:300]), batch_size=50, shuffle=True)
val_loader = DataLoader(TensorDataset(x[300:], y[300:]), batch_size=60)
# %%
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.6), nn.Linear(64, 10))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
accuracies = []


def evaluate():
    model.eval()
    with torch.no_grad():
        hits = [(model(inputs).argmax(1) == targets).sum() for inputs, targets in val_loader]
    return sum(hits).item() / len(val_loader.dataset)


def train():
    for epoch in range(5):
        model.train()
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss_fn(model(inputs), targets).backward()
            optimizer.step()
        accuracies.append(evaluate())
