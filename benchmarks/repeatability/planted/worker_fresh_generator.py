"""Each worker gives its copy of the dataset a new NumPy generator, so that workers do not repeat each other."""

# source: entropy
# line: np.random.default_rng()
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info

import nbdebug

torch.manual_seed(1)


class Images(Dataset):
    def __init__(self):
        self.images = torch.randn(96, 1, 8, 8)
        self.labels = torch.randint(0, 3, (96,))
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        noise = self.rng.normal(0, 0.1, (1, 8, 8)).astype("float32")
        return self.images[i] + torch.from_numpy(noise), self.labels[i]


def init_worker(worker):
    get_worker_info().dataset.rng = np.random.default_rng()


loader = DataLoader(Images(), batch_size=12, shuffle=True, num_workers=2, worker_init_fn=init_worker)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
optimizer = torch.optim.Adam(model.parameters())
dbg = nbdebug.Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
