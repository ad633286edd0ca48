"""Label smoothing grows with a counter that belongs to the class."""

# source: variable
# line: calls += 1
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)


class GrowingSmoothing(nn.Module):
    calls = 0

    def forward(self, logits, target):
        GrowingSmoothing.calls += 1
        smoothing = min(0.2, 0.001 * GrowingSmoothing.calls)
        return F.cross_entropy(logits, target, label_smoothing=smoothing)


x = torch.randn(64, 5)
y = x.argmax(1)
model = nn.Linear(5, 5)
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(x, y), batch_size=16),
    loss_fn=GrowingSmoothing(),
    optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
)
