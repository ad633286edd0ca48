"""Tests of M318 and compute_axis_coverage: kernels that cover mostly padding, and kernels that fit their maps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.finding import Finding
from nbdebug.measurements.axes import compute_axis_coverage
from nbdebug.rules.examples import minimal_setup
from tests.rules.rule_findings import rule_findings


def findings(model: nn.Module, x: Tensor) -> list[Finding]:
    y = (x.flatten(1).mean(1) > 0).long()
    return rule_findings(minimal_setup(model, x, y, nn.CrossEntropyLoss()), "M318")


def images(side: int) -> Tensor:
    return torch.randn(32, 3, side, side, generator=torch.Generator().manual_seed(0))


def conv_block(in_channels: int, out_channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, 3, stride, 1, bias=False), nn.BatchNorm2d(out_channels), nn.ReLU()
    )


def imagenet_network() -> nn.Module:
    """A stem of stride 4 and three more strides, for a total stride of 32."""
    stem = [nn.Conv2d(3, 8, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    body = [conv_block(8, 8, 1), conv_block(8, 8, 2), conv_block(8, 8, 2), conv_block(8, 8, 2), conv_block(8, 8, 1)]
    return nn.Sequential(*stem, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))


def dilated_network(rate: int) -> nn.Module:
    """A network with a dilated convolution, as for segmentation."""
    body = [conv_block(3, 8, 2), conv_block(8, 8, 2), nn.Conv2d(8, 8, 3, padding=rate, dilation=rate), nn.ReLU()]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))


class PoolingNetwork(nn.Module):
    """Five convolutions, each followed by pooling, in functional style."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(3 if n == 0 else 8, 8, 5, padding=2) for n in range(5)])
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        for conv in self.convs:
            x = F.max_pool2d(F.relu(conv(x)), 2, ceil_mode=True)
        scores: Tensor = self.head(x.mean((2, 3)))
        return scores


class StridedSequence(nn.Module):
    """A convolution over the single step that three strides leave of eight."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [(3, 2), (8, 2), (8, 2), (8, 1)]
        self.body = nn.Sequential(*[nn.Conv1d(width, 8, 5, stride, padding=2) for width, stride in sizes])
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(x).flatten(1))
        return scores


@pytest.mark.parametrize(
    ("model", "x", "text"),
    [
        (imagenet_network, images(16), "size 3 x 3 is applied to a feature map of size 1 x 1: only 11%"),
        (lambda: dilated_network(12), images(32), "size 3 x 3 is applied to a feature map of size 8 x 8: only 11%"),
        (PoolingNetwork, images(16), "size 5 x 5 is applied to a feature map of size 2 x 2: only 36%"),
        (StridedSequence, images(8)[:, :, 0], "size 5 is applied to a feature map of size 1: only 20%"),
    ],
    ids=["ImageNet strides", "dilation", "pooling", "sequence"],
)
def test_shrunken_map_under_kernels_over_padding_is_warning(
    model: Callable[[], nn.Module], x: Tensor, text: str
) -> None:
    (finding,) = findings(model(), x)
    assert text in finding.message
    assert finding.severity == "warning"
    assert finding.where.module is not None


class SqueezeExcitation(nn.Module):
    """Channel weights from 1 x 1 kernels on a 1 x 1 map."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.gate = conv_block(3, 8, 1), nn.Conv2d(8, 8, 1)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        x = x * torch.sigmoid(self.gate(F.adaptive_avg_pool2d(x, 1)))
        scores: Tensor = self.head(x.mean((2, 3)))
        return scores


class OnePaddingForBothAxes(nn.Module):
    """A convolution that torch lets have one padding for two axes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.head = nn.Parameter(torch.randn(4, 3, 3, 3) / 5), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(F.conv2d(x, self.weight, stride=(1,), padding=(1,)).relu().mean((2, 3)))
        return scores


class CausalConvolutions(nn.Module):
    """Dilated convolutions with manual left padding, whose receptive field exceeds the sequence."""

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
        (imagenet_network, images(64)),
        (lambda: dilated_network(2), images(32)),
        (SqueezeExcitation, images(16)),
        (CausalConvolutions, images(8)[:, :, 0]),
        (OnePaddingForBothAxes, images(8)),
        (lambda: nn.Sequential(nn.Conv2d(3, 8, 8), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)), images(8)),
    ],
    ids=[
        "ImageNet strides",
        "dilation",
        "squeeze and excitation",
        "causal",
        "one padding",
        "kernel as large as the map",
    ],
)
def test_shrunken_map_is_quiet_for_maps_of_sufficient_size(model: Callable[[], nn.Module], x: Tensor) -> None:
    assert not findings(model(), x)


@pytest.mark.parametrize(
    ("axis", "share"),
    [((1, 3, 1, 1, 1), 1 / 3), ((2, 3, 1, 1, 1), 1.0), ((2, 5, 1, 2, 1), 0.6), ((8, 3, 1, 12, 12), 1 / 3)],
)
def test_compute_axis_coverage_equals_share_of_kernel_with_gradient(axis: tuple[int, ...], share: float) -> None:
    size, kernel, stride, padding, dilation = axis
    layer = nn.Conv1d(1, 1, kernel, stride, padding, dilation, bias=False)
    layer(torch.ones(1, 1, size)).sum().backward()
    assert layer.weight.grad is not None
    assert float((layer.weight.grad != 0).float().mean()) == pytest.approx(share)
    assert compute_axis_coverage(*axis) == pytest.approx(share)
