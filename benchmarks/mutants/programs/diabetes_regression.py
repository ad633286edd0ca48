"""A small network for a continuous target, with gradient clipping."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

x, y = load_diabetes(return_X_y=True)
x = torch.tensor((x - x.mean(0)) / x.std(0), dtype=torch.float32)
y = torch.tensor((y - y.mean()) / y.std(), dtype=torch.float32).unsqueeze(1)
training_set, validation_set = random_split(TensorDataset(x, y), [342, 100], torch.Generator().manual_seed(0))


class Net(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.fc1 = nn.Linear(10, width)
        self.fc2 = nn.Linear(width, width)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.out(x)


net = Net()
criterion = nn.MSELoss()
opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
train_dl = DataLoader(training_set, batch_size=32, shuffle=True)
val_dl = DataLoader(validation_set, batch_size=100)


def fit(epochs=10):
    for _ in range(epochs):
        for xb, yb in train_dl:
            opt.zero_grad()
            loss = criterion(net(xb), yb)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            opt.step()


SETUP = {
    "model": net,
    "loss_fn": criterion,
    "optimizer": opt,
    "train_loader": train_dl,
    "val_loader": val_dl,
    "train": fit,
}
