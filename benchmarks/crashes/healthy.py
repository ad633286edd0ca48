"""Cells that raise for reasons that are not torch's: an explainer of torch's errors has nothing to say about them."""

from __future__ import annotations

from benchmarks.crashes.case import OtherError

HEALTHY: tuple[OtherError, ...] = (
    OtherError(
        id="pandas_missing_column",
        title="a column that the table does not have",
        raises="KeyError",
        source="""
import pandas as pd
import torch

table = pd.DataFrame({"age": [31, 47, 25], "income": [2.1, 3.3, 1.8]})
features = torch.tensor(table[["age", "income"]].to_numpy(), dtype=torch.float32)
targets = torch.tensor(table["label"].to_numpy())
""",
    ),
    OtherError(
        id="own_assert_between_steps",
        title="an assertion of the user's inside the training loop",
        raises="AssertionError",
        source="""
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    assert step < 2, "enough steps"
""",
    ),
    OtherError(
        id="sklearn_single_class",
        title="a metric of scikit-learn that needs as many scores as labels",
        raises="ValueError",
        source="""
import torch
from sklearn.metrics import accuracy_score
from torch import nn

model = nn.Linear(3, 2)
with torch.no_grad():
    predicted = model(torch.randn(10, 3)).argmax(1)
print(accuracy_score([0, 1] * 4, predicted.numpy()))
""",
    ),
    OtherError(
        id="interrupted_training",
        title="the user stops the cell",
        raises="KeyboardInterrupt",
        source="""
import torch
from torch import nn

model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    loss = model(torch.randn(4, 2)).pow(2).mean()
    loss.backward()
    optimizer.step()
    if step == 3:
        raise KeyboardInterrupt
""",
    ),
    OtherError(
        id="undefined_name_in_forward",
        title="a name that does not exist, inside forward",
        raises="NameError",
        source="""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(inputs)


Net()(torch.randn(2, 3))
""",
    ),
    OtherError(
        id="undefined_loader",
        title="a cell was not run",
        raises="NameError",
        source="""
import torch

for x, y in train_loader:
    print(x.shape)
""",
    ),
    OtherError(
        id="missing_data_file",
        title="a file that does not exist, inside a data set",
        raises="FileNotFoundError",
        source="""
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return torch.tensor(list(Path(f"missing/{index}.bin").read_bytes()))


for batch in DataLoader(Files(), batch_size=2):
    print(batch)
""",
    ),
    OtherError(
        id="unpacked_wrongly",
        title="a function of the user's returns two values and three are taken",
        raises="ValueError",
        source="""
import torch
from torch import nn


def make_batch():
    return torch.randn(4, 2), torch.randn(4, 1)


x, y, weights = make_batch()
nn.functional.mse_loss(nn.Linear(2, 1)(x), y)
""",
    ),
    OtherError(
        id="numpy_broadcast",
        title="arrays of NumPy that do not broadcast",
        raises="ValueError",
        source="""
import numpy as np
import torch

losses = np.zeros(3)
for epoch in range(3):
    epoch_losses = torch.rand(epoch + 2).numpy()
    losses = losses + epoch_losses
""",
    ),
    OtherError(
        id="division_by_zero_steps",
        title="the mean of no losses",
        raises="ZeroDivisionError",
        source="""
import torch
from torch.utils.data import DataLoader

total, steps = 0.0, 0
for batch in DataLoader(torch.zeros(0, 3), batch_size=2):
    total += batch.mean().item()
    steps += 1
print(total / steps)
""",
    ),
    OtherError(
        id="list_index",
        title="an index of a plain list",
        raises="IndexError",
        source="""
import torch
from torch import nn

names = ["cat", "dog"]
with torch.no_grad():
    scores = nn.Linear(4, 3)(torch.ones(1, 4))
scores[0, 2] += 100
print(names[scores.argmax().item()])
""",
    ),
    OtherError(
        id="dictionary_of_words",
        title="a word that the dictionary of the user's does not have",
        raises="KeyError",
        source="""
import torch
from torch.utils.data import DataLoader, Dataset

index = {"good": 0, "bad": 1}


class Words(Dataset):
    words = ["good", "bad", "ugly"]

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return torch.tensor(index[self.words[i]])


for batch in DataLoader(Words()):
    print(batch)
""",
    ),
    OtherError(
        id="json_config",
        title="a configuration that is no JSON",
        raises="JSONDecodeError",
        source="""
import json

import torch

config = json.loads("{'lr': 0.1}")
optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=config["lr"])
""",
    ),
    OtherError(
        id="string_to_number",
        title="a number in a text cannot be read",
        raises="ValueError",
        source="""
import torch

rows = ["1.0,2.0", "3.0,n/a"]
data = torch.tensor([[float(cell) for cell in row.split(",")] for row in rows])
""",
    ),
    OtherError(
        id="none_has_no_attribute",
        title="a function of the user's returns nothing",
        raises="AttributeError",
        source="""
import torch
from torch import nn


def make_model():
    model = nn.Linear(2, 2)
    model.eval()


model = make_model()
print(model(torch.ones(1, 2)) if model.training else None)
""",
    ),
    OtherError(
        id="own_stop",
        title="an exception of the user's that ends the training early",
        raises="EarlyStop",
        source="""
import torch
from torch import nn


class EarlyStop(Exception):
    pass


model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(20):
    loss = model(torch.randn(6, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch == 4:
        raise EarlyStop(epoch)
""",
    ),
    OtherError(
        id="own_check_in_forward",
        title="forward of the user's checks its input itself",
        raises="ValueError",
        source="""
import torch
from torch import nn


class Checked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, x):
        if x.abs().max() > 1:
            raise ValueError("the input is not scaled")
        return self.layer(x)


Checked()(torch.full((2, 3), 5.0))
""",
    ),
    OtherError(
        id="missing_package",
        title="a package that is not installed",
        raises="ModuleNotFoundError",
        source="""
import torch
import a_package_that_is_not_installed

model = a_package_that_is_not_installed.make(torch.nn.Linear(2, 2))
""",
    ),
    OtherError(
        id="system_exit",
        title="a script ends itself",
        raises="SystemExit",
        source="""
import sys

import torch

loss = torch.tensor(0.5)
if loss < 1:
    sys.exit("trained well enough")
""",
    ),
    OtherError(
        id="recursion_of_own",
        title="a function of the user's calls itself without an end",
        raises="RecursionError",
        source="""
import torch


def depth(tree):
    return 1 + depth(tree)


print(torch.zeros(depth([1, [2]])))
""",
    ),
    OtherError(
        id="plot_of_unlike_lengths",
        title="the plot gets lists of different lengths",
        raises="ValueError",
        source="""
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

losses = [torch.rand(1).item() for _ in range(5)]
plt.plot(range(4), losses)
""",
    ),
    OtherError(
        id="type_of_own_function",
        title="a function of the user's is called with too many arguments",
        raises="TypeError",
        source="""
import torch


def accuracy(logits, labels):
    return (logits.argmax(1) == labels).float().mean().item()


print(accuracy(torch.randn(4, 2), torch.zeros(4), "mean"))
""",
    ),
)
