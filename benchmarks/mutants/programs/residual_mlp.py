"""A deep residual perceptron with layer normalization."""

import torch
from sklearn.datasets import make_friedman1
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x, y = make_friedman1(900, 8, noise=0.5, random_state=2)
x = torch.tensor((x - 0.5) * 3.4, dtype=torch.float32)
y = torch.tensor((y - y.mean()) / y.std(), dtype=torch.float32)[:, None]
train_loader = DataLoader(TensorDataset(x[:700], y[:700]), batch_size=35, shuffle=True)
val_loader = DataLoader(TensorDataset(x[700:], y[700:]), batch_size=100)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + torch.relu(self.linear(self.norm(x)))


class DeepRegressor(nn.Module):
    def __init__(self, width=24, depth=4):
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.layers = nn.ModuleList([Layer(width) for _ in range(depth)])
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


model = DeepRegressor()
loss_fn = nn.HuberLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[5, 8], gamma=0.3)


def train():
    for _ in range(10):
        total, count = 0.0, 0
        for inputs, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(inputs), target)
            loss.backward()
            optimizer.step()
            total, count = total + loss.item() * len(target), count + len(target)
        scheduler.step()
        print(total / count)
