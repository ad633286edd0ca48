# mistake: O505
# right: self.optimizer.zero_grad()\n            loss.backward()
# wrong: loss.backward()
# debugger: trainer.model, train_dl, val_dl, loss_fn=trainer.criterion, optimizer=trainer.optimizer
# %%
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
# %%
digits = load_digits()
x = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
y = torch.tensor(digits.target)
order = torch.randperm(len(x))
train_dl = DataLoader(TensorDataset(x[order[:1400]], y[order[:1400]]), batch_size=64, shuffle=True)
val_dl = DataLoader(TensorDataset(x[order[1400:]], y[order[1400:]]), batch_size=128)


# %%
class SmallCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc = nn.Linear(16 * 4, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = nn.functional.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc(x.flatten(1))


# %%
class Trainer:
    def __init__(self, model, lr=0.1):
        self.model = model
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)

    def train_epoch(self, loader):
        self.model.train()
        for xb, yb in loader:
            loss = self.criterion(self.model(xb), yb)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def accuracy(self, loader):
        self.model.eval()
        hits = [(self.model(xb).argmax(1) == yb).float().mean() for xb, yb in loader]
        return torch.stack(hits).mean().item()


trainer = Trainer(SmallCNN())
# %%
for epoch in range(8):
    trainer.train_epoch(train_dl)
# %%
score = trainer.accuracy(val_dl)
