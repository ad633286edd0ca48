"""A warm-up and a cosine decay that step with each batch."""

import math

import torch
from sklearn.datasets import make_classification
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x, y = make_classification(1200, 20, n_informative=8, n_classes=3, class_sep=1.5, random_state=3)
x, y = torch.tensor(x / x.std(0), dtype=torch.float32), torch.tensor(y)
train_loader = DataLoader(TensorDataset(x[:900], y[:900]), batch_size=30, shuffle=True)
val_loader = DataLoader(TensorDataset(x[900:], y[900:]), batch_size=100)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(20, 48)
        self.norm = nn.BatchNorm1d(48)
        self.dropout = nn.Dropout(p=0.1)
        self.output = nn.Linear(48, 3)

    def forward(self, x):
        hidden = torch.relu(self.norm(self.hidden(x)))
        return self.output(self.dropout(hidden))


EPOCHS = 8
model = Classifier()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
total = EPOCHS * len(train_loader)
scheduler = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda k: (k + 1) / 20 if k < 20 else 0.5 * (1 + math.cos(math.pi * (k - 20) / (total - 20)))
)


def train():
    for epoch in range(EPOCHS):
        model.train()
        for inputs, targets in train_loader:
            loss = loss_fn(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
        model.eval()
        predictions = []
        with torch.no_grad():
            for inputs, _ in val_loader:
                predictions.append(model(inputs).argmax(-1))
        print(epoch, (torch.cat(predictions) == y[900:]).float().mean().item())
