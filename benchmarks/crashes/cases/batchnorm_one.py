"""Crashes: batch normalization of one value per channel."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "pooled_branch_with_norm",
        "batch normalization after global pooling with a batch of one image",
        kind="batchnorm_one",
        style="hand_written_model",
        source="GitHub issue, ASPP pooling with batch size 1",
        program="""
import torch
from torch import nn
from torch.nn import functional as F


class ASPP(nn.Module):
    def __init__(self, n_in=8, n_out=8):
        super().__init__()
        self.local = nn.Sequential(nn.Conv2d(n_in, n_out, 3, padding=2, dilation=2), nn.BatchNorm2d(n_out))
        self.pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(n_in, n_out, 1), nn.BatchNorm2d(n_out))
        self.head = nn.Conv2d(2 * n_out, 3, 1)

    def forward(self, x):
        pooled = F.interpolate(self.pooled(x), size=x.shape[2:])
        return self.head(torch.cat([self.local(x), pooled], dim=1))


torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), ASPP())
optimizer = torch.optim.Adam(model.parameters())
batch_size = 1
for _ in range(3):
    images, masks = torch.rand(batch_size, 3, 16, 16), torch.randint(3, (batch_size, 16, 16))
    loss = F.cross_entropy(model(images), masks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("batch_size = 1", "batch_size = 2"),),
        line=("batch_size = 1", "self.pooled = nn.Sequential(", "F.interpolate(self.pooled(x)"),
        says=("pooled", "batch"),
    ),
    crash(
        "prediction_in_training_mode",
        "one row is predicted while the model is in training mode",
        kind="batchnorm_one",
        style="notebook_cells",
        source="Stack Overflow, model.eval() forgotten",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
X = torch.randn(50, 4)
y = X.mean(dim=1, keepdim=True)
model = nn.Sequential(nn.Linear(4, 10), nn.BatchNorm1d(10), nn.ReLU(), nn.Linear(10, 1))
# %%
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(4):
    loss = nn.functional.mse_loss(model(X), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
# %%
sample = X[:1]
prediction = model(sample)
print(prediction.item())
""",
        repair=(("prediction = model(sample)", "model.eval()\nprediction = model(sample)"),),
        line=("prediction = model(sample)", "sample = X[:1]"),
        says=("eval",),
    ),
    crash(
        "instance_norm_of_one_pixel",
        "instance normalization of maps of one pixel",
        kind="batchnorm_one",
        style="script",
        source="GitHub issue, Expected more than 1 spatial element when training",
        program="""
import torch
import torch.nn as nn

torch.manual_seed(0)
encoder = nn.Sequential(
    nn.Conv2d(3, 8, 4, stride=4),
    nn.InstanceNorm2d(8),
    nn.ReLU(),
    nn.Conv2d(8, 16, 4, stride=4),
    nn.InstanceNorm2d(16),
    nn.Flatten(),
    nn.Linear(16, 2),
)
x = torch.rand(5, 3, 16, 16)
y = torch.tensor([0, 1, 1, 0, 1])
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
for step in range(3):
    loss = nn.functional.cross_entropy(encoder(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("    nn.InstanceNorm2d(16),\n", ""),),
        line=(
            "nn.InstanceNorm2d(16)",
            "torch.rand(5, 3, 16, 16)",
            "nn.Conv2d(8, 16, 4, stride=4)",
            "cross_entropy(encoder(x), y)",
        ),
        says=(
            "instancenorm|instance norm|module 4|`4`",
            "spatial|pixel|1 × 1|1x1",
        ),
    ),
)
