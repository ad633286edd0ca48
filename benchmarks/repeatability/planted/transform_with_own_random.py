"""A transform owns a random.Random() without a seed."""

# source: generator
# line:
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)


class RandomErase:
    def __init__(self, share=0.5):
        self.share = share
        self.random = random.Random()

    def __call__(self, image):
        if self.random.uniform(0, 1) < self.share:
            image = image.clone()
            image[:, : self.random.randint(1, 4)] = 0
        return image


class Pictures(Dataset):
    def __init__(self, transform):
        self.pictures, self.transform = torch.rand(64, 8, 8), transform

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return self.transform(self.pictures[i]), int(self.pictures[i].mean() > 0.5)


model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.ReLU(), nn.Linear(10, 2))
dbg = nbdebug.Debugger(
    model,
    DataLoader(Pictures(RandomErase()), batch_size=16, shuffle=True),
    loss_fn=nn.CrossEntropyLoss(),
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
)
