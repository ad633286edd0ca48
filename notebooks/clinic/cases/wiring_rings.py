# ward: wiring
# title: A ring around a ring
# story: A robot must tell the inner ring of a target from the outer one. Omar gave the network three layers, so that it can bend the boundary.
# complaint: The boundary is a straight line. More layers and more epochs leave it straight.
# codes: M308
# hint: What does the network compute between two layers?
# hint: dbg.checkup(select="M") asks the rules on the model; dbg.summary() lists the modules that run.
# hint: The lines of forward(): the activation is created, and nothing calls it between the layers.
# right: x = self.act(self.fc1(x))\n        x = self.act(self.fc2(x))
# wrong: x = self.fc1(x)\n        x = self.fc2(x)
# %%
import torch
from sklearn.datasets import make_circles
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)
points, ring = make_circles(300, noise=0.1, factor=0.5, random_state=4)
points, ring = torch.tensor(points).float(), torch.tensor(ring)
train_loader = DataLoader(TensorDataset(points[:200], ring[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(points[200:], ring[200:]), batch_size=100)


# %%
class RingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 16)
        self.fc2 = nn.Linear(16, 16)
        self.fc3 = nn.Linear(16, 2)
        self.act = nn.ReLU()

    def forward(self, x):
        x = self.act(self.fc1(x))
        x = self.act(self.fc2(x))
        return self.fc3(x)


model = RingNet()
loss_fn = nn.CrossEntropyLoss()
optimizer = optim.Adam(model.parameters(), lr=0.04)


def train():
    for epoch in range(5):
        for x, target in train_loader:
            optimizer.zero_grad()
            loss_fn(model(x), target).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        return (model(points[200:]).argmax(1) == ring[200:]).float().mean().item()
