"""M318: feature maps have shrunk to less than what a kernel spans."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.evidence.kernels import Kernel
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import program
from nbdebug.setup import Setup


@rule("M318", "warning")
def shrunken_map(kernels: list[Kernel], *, least: float = 0.4) -> Iterator[Finding]:
    """Feature maps have shrunk to less than what the kernels span, so that these see little but padding.

    ## What it does
    Counts, for each convolution of the first pass, the weights of its kernel that meet a value of the map at any place
    of the output. The others are multiplied with the zeros of the padding, always.

    ## Why it matters
    Such weights have no influence and no gradient: a kernel of 3 x 3 on a map of 1 x 1 is one of 1 x 1 that costs nine
    times as much. What the layers before threw away to make the map so small is gone. It is what a network for large
    pictures does with small ones.

    ## How it is measured
    Exactly, from sizes, stride, padding and dilation in the autograd graph. It speaks when fewer than ``least`` = 40 %
    of the weights of a kernel are used: a last stride from 2 x 2 to 1 x 1 uses 44 %, as some encoders mean it. Padding
    that was done before, by another call, counts as data.

    ## How to fix
    Take out the early strides and pools, or give larger pictures.

    ## When to ignore
    When a network is only tried on smaller pictures than those it is for.

    ## References
    Chen et al. 2017, arXiv:1706.05587, section 3.3 and figure 4: as the rate grows, fewer weights of a dilated kernel
    are valid, until it degenerates to 1 x 1.
    """
    if few := [one for one in kernels if one.used < least]:
        yield finding(few, kernels, least)


def finding(few: list[Kernel], every: list[Kernel], least: float) -> Finding:
    """The first convolution on a map that is too small, and how many more there are."""
    first, (size, kernel) = few[0], (shape(few[0].size), shape(few[0].kernel))
    more = f"; so it is in {len(few)} of {len(every)} convolutions" if len(few) > 1 else ""
    return Finding(
        message=f"A kernel of {kernel} runs over a map of {size}: {first.used:.0%} of its weights ever meet anything "
        f"but padding, expected {least:.0%} or more{more}.",
        where=first.node.where,
        cause=f"Strides and pools before it have shrunk {shape(every[0].size)} to {size}.",
        fix="# for small pictures: stride 1 and no pooling in the first layers\n"
        "nn.Conv2d(3, 64, 3, stride=1, padding=1)",
        evidence={"layers": [(one.node.module, one.size, one.kernel, one.used) for one in few[:20]]},
        explains=("G416", "M319"),
    )


def shape(sizes: tuple[int, ...]) -> str:
    """Lengths as one writes them, such as ``3 x 3``."""
    return " x ".join(map(str, sizes))


def pictures(strides: int) -> Setup:
    """Sixty-four pictures of 8 x 8, bright above or below, and four convolutions of which the first have strides."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x = torch.randn(64, 1, 8, 8)
        layers: list[nn.Module] = []
        for number in range(4):
            layers += [nn.Conv2d(8 if number else 1, 8, 3, 2 if number < strides else 1, padding=1), nn.ReLU()]
        model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
    y: Tensor = (x[:, 0, :4].sum((1, 2)) > x[:, 0, 4:].sum((1, 2))).long()
    return program(model, x, y, nn.CrossEntropyLoss())


def bad() -> Setup:
    """Three strides, after which a kernel of 3 x 3 stands on one pixel."""
    return pictures(strides=3)


def good() -> Setup:
    """One stride."""
    return pictures(strides=1)
