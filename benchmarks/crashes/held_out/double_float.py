"""Crashes: float64 from NumPy that meets float32."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "numpy_features_double",
        "features from NumPy are float64, the layer is float32",
        kind="double_float",
        style="script",
        source="Stack Overflow, expected Float but got Double",
        program="""
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(0)
features = rng.normal(size=(80, 5))
targets = features @ np.array([1.0, -2.0, 0.5, 0.0, 3.0])

X = torch.from_numpy(features)
y = torch.from_numpy(targets).float().unsqueeze(1)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(10):
    prediction = model(X)
    loss = ((prediction - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.from_numpy(features)", "torch.from_numpy(features).float()"),),
        line=("torch.from_numpy(features)", "prediction = model(X)"),
        says=("float64|double", "float32|float()"),
    ),
    crash(
        "labels_from_csv_double",
        "the table becomes a tensor of float64",
        kind="double_float",
        style="notebook_cells",
        source="Kaggle notebook, house prices",
        program="""
import numpy as np
import pandas as pd
import torch
from torch import nn

rng = np.random.default_rng(0)
frame = pd.DataFrame(rng.normal(size=(120, 4)), columns=["rooms", "size", "year", "price"])
# %%
features = frame.drop(columns="price")
X = torch.tensor(features.values)
y = torch.tensor(frame["price"].values).float()
# %%
network = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
# %%
for epoch in range(4):
    predicted = network(X).squeeze(1)
    loss = nn.functional.mse_loss(predicted, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.tensor(features.values)", "torch.tensor(features.values).float()"),),
        line=("torch.tensor(features.values)", "predicted = network(X)"),
        says=("float64|double", "float32|float()"),
    ),
    crash(
        "bfloat16_model_float_input",
        "the model was cast to bfloat16, the batch was not",
        kind="double_float",
        style="typed",
        source="GitHub issue, mat1 and mat2 must have the same dtype, but got Float and BFloat16",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Precision:
    dtype: torch.dtype = torch.bfloat16


def make_batch(n: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 12)
    return x, (x[:, 0] > 0).long()


torch.manual_seed(0)
precision = Precision()
model = nn.Sequential(nn.Linear(12, 20), nn.SiLU(), nn.Linear(20, 2)).to(precision.dtype)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x, y = make_batch(16)
    logits = model(x)
    loss = nn.functional.cross_entropy(logits.float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("logits = model(x)", "logits = model(x.to(precision.dtype))"),),
        line=("logits = model(x)", "x = torch.randn(n, 12)", ".to(precision.dtype)"),
        says=(
            "bfloat16",
            "input|batch|weight|.to(",
        ),
    ),
)
