# ward: wiring
# title: The colleague's network
# story: Two colleagues built the same network for handwritten digits, one with three layers written out, the other with a parameter for the depth.
# complaint: The loss falls in both, yet the second network stays far behind, at any depth.
# codes: M303
# hint: Count the parameters. Are there as many as the layers should have?
# hint: dbg.summary() lists every submodule, and which of them the optimizer trains.
# hint: The line in __init__ that creates self.layers: a plain list hides its layers from the module.
# right: self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
# wrong: self.layers = [nn.Linear(width, width) for _ in range(3)]
# %%
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
images, labels = load_digits(return_X_y=True)
x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
shuffled = torch.randperm(len(x))[:420]
x, y = x[shuffled], y[shuffled]
train_loader = DataLoader(TensorDataset(x[:300], y[:300]), batch_size=25, shuffle=True)
val_loader = DataLoader(TensorDataset(x[300:], y[300:]), batch_size=120)


# %%
class Deep(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.first = nn.Linear(64, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.last = nn.Linear(width, 10)

    def forward(self, x):
        x = torch.relu(self.first(x))
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.last(x)


model = Deep()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


def train():
    for epoch in range(7):
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss_fn(model(inputs), targets).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        return (model(x[300:]).argmax(1) == y[300:]).float().mean().item()
