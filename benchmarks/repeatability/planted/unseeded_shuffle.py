"""Nothing is seeded, and the loader shuffles."""

# source: torch
# line:
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

x = torch.arange(60.0).reshape(30, 2)
model = nn.Linear(2, 1)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=5, shuffle=True)
dbg = nbdebug.Debugger(model, loader, loss_fn=nn.MSELoss(), optimizer=torch.optim.SGD(model.parameters(), lr=1e-5))
