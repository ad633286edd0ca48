"""Crashes: one sample where a batch is expected."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "squeeze_removes_batch",
        "squeeze removes the batch axis when the batch has one sample",
        kind="batch_axis",
        style="functional",
        source="discuss.pytorch.org, squeeze and a batch of one",
        program="""
import torch
import torch.nn.functional as F
from torch import nn


def make_model():
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1)), nn.Linear(8, 3)


def predict(body, head, images):
    features = body(images).squeeze()
    return F.log_softmax(head(features), dim=1)


def train(body, head, batches):
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
    for images, labels in batches:
        loss = F.nll_loss(predict(body, head, images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
train(*make_model(), [(torch.rand(n, 1, 6, 6), torch.randint(3, (n,))) for n in (4, 4, 1)])
""",
        repair=((".squeeze()", ".flatten(1)"),),
        line=(".squeeze()", "F.log_softmax(head(features), dim=1)"),
        says=("squeeze", "batch"),
    ),
    crash(
        "single_volume_norm",
        "one volume without a batch axis is segmented for a preview",
        kind="batch_axis",
        style="custom_parts",
        source="GitHub issue, expected 5D input (got 4D input)",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Volumes(Dataset):
    def __init__(self, n):
        generator = torch.Generator().manual_seed(0)
        self.volumes = torch.rand(n, 1, 6, 8, 8, generator=generator)

    def __len__(self):
        return len(self.volumes)

    def __getitem__(self, i):
        volume = self.volumes[i]
        return volume, (volume[0] > 0.5).long()


torch.manual_seed(0)
data = Volumes(8)
net = nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.Conv3d(4, 2, 1))
optimizer = torch.optim.Adam(net.parameters())
for volumes, masks in DataLoader(data, batch_size=4):
    loss = nn.functional.cross_entropy(net(volumes), masks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
net.eval()
volume, mask = data[0]
print((net(volume).argmax(1) == mask).float().mean())
""",
        repair=(("net(volume).argmax(1)", "net(volume.unsqueeze(0)).argmax(1)"),),
        line=("net(volume).argmax(1)", "volume, mask = data[0]"),
        says=("batch", "unsqueeze|[none"),
    ),
)
