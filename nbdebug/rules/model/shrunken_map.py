"""M318: feature maps are smaller than the kernels, which see mostly padding."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.finding import Finding
from nbdebug.measurements.axes import KernelCoverage
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup


@rule("M318", "warning")
def shrunken_map(kernel_coverage: list[KernelCoverage], *, least: float = 0.4) -> Iterator[Finding]:
    """Feature maps are smaller than the kernels, so that these see mostly padding.

    ## What it does
    Counts, for each convolution of the first pass, the kernel weights that meet a value of the feature map at any
    output position. The other weights are only ever multiplied with padding zeros.

    ## Why it matters
    Such weights have no influence and no gradient: a 3 x 3 kernel on a 1 x 1 map is a 1 x 1 kernel that costs nine
    times as much. The information that earlier layers discarded to make the map so small is lost. This happens when a
    network for large images receives small ones.

    ## How it is measured
    Exactly, from sizes, stride, padding and dilation in the autograd graph. Reported when fewer than ``least`` = 40%
    of the weights of a kernel are used: a last stride from 2 x 2 to 1 x 1 uses 44%, as some encoders intend. Padding
    that was added by an earlier call counts as data.

    ## How to fix
    Remove the early strides and pooling, or use larger images.

    ## When to ignore
    When a network is only tested on smaller images than it is built for.

    ## References
    Chen et al. 2017, arXiv:1706.05587, section 3.3 and figure 4: as the rate grows, fewer weights of a dilated kernel
    are valid, until it degenerates to 1 x 1.
    """
    if underused := [kernel for kernel in kernel_coverage if kernel.coverage < least]:
        yield _finding(underused, kernel_coverage, least)


def _finding(underused: list[KernelCoverage], kernels: list[KernelCoverage], min_used: float) -> Finding:
    first, (size, kernel_size) = (
        underused[0],
        (_format_size(underused[0].input_size), _format_size(underused[0].kernel_size)),
    )
    more = f". The same holds for {len(underused)} of {len(kernels)} convolutions" if len(underused) > 1 else ""
    return Finding(
        message=f"A kernel of size {kernel_size} is applied to a feature map of size {size}: only "
        f"{first.coverage:.0%} of its weights are multiplied with values of the map, the others only with padding "
        f"(expected at least {min_used:.0%}){more}.",
        where=first.node.where,
        cause=f"Earlier strides and pooling have reduced {_format_size(kernels[0].input_size)} to {size}.",
        fix="# for small images: stride 1 and no pooling in the first layers\nnn.Conv2d(3, 64, 3, stride=1, padding=1)",
        evidence={
            "layers": [
                (layer.node.module, layer.input_size, layer.kernel_size, layer.coverage) for layer in underused[:20]
            ]
        },
        explains=("G416", "M319"),
    )


def _format_size(sizes: tuple[int, ...]) -> str:
    return " x ".join(map(str, sizes))


def _images_setup(strides: int) -> Setup:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x = torch.randn(64, 1, 8, 8)
        layers: list[nn.Module] = []
        for number in range(4):
            layers += [nn.Conv2d(8 if number else 1, 8, 3, 2 if number < strides else 1, padding=1), nn.ReLU()]
        model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
    y: Tensor = (x[:, 0, :4].sum((1, 2)) > x[:, 0, 4:].sum((1, 2))).long()
    return minimal_setup(model, x, y, nn.CrossEntropyLoss())


def bad() -> Setup:
    """Three strides, after which a 3 x 3 kernel covers a single pixel."""
    return _images_setup(strides=3)


def good() -> Setup:
    """One stride."""
    return _images_setup(strides=1)
