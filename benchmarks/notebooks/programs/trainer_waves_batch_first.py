# mistake: M304
# right: nn.GRU(1, 24, batch_first=True)
# wrong: nn.GRU(1, 24)
# debugger: loop.model, loop.train_data, loop.val_data, loss_fn=loop.loss, optimizer=loop.optimizer
# %%
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(8)
# %%
phase, speed = 6.28 * torch.rand(700, 1), 0.2 + 0.5 * torch.rand(700, 1)
waves = torch.sin(phase + speed * torch.arange(21)) + 0.02 * torch.randn(700, 21)
inputs, targets = waves[:, :20, None], waves[:, 20:]


# %%
class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(1, 24, batch_first=True)
        self.out = nn.Linear(24, 1)

    def forward(self, series):
        states, _ = self.rnn(series)
        return self.out(states[:, -1])


class TrainingLoop:
    def __init__(self, model):
        self.model, self.loss = model, nn.MSELoss()
        self.optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        self.train_data = DataLoader(TensorDataset(inputs[:600], targets[:600]), 50, shuffle=True)
        self.val_data = DataLoader(TensorDataset(inputs[600:], targets[600:]), 50)

    def __call__(self, epochs):
        for _ in range(epochs):
            for series, target in self.train_data:
                self.optimizer.zero_grad()
                self.loss(self.model(series), target).backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()


loop = TrainingLoop(Forecaster())
# %%
loop(8)
# %%
with torch.no_grad():
    score = -nn.functional.mse_loss(loop.model(inputs[600:650]), targets[600:650]).item()
