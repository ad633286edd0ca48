"""A contrastive loss takes its negatives from a list of the module that is never emptied."""

# source: variable
# line: QUEUE.append
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)
QUEUE = []


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x):
        return nn.functional.normalize(self.net(x), dim=1)


def info_nce(z, _):
    QUEUE.append(z.detach().mean(0))
    negatives = torch.stack(QUEUE[-32:])
    positive = (z * z.roll(1, 0)).sum(1, keepdim=True)
    logits = torch.cat([positive, z @ negatives.T], dim=1)
    return nn.functional.cross_entropy(logits, torch.zeros(len(z), dtype=torch.long))


x = torch.randn(64, 10)
encoder = Encoder()
dbg = nbdebug.Debugger(
    encoder,
    DataLoader(TensorDataset(x, torch.zeros(64)), batch_size=16),
    loss_fn=info_nce,
    optimizer=torch.optim.Adam(encoder.parameters(), lr=1e-3),
)
