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
    crash(
        "frames_into_lstm",
        "frames of a video go into an LSTM without being flattened",
        kind="layout",
        style="lightning_like",
        source="discuss.pytorch.org, CNN followed by LSTM, input must have 3 dimensions",
        program="""
import torch
from torch import nn


class ClipReader(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, stride=2)
        self.lstm = nn.LSTM(4 * 5 * 5, 16, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, clips):
        b, t = clips.shape[:2]
        maps = torch.relu(self.conv(clips.flatten(0, 1)))
        states, _ = self.lstm(maps.view(b, t, 4, 25))
        return self.head(states[:, -1])

    def training_step(self, batch, batch_idx):
        clips, labels = batch
        return nn.functional.cross_entropy(self(clips), labels)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


torch.manual_seed(0)
module = ClipReader()
optimizer = module.configure_optimizers()
for i in range(3):
    loss = module.training_step((torch.rand(4, 6, 1, 12, 12), torch.randint(3, (4,))), i)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("maps.view(b, t, 4, 25)", "maps.view(b, t, 4 * 25)"),),
        says=("lstm", "4", "flatten|view|reshape|100"),
    ),
    crash(
        "image_into_attention",
        "maps of an image go into attention without becoming a sequence",
        kind="layout",
        style="typed",
        source="Stack Overflow, query should be unbatched 2D or batched 3D tensor",
        program="""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class MapConfig:
    channels: int = 12
    heads: int = 3


class MapAttention(nn.Module):
    def __init__(self, config: MapConfig) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, config.channels, 3, padding=1)
        self.attention = nn.MultiheadAttention(config.channels, config.heads, batch_first=True)
        self.head = nn.Linear(config.channels, 2)

    def forward(self, images: Tensor) -> Tensor:
        maps = self.stem(images).permute(0, 2, 3, 1)
        mixed, _ = self.attention(maps, maps, maps)
        return self.head(mixed.flatten(1, -2).mean(1))


torch.manual_seed(0)
model = MapAttention(MapConfig())
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.rand(4, 3, 5, 5)), torch.randint(2, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("permute(0, 2, 3, 1)", "permute(0, 2, 3, 1).flatten(1, 2)"),),
        line=("permute(0, 2, 3, 1)", "mixed, _ = self.attention(maps, maps, maps)"),
        says=("attention", "4", "flatten|reshape|view|sequence"),
    ),
)
