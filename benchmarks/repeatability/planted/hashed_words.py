"""Words are put into buckets by Python's hash."""

# source: hash order
# line: hash(word)
import torch
from torch import nn
from torch.utils.data import DataLoader

import nbdebug

torch.manual_seed(9)
texts = ["good film", "bad film", "good plot and good cast", "a bad plot", "a fine cast", "poor film"] * 8
labels = [1, 0, 1, 0, 1, 0] * 8


def encode(samples):
    bags = torch.zeros(len(samples), 64)
    for row, (text, _) in enumerate(samples):
        for word in text.split():
            bags[row, hash(word) % 64] += 1
    return bags, torch.tensor([label for _, label in samples])


model = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 2))
loader = DataLoader(list(zip(texts, labels)), batch_size=8, shuffle=True, collate_fn=encode)
dbg = nbdebug.Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=torch.optim.AdamW(model.parameters()))
