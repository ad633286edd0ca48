"""Crashes: targets of a shape, type or range that a loss does not take."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "logits_keep_last_axis",
        "a binary classifier gives a column, the labels are a row of numbers",
        kind="loss_target",
        style="trainer",
        source="Stack Overflow, Target size must be the same as input size, BCEWithLogitsLoss",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        self.criterion = nn.BCEWithLogitsLoss()
        self.optimizer = torch.optim.AdamW(model.parameters())

    def compute_loss(self, x, y):
        return self.criterion(self.model(x), y)

    def fit(self, epochs):
        for _ in range(epochs):
            for x, y in self.loader:
                self.optimizer.zero_grad()
                self.compute_loss(x, y).backward()
                self.optimizer.step()


torch.manual_seed(0)
x = torch.randn(30, 6)
y = (x.sum(dim=1) > 0).float()
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
Trainer(model, DataLoader(TensorDataset(x, y), batch_size=10)).fit(2)
""",
        repair=(("self.criterion(self.model(x), y)", "self.criterion(self.model(x).squeeze(1), y)"),),
        line=("return self.criterion(self.model(x), y)", "y = (x.sum(dim=1) > 0).float()"),
        says=("squeeze|view(-1|reshape(-1|flatten|[:, 0]|[:, none]|keepdim", "10", "1"),
    ),
    crash(
        "ctc_lengths_before_stride",
        "the lengths for CTC are those of the audio, the strided convolution halves the frames",
        kind="loss_target",
        style="hand_written_model",
        source="GitHub issue, ctc_loss Expected input_lengths to have value at most",
        program="""
import torch
from torch import nn


class Speech(nn.Module):
    def __init__(self, n_mels=8, letters=6):
        super().__init__()
        self.down = nn.Conv1d(n_mels, 16, 3, stride=2, padding=1)
        self.rnn = nn.GRU(16, 16, batch_first=True)
        self.head = nn.Linear(16, letters)

    def forward(self, audio):
        x = self.down(audio).relu().transpose(1, 2)
        return self.head(self.rnn(x)[0]).log_softmax(-1).transpose(0, 1)


torch.manual_seed(0)
model = Speech()
ctc = nn.CTCLoss()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    audio = torch.randn(3, 8, 40)
    audio_lengths = torch.tensor([40, 36, 30])
    text, text_lengths = torch.randint(1, 6, (3, 5)), torch.tensor([5, 4, 3])
    loss = ctc(model(audio), text, audio_lengths, text_lengths)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "ctc(model(audio), text, audio_lengths, text_lengths)",
                "ctc(model(audio), text, (audio_lengths + 1) // 2, text_lengths)",
            ),
        ),
        line=(
            "loss = ctc(model(audio), text, audio_lengths, text_lengths)",
            "audio_lengths = torch.tensor([40, 36, 30])",
            "stride=2, padding=1)",
        ),
        says=("20", "40", "audio_lengths|stride|// 2|input_lengths=|frames"),
    ),
    crash(
        "variance_without_softplus",
        "the network gives a variance that may be negative",
        kind="loss_target",
        style="typed",
        source="discuss.pytorch.org, GaussianNLLLoss var has negative entry/entries",
        program="""
import torch
from torch import Tensor, nn


class Uncertain(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, 16), nn.ReLU())
        self.mean = nn.Linear(16, 1)
        self.var = nn.Linear(16, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(x)
        return self.mean(x), self.var(x)


def train(model: nn.Module, x: Tensor, y: Tensor, epochs: int) -> None:
    optimizer = torch.optim.Adam(model.parameters())
    criterion = nn.GaussianNLLLoss()
    for _ in range(epochs):
        mean, var = model(x)
        loss = criterion(mean, y, var)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
x = torch.randn(50, 3)
train(Uncertain(3), x, x.sum(1, keepdim=True), epochs=3)
""",
        repair=(("return self.mean(x), self.var(x)", "return self.mean(x), nn.functional.softplus(self.var(x))"),),
        line=(
            "return self.mean(x), self.var(x)",
            "loss = criterion(mean, y, var)",
            "self.var = nn.Linear(16, 1)",
            "mean, var = model(x)",
        ),
        says=("softplus|exp|relu|clamp|square|abs", "var"),
    ),
    crash(
        "weights_of_pixels_and_samples",
        "the weights of the samples are multiplied with a loss per pixel",
        kind="loss_target",
        style="reshape_by_hand",
        source="discuss.pytorch.org, per-sample weights with reduction none, size of tensor a must match",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))
criterion = nn.CrossEntropyLoss(reduction="none")
optimizer = torch.optim.Adam(net.parameters())
importance = torch.rand(30) + 0.5
images, masks = torch.rand(30, 3, 8, 8), torch.randint(4, (30, 8, 8))
for rows in torch.randperm(30).split(10):
    b = len(rows)
    scores = net(images[rows]).permute(0, 2, 3, 1).reshape(b * 64, 4)
    per_pixel = criterion(scores, masks[rows].reshape(b * 64))
    loss = (per_pixel * importance[rows]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("(per_pixel * importance[rows])", "(per_pixel.view(b, 64).mean(1) * importance[rows])"),),
        line=("loss = (per_pixel * importance[rows]).mean()", "per_pixel = criterion("),
        says=("640", "10", "per_pixel|importance"),
    ),
)
