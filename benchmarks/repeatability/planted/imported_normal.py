"""Weight noise from numpy.random.normal, imported by name; only torch is seeded."""

# source: numpy.random
# line: normal(
import torch
from numpy.random import normal
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(8)


class NoisyLinear(nn.Linear):
    def forward(self, x):
        noise = torch.as_tensor(normal(0, 0.02, tuple(self.weight.shape)), dtype=x.dtype)
        return nn.functional.linear(x, self.weight + noise, self.bias)


model = nn.Sequential(NoisyLinear(7, 14), nn.ReLU(), NoisyLinear(14, 3))
x = torch.randn(63, 7)
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, x[:, :3].argmax(1)), batch_size=9, shuffle=True),
    loss_fn=nn.CrossEntropyLoss(),
    optimizer=torch.optim.Adam(model.parameters()),
)
