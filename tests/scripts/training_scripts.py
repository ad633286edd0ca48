"""Training scripts in different styles, as their authors would run them."""

from __future__ import annotations

FUNCTIONS = """
import argparse, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return torch.softmax(self.head(torch.relu(self.hidden(x))), 1)

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    epochs = parser.parse_args().epochs
    torch.manual_seed(0)
    x = torch.randn(96, 4)
    y = x[:, :3].argmax(1)
    train_loader = DataLoader(TensorDataset(x[:64], y[:64]), batch_size=8, shuffle=True)
    test_loader = DataLoader(TensorDataset(x[64:], y[64:]), batch_size=32)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss = criterion(net(inputs), targets)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), sys.argv[1:], __name__)

if __name__ == "__main__":
    main()
"""
TRAINER = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Trainer:
    def __init__(self):
        x = torch.randn(96, 4)
        data = TensorDataset(x, x.sum(1, keepdim=True))
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.loaders = {"train": DataLoader(data, batch_size=16), "val": DataLoader(TensorDataset(x, x[:, :1]))}

    def step(self, batch):
        inputs, target = batch
        loss = F.smooth_l1_loss(self.model(inputs), target, beta=0.5)
        loss.backward()
        self.optimizer.step()

    def fit(self):
        for _ in range(4):
            for batch in self.loaders["train"]:
                self.step(batch)
            print(self.model[0].weight.sum().item().hex(), torch.randn(1).item().hex())

torch.manual_seed(0)
Trainer().fit()
"""
CRASH = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.Linear(9, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
nn.functional.mse_loss(model(torch.ones(3, 4)), torch.ones(3, 2)).backward()
"""
HEALTHY = """
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(64, 3)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(12):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
    optimizer.step()
"""
INTERRUPTED = HEALTHY + "raise KeyboardInterrupt\n"
WITHOUT_TRAINING = "import torch\nprint(torch.ones(2).sum())\n"
EXIT = "import sys\nsys.exit(3)\n"
SYNTAX = "for\n"
SPAWNING = """
import multiprocessing
import os
import pickle
import sys

if __name__ == "__main__":
    print("torch" in sys.modules, "numpy" in sys.modules, flush=True)
os.environ["OMP_NUM_THREADS"] = "1"
import torch
from torch import nn

class Net(nn.Linear):
    pass

def child(queue, net):
    queue.put((__name__, type(net).__name__))

if __name__ == "__main__":
    torch.manual_seed(0)
    net = pickle.loads(pickle.dumps(Net(3, 1)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        loss = net(torch.ones(2, 3)).square().mean()
        loss.backward()
        optimizer.step()
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue, net))
    process.start()
    print(queue.get(), process.join(), process.exitcode, loss.item(), __file__, flush=True)
    os.kill(os.getpid(), 2)
"""
NON_FINITE = """
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
steps = parser.parse_args().steps
torch.manual_seed(0)
x = torch.randn(8 * steps, 4)
x[27, 2] = float("nan")
loader = DataLoader(TensorDataset(x, torch.randn(8 * steps, 1)), batch_size=8)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for inputs, target in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), target).backward()
    optimizer.step()
"""
UNINSPECTABLE = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Proxy:
    @property
    def __class__(self):
        raise RuntimeError("no context")

proxy = Proxy()
loader = DataLoader(TensorDataset(torch.randn(8, 2), torch.randn(8, 1)), batch_size=4)
model = nn.Linear(2, 1).eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    (model(x) - y).square().mean().backward()
    optimizer.step()
"""
