# mistake: O509
# right: weight_decay=1e-4
# wrong: weight_decay=1.0
# debugger: engine.network, engine.loader, engine.valid, loss_fn=engine.loss_fn, optimizer=engine.optimizer
# %%
import torch
from sklearn.datasets import make_friedman1
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(9)
# %%
features, target = make_friedman1(800, noise=0.3, random_state=0)
features = torch.tensor(features, dtype=torch.float32) * 3.46 - 1.73
target = torch.tensor((target - target[:600].mean()) / target[:600].std(), dtype=torch.float32)[:, None]


# %%
class Engine:
    def __init__(self):
        self.network = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 1))
        self.loss_fn = nn.MSELoss()
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
        self.loader = DataLoader(TensorDataset(features[:600], target[:600]), 30, shuffle=True)
        self.valid = DataLoader(TensorDataset(features[600:], target[600:]), 100)

    def step(self, batch):
        x, y = batch
        self.optimizer.zero_grad()
        loss = self.loss_fn(self.network(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def run(self, epochs):
        return [sum(map(self.step, self.loader)) / len(self.loader) for _ in range(epochs)]


engine = Engine()
# %%
history = engine.run(12)
# %%
with torch.no_grad():
    score = -engine.loss_fn(engine.network(features[600:]), target[600:]).item()
