# mistake: L210
# right: return self.fc2(x)
# wrong: return F.relu(self.fc2(x))
# debugger: model, train_loader, test_loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer
# %%
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(14)


# %%
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 48)
        self.fc2 = nn.Linear(48, 10)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        return self.fc2(x)


def train(model, loader, optimizer):
    model.train()
    for data, target in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()


def test(model, loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for data, target in loader:
            correct += (model(data).argmax(1) == target).sum().item()
    return correct / len(loader.dataset)


# %%
x, y = load_digits(return_X_y=True)
x, y = torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y)
order = torch.randperm(len(x))
train_loader = DataLoader(TensorDataset(x[order[:1400]], y[order[:1400]]), batch_size=64, shuffle=True)
test_loader = DataLoader(TensorDataset(x[order[1400:]], y[order[1400:]]), batch_size=200)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
# %%
for epoch in range(8):
    train(model, train_loader, optimizer)
# %%
score = test(model, test_loader)
