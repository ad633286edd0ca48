"""Crashes: samples that do not stack."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "gray_and_color_photos",
        "some photos have one channel and others three",
        kind="collate",
        style="custom_parts",
        source="discuss.pytorch.org, stack of RGB and grayscale images",
        program="""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Album(Dataset):
    def __init__(self, n):
        rng = np.random.default_rng(0)
        self.photos = [rng.random((3 if i % 7 else 1, 16, 16), dtype=np.float32) for i in range(1, n + 1)]

    def __len__(self):
        return len(self.photos)

    def __getitem__(self, index):
        photo = torch.from_numpy(self.photos[index])
        return photo, index % 3


torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3))
optimizer = torch.optim.Adam(net.parameters())
for photos, classes in DataLoader(Album(24), batch_size=8):
    loss = nn.functional.cross_entropy(net(photos), classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "photo = torch.from_numpy(self.photos[index])",
                "photo = torch.from_numpy(self.photos[index]).expand(3, -1, -1)",
            ),
        ),
        line=(
            "photo = torch.from_numpy(self.photos[index])",
            "return photo, index % 3",
            "for photos, classes in DataLoader",
            "self.photos = [",
        ),
        says=(
            "3",
            "1",
            "sample|channel|gray|grey|photo|rgb",
        ),
    ),
    crash(
        "lists_of_unequal_length",
        "the samples hold lists of labels of unequal length",
        kind="collate",
        style="functional",
        source="Stack Overflow, each element in list of batch should be of equal size",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader


def make_samples(n):
    torch.manual_seed(0)
    return [{"x": torch.randn(6), "tags": list(range(1 + i % 3))} for i in range(n)]


def merge(samples):
    hot = torch.zeros(len(samples), 3)
    for row, sample in enumerate(samples):
        hot[row, sample["tags"]] = 1.0
    return {"x": torch.stack([sample["x"] for sample in samples]), "tags": hot}


def train(model, loader):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for batch in loader:
        loss = nn.functional.binary_cross_entropy_with_logits(model(batch["x"]), batch["tags"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


loader = DataLoader(make_samples(24), batch_size=6)
train(nn.Linear(6, 3), loader)
""",
        repair=(
            (
                "DataLoader(make_samples(24), batch_size=6)",
                "DataLoader(make_samples(24), batch_size=6, collate_fn=merge)",
            ),
        ),
        line=("DataLoader(make_samples(24), batch_size=6)", "for batch in loader", '"tags": list(range('),
        says=("tags", "collate|pad|length|size"),
    ),
    crash(
        "sample_holds_an_object",
        "the samples hold an object that is no tensor",
        kind="collate",
        style="notebook_cells",
        source="Stack Overflow, default_collate: batch must contain tensors; found PIL image",
        program="""
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

rng = np.random.default_rng(0)
pictures = [Image.fromarray(rng.integers(0, 256, (10, 10), dtype=np.uint8)) for _ in range(20)]
# %%
class Pictures(Dataset):
    def __init__(self, transform=None):
        self.transform = transform

    def __len__(self):
        return len(pictures)

    def __getitem__(self, i):
        picture = pictures[i]
        if self.transform:
            picture = self.transform(picture)
        return picture, i % 2


def to_tensor(picture):
    return torch.from_numpy(np.array(picture)).float().unsqueeze(0) / 255
# %%
loader = DataLoader(Pictures(), batch_size=4)
net = nn.Sequential(nn.Flatten(), nn.Linear(100, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("Pictures(), batch_size=4", "Pictures(to_tensor), batch_size=4"),),
        line=("Pictures(), batch_size=4", "for x, y in loader", "return picture, i % 2"),
        says=(
            "image",
            "transform|to_tensor|picture|sample|__getitem__",
        ),
    ),
    crash(
        "crop_one_pixel_smaller",
        "a resize that rounds makes some images one pixel smaller",
        kind="collate",
        style="lightning_like",
        source="GitHub issue, got [3, 224, 224] at entry 0 and [3, 224, 223] at entry 6",
        program="""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Slides(Dataset):
    sizes = [(40, 40), (30, 30), (20, 20), (40, 39), (20, 20), (30, 30)]

    def __len__(self):
        return len(self.sizes)

    def __getitem__(self, i):
        slide = torch.full((1, 3, *self.sizes[i]), i / 6)
        scale = 16 / self.sizes[i][0]
        slide = F.interpolate(slide, scale_factor=scale)
        return slide[0], i % 2


class Grader(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 14 * 14, 2))

    def training_step(self, batch):
        return F.cross_entropy(self.net(batch[0]), batch[1])


torch.manual_seed(0)
module = Grader()
optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
for batch in DataLoader(Slides(), batch_size=3):
    loss = module.training_step(batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("F.interpolate(slide, scale_factor=scale)", "F.interpolate(slide, size=(16, 16))"),),
        line=(
            "F.interpolate(slide, scale_factor=scale)",
            "scale = 16 / self.sizes[i][0]",
            "return slide[0], i % 2",
            "for batch in DataLoader(",
        ),
        says=(
            "16",
            "15",
            "sample|slide|interpolate|pad|resize",
        ),
    ),
)
