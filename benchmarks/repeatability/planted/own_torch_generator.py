"""A model adds noise from a torch.Generator that is seeded by the operating system."""

# source: generator
# line:
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(2)


class NoisyNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(5, 10)
        self.decoder = nn.Linear(10, 5)
        self.generator = torch.Generator()
        self.generator.seed()

    def forward(self, x):
        z = self.encoder(x)
        if self.training:
            z = z + 0.05 * torch.randn(z.shape, generator=self.generator)
        return self.decoder(z)


x = torch.randn(60, 5)
model = NoisyNet()
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, x), batch_size=15),
    loss_fn=nn.MSELoss(),
    optimizer=torch.optim.Adam(model.parameters()),
)
