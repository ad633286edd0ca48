# ward: loss
# title: Two complaints at once
# story: A botanist measures irises and lets a small network name the species. She copied parts of it from three tutorials.
# complaint: The loss hardly moves, and what she has repaired so far changed little.
# codes: L201
# codes: O502
# hint: There are two faults: one in what enters the loss, one in the size of the steps. Repair the first one first.
# hint: dbg.checkup() finds the first; then dbg.lr_range() finds the second.
# hint: The last line of forward() applies softmax, and the line that creates the optimizer has a tiny learning rate.
# right: return self.output(x)
# wrong: return torch.softmax(self.output(x), dim=1)
# right: optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
# wrong: optimizer = torch.optim.Adam(model.parameters(), lr=1e-6)
# %%
import torch
from sklearn.datasets import load_iris
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(8)
flowers, species = load_iris(return_X_y=True)
x, y = torch.tensor(flowers, dtype=torch.float32), torch.tensor(species)
shuffled = torch.randperm(len(x))
x, y = x[shuffled], y[shuffled]
x = (x - x[:110].mean(0)) / x[:110].std(0)
train_loader = DataLoader(TensorDataset(x[:110], y[:110]), batch_size=22, shuffle=True)
val_loader = DataLoader(TensorDataset(x[110:], y[110:]), batch_size=40)


# %%
class Botanist(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 24)
        self.output = nn.Linear(24, 3)

    def forward(self, x):
        x = torch.relu(self.hidden(x))
        return self.output(x)


model = Botanist()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)


def train():
    for epoch in range(6):
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss_fn(model(inputs), targets).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        return (model(x[110:]).argmax(1) == y[110:]).float().mean().item()
