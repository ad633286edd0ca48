"""Images are flipped by Python's random; only torch is seeded."""

# source: random
# line: random.random()
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import nbdebug

torch.manual_seed(42)


class Flipped(Dataset):
    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        if random.random() < 0.5:
            image = image.flip(-1)
        return image, self.labels[index]


images = torch.randn(80, 1, 6, 6)
train_loader = DataLoader(Flipped(images, torch.randint(0, 2, (80,))), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Flatten(), nn.Linear(36, 20), nn.Tanh(), nn.Linear(20, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
dbg = nbdebug.Debugger(model, train_loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
