"""Crashes: images given to layers of sequences and the other way round."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "sequences_into_conv2d",
        "a batch of sequences goes into two-dimensional layers",
        kind="layout",
        style="trainer",
        source="discuss.pytorch.org, 2-D convolution over spectrograms",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 20 * 32, 5),
    )


class AudioTrainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train(self, loader):
        for spectrogram, label in loader:
            scores = self.model(spectrogram)
            loss = nn.functional.cross_entropy(scores, label)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


torch.manual_seed(0)
spectrograms = torch.rand(32, 40, 64)
labels = torch.randint(5, (32,))
AudioTrainer(build()).train(DataLoader(TensorDataset(spectrograms, labels), batch_size=16))
""",
        repair=(("self.model(spectrogram)", "self.model(spectrogram.unsqueeze(1))"),),
        line=("self.model(spectrogram)", "spectrograms = torch.rand(32, 40, 64)"),
        says=("channel", "unsqueeze", "16"),
    ),
    crash(
        "series_into_conv1d",
        "plain series without an axis of channels go into Conv1d",
        kind="layout",
        style="notebook_cells",
        source="Stack Overflow, Conv1d for time series of one variable",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
windows = torch.randn(60, 32).cumsum(1)
labels = (windows[:, -1] > 0).long()
# %%
net = nn.Sequential(
    nn.Conv1d(1, 6, kernel_size=5),
    nn.ReLU(),
    nn.AdaptiveAvgPool1d(1),
    nn.Flatten(),
    nn.Linear(6, 2),
)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
# %%
for rows in torch.arange(60).split(15):
    loss = nn.functional.cross_entropy(net(windows[rows]), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("net(windows[rows])", "net(windows[rows].unsqueeze(1))"),),
        line=("net(windows[rows])", "windows = torch.randn(60, 32)"),
        says=("channel", "unsqueeze", "15"),
    ),
)
