"""A padded batch starts as torch.empty, and only the tokens are written."""

# source: uninitialized memory
# line: torch.empty(
import torch
from torch import nn
from torch.utils.data import DataLoader

import nbdebug

torch.manual_seed(5)
data = [(torch.randn(n, 3), torch.tensor(float(n))) for n in torch.randint(2, 9, (48,)).tolist()]


def collate(samples):
    longest = max(len(s) for s, _ in samples)
    padded = torch.empty(len(samples), longest, 3)
    for row, (s, _) in enumerate(samples):
        padded[row, : len(s)] = s
    return padded, torch.stack([t for _, t in samples])


class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 8)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        return self.out(torch.sigmoid(self.layer(x)).mean(1)).squeeze(1)


model = Mean()
dbg = nbdebug.Debugger(
    model,
    DataLoader(data, batch_size=8, collate_fn=collate),
    loss_fn=nn.MSELoss(),
    optimizer=torch.optim.SGD(model.parameters(), lr=1e-3),
)
