"""A convolutional network for digits, with a learning rate that falls by steps."""

import torch
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.utils.data import DataLoader, Subset, TensorDataset

images, labels = load_digits(return_X_y=True)
images = torch.tensor(images / 16.0, dtype=torch.float32).view(-1, 1, 8, 8)
dataset = TensorDataset((images - 0.3) / 0.37, torch.tensor(labels))
order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(1)).tolist()
train_loader = DataLoader(Subset(dataset, order[:800]), batch_size=50, shuffle=True)
val_loader = DataLoader(Subset(dataset, order[1000:1250]), batch_size=150)


class DigitNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 3, padding=1)
        self.conv2 = nn.Conv2d(12, 24, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.act = nn.ReLU()
        self.drop = nn.Dropout(0.2)
        self.classifier = nn.Linear(24 * 4, 10)

    def forward(self, x):
        x = self.pool(self.act(self.conv1(x)))
        x = self.pool(self.act(self.conv2(x)))
        x = self.drop(x.flatten(1))
        return self.classifier(x)


model = DigitNet()
loss_fn = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
history = []


def evaluate():
    model.eval()
    hits = 0
    with torch.no_grad():
        for x, y in val_loader:
            hits += (model(x).argmax(dim=1) == y).sum().item()
    return hits / len(val_loader.dataset)


def train():
    for _ in range(5):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
        scheduler.step()
        history.append(evaluate())
