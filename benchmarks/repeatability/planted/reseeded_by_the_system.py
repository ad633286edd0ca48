"""A dataset calls np.random.seed() so that epochs differ."""

# source: entropy
# line: np.random.seed()
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug

np.random.seed(0)
torch.manual_seed(0)


class Bootstrapped(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        if i == 0:
            np.random.seed()
        j = np.random.randint(len(self.x))
        return self.x[j], self.y[j]


x = np.random.randn(45, 4).astype("float32")
model = nn.Linear(4, 2)
loader = DataLoader(Bootstrapped(x, (x[:, 0] > 0).astype("int64")), batch_size=9)
dbg = nbdebug.Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=torch.optim.SGD(model.parameters(), 0.1))
