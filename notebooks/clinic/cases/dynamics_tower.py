# ward: dynamics
# title: The tower
# story: For a course, Felix builds a network of ten layers with the activation of his textbook of 1995. Two layers would do, but the exercise asks for ten.
# complaint: The last layers learn a little, and the first ones stay as they were at the start. The loss is a flat line.
# codes: G403 G415 G402
# hint: Compare the gradient of the first layer with that of the last.
# hint: with dbg.watch(): train() records the norm of the gradient of every layer.
# hint: The line of block() with the activation: each sigmoid divides the gradient by four or more.
# right: return [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
# wrong: return [nn.Linear(inputs, outputs), nn.Sigmoid()]
# %%
import torch
from sklearn.datasets import make_moons
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(25)
points, moon = make_moons(280, noise=0.15, random_state=25)
x, y = torch.tensor(points).float(), torch.tensor(moon)
train_loader = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(x[200:], y[200:]), batch_size=80)


# %%
def block(inputs, outputs):
    return [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]


width = 12
layers = block(2, width)
for _ in range(6):
    layers += block(width, width)
model = nn.Sequential(*layers, nn.Linear(width, 2))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def train():
    for epoch in range(6):
        model.train()
        for point, target in train_loader:
            optimizer.zero_grad()
            loss_fn(model(point), target).backward()
            optimizer.step()


def evaluate():
    model.eval()
    with torch.no_grad():
        return (model(x[200:]).argmax(1) == y[200:]).float().mean().item()
