"""M318: kernels that stand on less than they span."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.measurements.axes import compute_axis_coverage
from nbdebug.rules.examples import minimal_setup


def found(model: nn.Module, x: Tensor) -> list[Finding]:
    y = (x.flatten(1).mean(1) > 0).long()
    return [
        one
        for one in Debugger.of(minimal_setup(model, x, y, nn.CrossEntropyLoss())).checkup(select=["M318"])
        if one.code
    ]


def pictures(side: int) -> Tensor:
    return torch.randn(32, 3, side, side, generator=torch.Generator().manual_seed(0))


def block(inside: int, outside: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU())


def imagenet_style() -> nn.Module:
    """A stem of stride four and three more strides: thirty-two times smaller at the end."""
    stem = [nn.Conv2d(3, 8, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    body = [block(8, 8, 1), block(8, 8, 2), block(8, 8, 2), block(8, 8, 2), block(8, 8, 1)]
    return nn.Sequential(*stem, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))


def dilated(rate: int) -> nn.Module:
    """A block with a dilated convolution, as for segmentation."""
    body = [block(3, 8, 2), block(8, 8, 2), nn.Conv2d(8, 8, 3, padding=rate, dilation=rate), nn.ReLU()]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))


class Pooling(nn.Module):
    """A network in functional style that pools after each of five convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(3 if n == 0 else 8, 8, 5, padding=2) for n in range(5)])
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        for conv in self.convs:
            x = F.max_pool2d(F.relu(conv(x)), 2, ceil_mode=True)
        scores: Tensor = self.head(x.mean((2, 3)))
        return scores


class Sequence(nn.Module):
    """A convolution over time on what is left of eight steps after three strides."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [(3, 2), (8, 2), (8, 2), (8, 1)]
        self.body = nn.Sequential(*[nn.Conv1d(width, 8, 5, stride, padding=2) for width, stride in sizes])
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(x).flatten(1))
        return scores


@pytest.mark.parametrize(
    ("model", "x", "said"),
    [
        (imagenet_style, pictures(16), "size 3 x 3 is applied to a feature map of size 1 x 1: only 11%"),
        (lambda: dilated(12), pictures(32), "size 3 x 3 is applied to a feature map of size 8 x 8: only 11%"),
        (Pooling, pictures(16), "size 5 x 5 is applied to a feature map of size 2 x 2: only 36%"),
        (Sequence, pictures(8)[:, :, 0], "size 5 is applied to a feature map of size 1: only 20%"),
    ],
)
def test_kernels_that_see_little_but_padding(model: Callable[[], nn.Module], x: Tensor, said: str) -> None:
    (one,) = found(model(), x)
    assert said in one.message
    assert one.severity == "warning"
    assert one.where.module is not None


class Squeezing(nn.Module):
    """Channels weighed by kernels of one by one on a map of one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.gate = block(3, 8, 1), nn.Conv2d(8, 8, 1)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        x = x * torch.sigmoid(self.gate(F.adaptive_avg_pool2d(x, 1)))
        scores: Tensor = self.head(x.mean((2, 3)))
        return scores


class Causal(nn.Module):
    """Dilated convolutions over time, padded on the left by hand, reaching further back than there is."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(3 if n == 0 else 8, 8, 2, dilation=2**n) for n in range(5)])
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        for conv in self.convs:
            x = F.relu(conv(F.pad(x, (conv.dilation[0], 0))))
        scores: Tensor = self.head(x[:, :, -1])
        return scores


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (imagenet_style, pictures(64)),
        (lambda: dilated(2), pictures(32)),
        (Squeezing, pictures(16)),
        (Causal, pictures(8)[:, :, 0]),
        (lambda: nn.Sequential(nn.Conv2d(3, 8, 8), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)), pictures(8)),
    ],
)
def test_maps_of_a_fitting_size_are_quiet(model: Callable[[], nn.Module], x: Tensor) -> None:
    assert not found(model(), x)


@pytest.mark.parametrize(
    ("axis", "share"),
    [((1, 3, 1, 1, 1), 1 / 3), ((2, 3, 1, 1, 1), 1.0), ((2, 5, 1, 2, 1), 0.6), ((8, 3, 1, 12, 12), 1 / 3)],
)
def test_the_used_share_of_a_kernel_is_that_of_its_gradient(axis: tuple[int, ...], share: float) -> None:
    size, kernel, stride, padding, dilation = axis
    layer = nn.Conv1d(1, 1, kernel, stride, padding, dilation, bias=False)
    layer(torch.ones(1, 1, size)).sum().backward()
    assert layer.weight.grad is not None
    assert float((layer.weight.grad != 0).float().mean()) == pytest.approx(share)
    assert compute_axis_coverage(*axis) == pytest.approx(share)
