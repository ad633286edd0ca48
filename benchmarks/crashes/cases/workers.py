"""Crashes: worker processes of a loader that die or cannot be started."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "lambda_transform_spawned",
        "a data set with a lambda cannot be sent to a spawned worker",
        kind="workers",
        style="script",
        source="Stack Overflow, Can't pickle local object lambda, Windows",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Scaled(Dataset):
    def __init__(self, n, transform):
        self.values = torch.arange(n, dtype=torch.float32)
        self.transform = transform

    def __len__(self):
        return len(self.values)

    def __getitem__(self, i):
        return self.transform(self.values[i]), self.values[i]


torch.manual_seed(0)
data = Scaled(40, lambda value: torch.stack([value, value**2]) / 1600)
loader = DataLoader(data, batch_size=10, num_workers=1, multiprocessing_context="spawn")
model = nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x).squeeze(1), y / 40)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(('num_workers=1, multiprocessing_context="spawn")', "num_workers=0)"),),
        line=("num_workers=1", "data = Scaled(40, lambda value", "for x, y in loader"),
        says=("lambda|pickle", "worker"),
    ),
    crash(
        "index_error_in_worker",
        "the data set is one longer than its rows, which shows in a worker",
        kind="workers",
        style="notebook_cells",
        source="Stack Overflow, IndexError: Caught IndexError in DataLoader worker process 0",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
windows = torch.randn(30).cumsum(0).unfold(0, 5, 1)
# %%
class Windows(Dataset):
    def __len__(self):
        return len(windows) + 1

    def __getitem__(self, i):
        return windows[i, :4], windows[i, 4:]
# %%
loader = DataLoader(Windows(), batch_size=9, num_workers=1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
# %%
for history, future in loader:
    loss = nn.functional.mse_loss(model(history), future)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("return len(windows) + 1", "return len(windows)"),),
        line=("return len(windows) + 1", "return windows[i, :4], windows[i, 4:]"),
        says=("26", "worker|index"),
    ),
)
