# ward: dynamics
# title: The market stall
# story: A market stall predicts the day's turnover from the weather and the calendar. Three people have worked on the notebook, and each has changed one number.
# complaint: The loss is that of the mean of all days, from the first step to the last.
# codes: G408
# codes: D104
# codes: O502
# hint: There are three faults. Compare the scale of three things with one: the inputs, the weights at the start, and the steps.
# hint: dbg.checkup() measures the scale of the inputs and of the activations; dbg.lr_range() sweeps the learning rate.
# hint: The inputs are not scaled where the loaders are made, normal_ has a standard deviation of 0.001, and the learning rate is 1e-5.
# right: nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
# wrong: nn.init.normal_(layer.weight, std=0.001)
# right: inputs = (days - days[:200].mean(0)) / days[:200].std(0)
# wrong: inputs = days
# right: optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
# wrong: optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
# %%
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

generator = torch.Generator().manual_seed(33)
warmth = 12 + 8 * torch.randn(300, generator=generator)
rain = 30 * torch.rand(300, generator=generator) ** 3
day = torch.randint(1, 366, (300,), generator=generator).float()
visitors = 800 + 250 * torch.randn(300, generator=generator)
turnover = visitors / 250 + warmth / 8 - rain / 10 + torch.sin(day / 58)
turnover = (turnover - turnover.mean()) / turnover.std()
days = torch.stack([warmth, rain, day, visitors], dim=1)
inputs = (days - days[:200].mean(0)) / days[:200].std(0)
train_loader = DataLoader(TensorDataset(inputs[:200], turnover[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(inputs[200:], turnover[200:]), batch_size=100)


# %%
class Turnover(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 24), nn.Linear(24, 24), nn.Linear(24, 1)])
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5)

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x).squeeze(1)


torch.manual_seed(33)
model = Turnover()
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


def train():
    for epoch in range(6):
        for x, y in train_loader:
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        return 1 - (loss_fn(model(inputs[200:]), turnover[200:]) / turnover[200:].var()).item()
