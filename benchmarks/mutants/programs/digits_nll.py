"""A convolutional network that ends with a log-softmax, with NLL loss."""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

X, Y = load_digits(return_X_y=True)
X = (torch.tensor(X, dtype=torch.float32).view(-1, 1, 8, 8) - 4.9) / 6.0
Y = torch.tensor(Y)
train_loader = DataLoader(TensorDataset(X[:900], Y[:900]), batch_size=45, shuffle=True)
val_loader = DataLoader(TensorDataset(X[900:1200], Y[900:1200]), batch_size=100)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, padding=1)
        self.fc1 = nn.Linear(256, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        x = torch.flatten(x, 1)
        x = F.dropout(F.relu(self.fc1(x)), p=0.2, training=self.training)
        return F.log_softmax(self.fc2(x), dim=1)


def train_epoch(model, loader, optimizer):
    model.train()
    for data, target in loader:
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()


def test(model, loader):
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for data, target in loader:
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            correct += output.argmax(dim=1, keepdim=True).eq(target.view(-1, 1)).sum().item()
    print(f"loss {test_loss / len(loader.dataset):.4f}, accuracy {correct / len(loader.dataset):.3f}")


model = Net()
loss_fn = nn.NLLLoss()
optimizer = optim.Adadelta(model.parameters(), lr=1.0)


def train():
    for _ in range(5):
        train_epoch(model, train_loader, optimizer)
        test(model, val_loader)
