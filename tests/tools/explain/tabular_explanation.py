"""A classifier of table rows, and an explanation of two of them."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from nbdebug.tools.explain import Explanation, explain

FEATURE_NAMES = ["age", "fare", "sex", "port_a", "port_b"]
CLASS_NAMES = ["no", "maybe", "yes"]


def make_rows(count: int) -> tuple[Tensor, Tensor]:
    """Rows of a table of passengers, and a class that depends on age and port."""
    random = np.random.default_rng(0)
    port = np.eye(2)[random.integers(0, 2, count)]
    x = np.column_stack([random.integers(1, 80, count), random.gamma(2, 10, count), random.integers(0, 2, count), port])
    y = (x[:, 0] < 30).astype(int) + (x[:, 3] == 1)
    return torch.tensor(x).float(), torch.tensor(y)


@cache
def tabular_setup() -> Setup:
    """A network that is trained on the rows."""
    x, y = make_rows(200)
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    loader = DataLoader(TensorDataset(x, y), 32, shuffle=True)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), class_names=CLASS_NAMES, feature_names=FEATURE_NAMES)


@cache
def tabular_explanation() -> Explanation:
    """Explanation of the samples 3 and 4."""
    return explain(tabular_setup(), [3, 4], loader="train")
