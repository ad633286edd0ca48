# ward: speed
# title: Rain, hour by hour
# story: A forecast weights the rain of the last twenty days: an hour counts less the longer ago it is. Whoever wrote the model thinks in hours.
# complaint: The network is tiny, and an epoch takes longer than that of the large one next door. (The score is 1 if the weighting at most doubles the time of a pass.)
# codes: P802
# hint: Does a step compute much, or does it start many small computations?
# hint: dbg.profile() lists the lines of a forward pass, with the operations that a Python loop makes in each step.
# hint: The loop in forward() adds one hour after the other; a product of the rain and all weights is one operation.
# right:         total = rain @ self.decay**self.age
# wrong:         total = 0 * rain[:, 0]\n        for hour in range(480):\n            total = total + rain[:, hour] * self.decay**self.age[hour]
# %%
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

generator = torch.Generator().manual_seed(63)
rain = torch.rand(280, 480, generator=generator)
river = rain @ 0.99 ** torch.arange(479, -1, -1.0) + 0.1 * torch.randn(280, generator=generator)
train_loader = DataLoader(TensorDataset(rain[:192], river[:192]), batch_size=96, shuffle=True)
val_loader = DataLoader(TensorDataset(rain[192:], river[192:]), batch_size=88)


# %%
class Rain(nn.Module):
    def __init__(self):
        super().__init__()
        self.decay = nn.Parameter(torch.tensor(0.97))
        self.register_buffer("age", torch.arange(479, -1, -1.0))
        self.head = nn.Sequential(nn.Linear(1, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, rain):
        total = rain @ self.decay**self.age
        return self.head(total.unsqueeze(1)).squeeze(1)


torch.manual_seed(63)
model = Rain()
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def train():
    for epoch in range(5):
        for hours, level in train_loader:
            optimizer.zero_grad()
            loss_fn(model(hours), level).backward()
            optimizer.step()


def evaluate():
    """Return 1 if the weighting at most doubles the time of both passes, otherwise a smaller number."""
    hours, seconds = rain[:96], {}
    for name, part, inputs in (("head", model.head, hours[:, :1]), ("model", model, hours)) * 12:
        started = time.process_time()
        part(inputs).sum().backward()
        seconds.setdefault(name, []).append(time.process_time() - started)
    return min(1.0, 2 * min(seconds["head"]) / min(seconds["model"]))
