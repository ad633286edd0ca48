"""M309 in many styles, and reshapes that keep the order of things."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.measurements.axes import is_swap, split_into_groups
from nbdebug.rules.examples import minimal_setup, network
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings, setup_builder

SERIES = torch.randn(64, 6, 8, generator=torch.Generator().manual_seed(2))
PICTURES = torch.rand(64, 5, 7, 3, generator=torch.Generator().manual_seed(3))


class Around(nn.Module):
    """A layer with functions before and after it, and a linear head."""

    def __init__(self, layer: nn.Module, width: int, before: Any = None, after: Any = None) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(width, 3)
        self.before, self.after = before or (lambda x: x), after or (lambda x: x)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.after(self.layer(self.before(x))))


def pooled(x: Tensor) -> Tensor:
    return x.mean((2, 3))


def channels_first(x: Tensor) -> Tensor:
    return x.view(-1, 8, 6)


def over_time(x: Tensor) -> Tensor:
    return x.mean(2)


def by_series(x: Tensor) -> Tensor:
    return x.view(-1, 6, 8).mean(1)


def by_head(x: Tensor) -> Tensor:
    return x.reshape(len(x), 32).view(32, 16)


def together(x: Tensor) -> Tensor:
    return x.view(16, 32)


def heads(x: Tensor) -> Tensor:
    return x.view(len(x), 2, 6, 4)[:, 0, :, :].flatten(1)


def split_heads(x: Tensor) -> Tensor:
    return x.view(len(x), 6, 2, 4).transpose(1, 2).reshape(len(x) * 2, 6, 4)


def both_directions(result: Any) -> Tensor:
    return result[1].reshape(-1, 10)


def both_directions_swapped(result: Any) -> Tensor:
    return result[1].transpose(0, 1).reshape(-1, 10)


def joined(x: Tensor) -> Tensor:
    return x.reshape(-1, 2, 6, 4).transpose(1, 2).reshape(-1, 6, 8).mean(1)


def by_pixel(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits.reshape(-1, 3), target.reshape(-1))


def by_pixel_moved(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits.permute(0, 2, 3, 1).reshape(-1, 3), target.reshape(-1))


def segmentation(loss_fn: Any) -> Callable[[], Setup]:
    x = PICTURES.permute(0, 3, 1, 2).contiguous()
    return lambda: minimal_setup(nn.Conv2d(3, 3, 3, padding=1), x, x.argmax(1), loss_fn)


def heads_as_wide_as_the_batch(x: Tensor) -> Tensor:
    return x.reshape(len(x), 4, 6, 4).mean((1, 3))


GRU = nn.GRU(8, 5, batch_first=True, bidirectional=True)
FAULTS: dict[str, Callable[[], Setup]] = {
    "channels last": setup_builder(Around(nn.Conv2d(3, 4, 3), 4, lambda x: x.view(-1, 3, 5, 7), pooled), PICTURES),
    "heads": setup_builder(Around(nn.Linear(8, 8), 24, after=heads), SERIES),
    "time and batch": setup_builder(Around(nn.GRU(8, 5), 5, lambda x: x.reshape(6, -1, 8), lambda r: r[1][0]), SERIES),
    "batch as long as the width": setup_builder(Around(nn.Linear(8, 16), 6, after=heads_as_wide_as_the_batch), SERIES),
    "states of both directions": setup_builder(Around(GRU, 10, after=both_directions), SERIES),
    "loss by pixel": segmentation(by_pixel),
    "bf16": setup_builder(
        Around(nn.Conv1d(8, 4, 3), 4, lambda x: x.view(-1, 8, 6), lambda h: h.mean(2)).bfloat16(), SERIES.bfloat16()
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_scrambling_reshape_is_found_at_its_line(name: str) -> None:
    (found,) = checkup_findings(FAULTS[name](), "M309")
    assert found.severity == "error"
    assert any(word in (found.where.source or "") for word in ("view(", "reshape("))


QUIET: dict[str, Callable[[], Setup]] = {
    "permuted": setup_builder(Around(nn.Conv2d(3, 4, 3), 4, lambda x: x.permute(0, 3, 1, 2), pooled), PICTURES),
    "heads joined again": setup_builder(Around(nn.Linear(8, 8), 8, after=lambda h: joined(split_heads(h))), SERIES),
    "states of both directions": setup_builder(Around(GRU, 10, after=both_directions_swapped), SERIES),
    "flattened": setup_builder(Around(nn.Flatten(), 48), SERIES),
    "time as samples": setup_builder(
        Around(nn.Linear(8, 8), 8, lambda x: x.reshape(-1, 8), lambda h: h.view(-1, 6, 8).mean(1)), SERIES
    ),
    "flat pictures": setup_builder(Around(nn.Linear(105, 8), 8, lambda x: x.view(len(x), -1)), PICTURES),
    "loss by pixel": segmentation(by_pixel_moved),
    "heads as samples": setup_builder(
        Around(nn.Linear(16, 16), 32, lambda x: x.view(32, 16), lambda h: h.view(16, 32)), SERIES[:, :4]
    ),
    "points": setup_builder(network(3)),
}


@pytest.mark.parametrize("name", QUIET)
def test_reshapes_that_keep_the_order_are_left_alone(name: str) -> None:
    assert checkup_findings(QUIET[name](), "M309") == []


@pytest.mark.parametrize(
    ("before", "after", "swapped"),
    [
        ((4, 6, 8), (6, 4, 8), True),
        ((4, 6, 8), (4, 2, 6, 4), True),
        ((4, 2, 6, 4), (4, 6, 8), True),
        ((4, 6, 8), (4, 6, 2, 4), False),
        ((4, 6, 1), (4, 1, 6), False),
        ((4, 6, 8), (24, 8), False),
        ((4, 6, 8), (12, 2, 8), False),
    ],
)
def test_what_counts_as_a_swap(before: tuple[int, ...], after: tuple[int, ...], swapped: bool) -> None:
    assert any(is_swap(*run) for run in split_into_groups(before, after)) is swapped
