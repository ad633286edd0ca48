"""Tests of M309: reshapes that scramble axes, and reshapes that keep their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.measurements.axes import ScrambledReshape, is_swap, split_into_groups
from nbdebug.rule_engine.rule_registry import find_rule
from nbdebug.rules.examples import minimal_setup, network
from nbdebug.rules.model.scrambled_axes import bad
from nbdebug.setup import Setup
from tests.rules.model.networks import WrappedLayer
from tests.rules.rule_findings import checkup_findings, setup_builder

SERIES = torch.randn(64, 6, 8, generator=torch.Generator().manual_seed(2))
IMAGES = torch.rand(64, 5, 7, 3, generator=torch.Generator().manual_seed(3))


def pool_pixels(x: Tensor) -> Tensor:
    return x.mean((2, 3))


def scrambled_heads(x: Tensor) -> Tensor:
    return x.view(len(x), 2, 6, 4)[:, 0, :, :].flatten(1)


def scrambled_heads_as_samples(x: Tensor) -> Tensor:
    heads = x.view(len(x) * 2, -1, 4)
    return (torch.softmax(heads @ heads.transpose(1, 2), -1) @ heads).unflatten(0, (len(x), 2)).mean((1, 2))


def merged_without_transpose(x: Tensor) -> Tensor:
    heads = x.view(len(x), 6, 2, 4).transpose(1, 2).flatten(0, 1)
    mixed = torch.softmax(torch.bmm(heads, heads.transpose(1, 2)), -1) @ heads
    return mixed.reshape(len(x), 6, 8).mean(1)


def attention_by_head(x: Tensor) -> Tensor:
    heads = x.view(len(x), 6, 2, 4).transpose(1, 2).reshape(len(x) * 2, 6, 4)
    mixed = torch.softmax(heads @ heads.transpose(1, 2), -1) @ heads
    return mixed.view(len(x), 2, 6, 4).transpose(1, 2).reshape(len(x), 6, 8).mean(1)


def groups_of_channels(x: Tensor) -> Tensor:
    return x.reshape(len(x) * 2, 3, 8).mean(1).reshape(len(x), -1)


def tokens_as_samples(x: Tensor) -> Tensor:
    return x.reshape(len(x) * 6, 2, 4).mean(1).reshape(len(x), 6, 4).mean(1)


def stacked_frames(x: Tensor) -> Tensor:
    return x.reshape(len(x) * 3, 16).relu().reshape(len(x), 3, 16).mean(1)


def split_heads(x: Tensor) -> Tensor:
    return x.view(len(x), 6, 2, 4).transpose(1, 2).reshape(len(x) * 2, 6, 4)


def scrambled_directions(result: Any) -> Tensor:
    return result[1].reshape(-1, 10)


def transposed_directions(result: Any) -> Tensor:
    return result[1].transpose(0, 1).reshape(-1, 10)


def merge_heads(x: Tensor) -> Tensor:
    return x.reshape(-1, 2, 6, 4).transpose(1, 2).reshape(-1, 6, 8).mean(1)


def scrambled_pixel_loss(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits.reshape(-1, 3), target.reshape(-1))


def permuted_pixel_loss(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits.permute(0, 2, 3, 1).reshape(-1, 3), target.reshape(-1))


def segmentation_setup(loss_fn: Any) -> Callable[[], Setup]:
    x = IMAGES.permute(0, 3, 1, 2).contiguous()
    return lambda: minimal_setup(nn.Conv2d(3, 3, 3, padding=1), x, x.argmax(1), loss_fn)


def heads_as_wide_as_the_batch(x: Tensor) -> Tensor:
    return x.reshape(len(x), 4, 6, 4).mean((1, 3))


def flattened_steps(x: Tensor) -> Tensor:
    flat = x.flatten(1)
    return flat.unflatten(1, (8, 6)).mean(2)


def unflattened_again(x: Tensor) -> Tensor:
    return x.flatten(1).unflatten(1, (6, 8)).flatten(0, 1).unflatten(0, (len(x), 6)).mean(1)


def padded_steps(x: Tensor) -> Tensor:
    """Swap axes by a view after padding."""
    return F.pad(x, (0, 0, 0, 1)).view(len(x), 8, 7).mean(2)


GRU = nn.GRU(8, 5, batch_first=True, bidirectional=True)
ADAPTER = nn.Sequential(nn.Flatten(), nn.Unflatten(1, (8, 6)))
FAULTS: dict[str, Callable[[], Setup]] = {
    "flatten and unflatten": setup_builder(WrappedLayer(nn.Linear(8, 8), 8, after=flattened_steps), SERIES),
    "padded": setup_builder(WrappedLayer(nn.Linear(8, 8), 8, after=padded_steps), SERIES),
    "modules in a row": setup_builder(WrappedLayer(nn.Conv1d(8, 4, 3), 4, ADAPTER, lambda h: h.mean(2)), SERIES),
    "channels last": setup_builder(
        WrappedLayer(nn.Conv2d(3, 4, 3), 4, lambda x: x.view(-1, 3, 5, 7), pool_pixels), IMAGES
    ),
    "heads": setup_builder(WrappedLayer(nn.Linear(8, 8), 24, after=scrambled_heads), SERIES),
    "heads as samples": setup_builder(WrappedLayer(nn.Linear(8, 8), 4, after=scrambled_heads_as_samples), SERIES),
    "samples to heads": setup_builder(WrappedLayer(nn.Linear(8, 8), 8, after=merged_without_transpose), SERIES),
    "time and batch": setup_builder(
        WrappedLayer(nn.GRU(8, 5), 5, lambda x: x.reshape(6, -1, 8), lambda r: r[1][0]), SERIES
    ),
    "batch as long as the width": setup_builder(
        WrappedLayer(nn.Linear(8, 16), 6, after=heads_as_wide_as_the_batch), SERIES
    ),
    "states of both directions": setup_builder(WrappedLayer(GRU, 10, after=scrambled_directions), SERIES),
    "loss by pixel": segmentation_setup(scrambled_pixel_loss),
    "bf16": setup_builder(
        WrappedLayer(nn.Conv1d(8, 4, 3), 4, lambda x: x.view(-1, 8, 6), lambda h: h.mean(2)).bfloat16(),
        SERIES.bfloat16(),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_scrambled_axes_by_reshape_is_error_at_its_line(name: str) -> None:
    (finding,) = checkup_findings(FAULTS[name](), "M309")
    assert finding.severity == "error"
    assert any(word in (finding.where.source or "") for word in ("view(", "reshape(", "flatten(", "self.before("))


def relative_scores(x: Tensor) -> Tensor:
    """Shift the rows of scores by relative position, as Transformer-XL does."""
    scores = F.pad(x @ x.transpose(1, 2), (1, 0))
    shifted = scores.view(len(x), 7, 6)[:, 1:]
    return shifted.reshape(len(x), 6, 6).mean(1)


def relative_scores_of_all_distances(x: Tensor) -> Tensor:
    """Shift the rows by two without padding, as Funnel does."""
    scores = x[:, :4] @ x.transpose(1, 2)
    shifted = scores.reshape(len(x), 6, 4)[:, 2:]
    return shifted.reshape(len(x), 4, 4).mean(1)


def scores_of_a_window(x: Tensor) -> Tensor:
    """Turn the diagonals of square scores into columns by one more row, as Longformer does."""
    scores = F.pad(x @ x.transpose(1, 2), (0, 0, 0, 1))
    return scores.view(len(x), 6, 7)[:, :, :4].mean(1)


HEALTHY: dict[str, Callable[[], Setup]] = {
    "relative positions": setup_builder(WrappedLayer(nn.Linear(8, 8), 6, after=relative_scores), SERIES),
    "mapped over samples": setup_builder(
        WrappedLayer(
            nn.Linear(8, 8), 8, after=lambda h: torch.vmap(lambda x: x.relu().flatten().view(6, 8))(h).mean(1)
        ),
        SERIES,
    ),
    "window": setup_builder(WrappedLayer(nn.Linear(8, 8), 4, after=scores_of_a_window), SERIES),
    "all distances": setup_builder(WrappedLayer(nn.Linear(8, 8), 4, after=relative_scores_of_all_distances), SERIES),
    "permuted": setup_builder(
        WrappedLayer(nn.Conv2d(3, 4, 3), 4, lambda x: x.permute(0, 3, 1, 2), pool_pixels), IMAGES
    ),
    "split and merged heads": setup_builder(
        WrappedLayer(nn.Linear(8, 8), 8, after=lambda h: merge_heads(split_heads(h))), SERIES
    ),
    "states of both directions": setup_builder(WrappedLayer(GRU, 10, after=transposed_directions), SERIES),
    "flattened and back": setup_builder(WrappedLayer(nn.Linear(8, 8), 8, after=unflattened_again), SERIES),
    "modules in a row": setup_builder(
        WrappedLayer(nn.Conv1d(6, 4, 3), 4, nn.Sequential(nn.Flatten(), nn.Unflatten(1, (6, 8))), lambda h: h.mean(2)),
        SERIES,
    ),
    "heads of attention": setup_builder(WrappedLayer(nn.Linear(8, 8), 8, after=attention_by_head), SERIES),
    "groups of channels": setup_builder(WrappedLayer(nn.Linear(8, 8), 16, after=groups_of_channels), SERIES),
    "tokens as samples": setup_builder(WrappedLayer(nn.Linear(8, 8), 4, after=tokens_as_samples), SERIES),
    "stacked frames": setup_builder(WrappedLayer(nn.Linear(8, 8), 16, after=stacked_frames), SERIES),
    "flattened": setup_builder(WrappedLayer(nn.Flatten(), 48), SERIES),
    "time as samples": setup_builder(
        WrappedLayer(nn.Linear(8, 8), 8, lambda x: x.reshape(-1, 8), lambda h: h.view(-1, 6, 8).mean(1)), SERIES
    ),
    "flat images": setup_builder(WrappedLayer(nn.Linear(105, 8), 8, lambda x: x.view(len(x), -1)), IMAGES),
    "loss by pixel": segmentation_setup(permuted_pixel_loss),
    "heads as samples": setup_builder(
        WrappedLayer(nn.Linear(16, 16), 32, lambda x: x.view(32, 16), lambda h: h.view(16, 32)), SERIES[:, :4]
    ),
    "points": setup_builder(network(3)),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_scrambled_axes_ignores_order_preserving_reshapes(name: str) -> None:
    assert checkup_findings(HEALTHY[name](), "M309") == []


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
def test_is_swap_detects_swapped_axes_in_reshape(
    before: tuple[int, ...], after: tuple[int, ...], swapped: bool
) -> None:
    assert any(is_swap(*group) for group in split_into_groups(before, after)) is swapped


class Enlarger(nn.Module):
    """A convolution whose four channels become an image of twice the size."""

    def __init__(self, enlarge: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.enlarge = nn.Conv2d(3, 4, 3, padding=1), enlarge

    def forward(self, x: Tensor) -> Tensor:
        return self.enlarge(self.body(x))


@pytest.mark.parametrize(
    ("enlarge", "fix"),
    [
        (lambda x: x.view(len(x), 1, 10, 14), "torch.nn.functional.pixel_shuffle("),
        (lambda x: x.reshape(len(x), 10, 14), "torch.nn.functional.pixel_shuffle("),
        (lambda x: F.pixel_shuffle(x, 2), None),
        (lambda x: x.view(len(x), 2, 2, 5, 7).permute(0, 3, 1, 4, 2).reshape(len(x), 1, 10, 14), None),
        (lambda x: x.flatten(2).mean(1), None),
    ],
    ids=["view", "reshape", "pixel shuffle", "permute", "pixels in a row"],
)
def test_scrambled_axes_of_channels_placed_as_rows_is_reported(
    enlarge: Callable[[Tensor], Tensor], fix: str | None
) -> None:
    x = torch.randn(64, 3, 5, 7)
    setup = minimal_setup(Enlarger(enlarge), x, torch.zeros_like(enlarge(torch.zeros(64, 4, 5, 7))), nn.MSELoss())
    assert [str(fix) in finding.fix for finding in checkup_findings(setup, "M309")] == ([True] if fix else [])


class TwiceViewed(nn.Module):
    """A layer whose features are viewed as channels, and then as rows."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4 * 5 * 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).view(-1, 4, 5, 7).view(-1, 1, 10, 14)


def test_scrambled_axes_of_features_viewed_as_channels_first_is_quiet() -> None:
    setup = minimal_setup(TwiceViewed(), torch.randn(64, 6), torch.zeros(64, 1, 10, 14), nn.MSELoss())
    assert checkup_findings(setup, "M309") == []


class MixedSeries(nn.Module):
    """Swaps steps and channels by a function that all blocks call."""

    def __init__(self, swap: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.swap, self.layer = swap, nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layer(self.swap(x)).transpose(1, 2)


def flattened_swap(x: Tensor) -> Tensor:
    return x.reshape(len(x), x.shape[2], x.shape[1])


def test_scrambled_axes_of_a_shared_line_names_the_first_module() -> None:
    blocks = nn.Sequential(*(MixedSeries(flattened_swap) for _ in range(3)), nn.Flatten(), nn.Linear(48, 3))
    (finding,) = checkup_findings(setup_builder(blocks, SERIES)(), "M309")
    assert finding.where.module == "0"


class Head(nn.Module):
    """A convolution whose channels become rows of values, one row for each anchor and position."""

    def __init__(self, channels: int, rows: Callable[[Tensor], Any], axes: int = 2) -> None:
        super().__init__()
        self.layer = (nn.Conv1d, nn.Conv2d)[axes - 1](3, channels, 3, padding=1)
        self.rows = rows

    def forward(self, x: Tensor) -> Any:
        return self.rows(self.layer(x))


def class_loss(scores: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), labels.flatten())


def head_setup(channels: int, rows: Callable[[Tensor], Any], target: Tensor, loss_fn: Any, axes: int = 2) -> Setup:
    x = torch.randn(64, 3, *((6, 6) if axes == 2 else (12,)), generator=torch.Generator().manual_seed(5))
    return minimal_setup(Head(channels, rows, axes), x, target, loss_fn)


def joined_maps(h: Tensor) -> Tensor:
    """Join the rows of a map and of one of half its size."""
    small = F.avg_pool2d(h.permute(0, 2, 3, 1).permute(0, 3, 1, 2), 2)
    return torch.cat([h.reshape(len(h), -1, 4), small.permute(0, 2, 3, 1).reshape(len(h), -1, 4)], 1)


CLASSES_OF_ANCHORS = torch.randint(0, 3, (64, 72))
ROWS_OF_MAPS: dict[str, Callable[[], Setup]] = {
    "classes of anchors": lambda: head_setup(6, lambda h: h.view(len(h), -1, 3), CLASSES_OF_ANCHORS, class_loss),
    "boxes": lambda: head_setup(8, lambda h: h.view(len(h), -1, 4), torch.randn(64, 72, 4), nn.MSELoss()),
    "points": lambda: head_setup(10, lambda h: h.reshape(len(h), -1, 2), torch.randn(64, 180, 2), nn.MSELoss()),
    "series": lambda: head_setup(6, lambda h: h.view(len(h), -1, 3), torch.randn(64, 24, 3), nn.MSELoss(), 1),
    "after an activation": lambda: head_setup(
        8, lambda h: h.sigmoid().view(len(h), -1, 4), torch.rand(64, 72, 4), nn.MSELoss()
    ),
    "two sizes at a line": lambda: head_setup(
        8,
        lambda h: torch.cat([m.reshape(len(h), -1, 4) for m in (F.conv2d(h, torch.ones(4, 8, 1, 1)), h)], 1),
        torch.randn(64, 108, 4),
        nn.MSELoss(),
    ),
    "two sizes": lambda: head_setup(8, joined_maps, torch.randn(64, 90, 4), nn.MSELoss()),
}
ROWS_OF_CHANNELS: dict[str, Callable[[], Setup]] = {
    "permuted": lambda: head_setup(
        6, lambda h: h.permute(0, 2, 3, 1).reshape(len(h), -1, 3), CLASSES_OF_ANCHORS, class_loss
    ),
    "anchors first": lambda: head_setup(
        6, lambda h: h.view(len(h), 2, 3, 36).transpose(2, 3).reshape(len(h), -1, 3), CLASSES_OF_ANCHORS, class_loss
    ),
    "pixels in a row": lambda: head_setup(36, lambda h: h.view(len(h), 36, 36), torch.randn(64, 36, 36), nn.MSELoss()),
    "lines of the image": lambda: head_setup(6, lambda h: h.view(len(h), -1, 6), torch.randn(64, 36, 6), nn.MSELoss()),
    "halves that are added": lambda: head_setup(
        6, lambda h: h.view(len(h), -1, 3).sum(-1), torch.randn(64, 72), nn.MSELoss()
    ),
    "flattened": lambda: head_setup(6, lambda h: h.flatten(1), torch.randn(64, 216), nn.MSELoss()),
    "pixel shuffle": lambda: head_setup(
        4, lambda h: F.pixel_shuffle(h, 2).squeeze(1), torch.randn(64, 12, 12), nn.MSELoss()
    ),
}


@pytest.mark.parametrize("name", ROWS_OF_MAPS)
def test_scrambled_axes_of_rows_that_join_positions_of_a_channel_is_reported(name: str) -> None:
    (finding,) = checkup_findings(ROWS_OF_MAPS[name](), "M309")
    assert "values of neighboring positions" in finding.message
    assert ".movedim(1, -1)" in finding.fix


@pytest.mark.parametrize("name", ROWS_OF_CHANNELS)
def test_scrambled_axes_of_rows_of_channels_is_quiet(name: str) -> None:
    assert checkup_findings(ROWS_OF_CHANNELS[name](), "M309") == []


ROWS: dict[str, tuple[tuple[int, ...], tuple[int, ...], str, str]] = {
    "heads": ((16, 4, 24, 8), (16, 24, 32), "axis 2", "axes 1 and 3"),
    "heads as wide as the batch": ((32, 4, 24, 8), (32, 24, 32), "axis 2", "axes 1 and 3"),
    "two heads as wide as the batch": ((12, 2, 5, 6), (12, 5, 12), "axis 2", "axes 1 and 3"),
    "channels and steps": ((64, 6, 3), (64, 3, 6), "axis 2", "axis 1"),
    "as many samples as channels": ((12, 12, 5), (12, 5, 12), "axis 2", "axis 1"),
    "long rows": ((16, 6, 12), (16, 12, 6), "axis 2", "axis 1"),
    "channels of an image": ((5, 3, 4, 7), (5, 4, 7, 3), "axis 3", "axis 1"),
    "matrix": ((5, 3), (3, 5), "axis 1", "axis 0"),
}


@pytest.mark.parametrize("name", ROWS)
def test_axes_of_rows_are_those_that_an_exchange_of_axes_explains(name: str) -> None:
    before, after, mixed, wanted = ROWS[name]
    axes = before[1:], after[1:]
    call = TorchCall("reshape", (torch.zeros(before),), (torch.zeros(after),), (), {}, None, None)
    (finding,) = find_rule("M309")(
        {
            "scrambled_reshapes": [ScrambledReshape(call, before, after, *axes)],
            "transposed_map": None,
            "reshaped_samples": None,
        }
    )
    expected = (
        f"takes {after[-1]} values from several positions of {mixed}; it should take the values along {wanted} at"
    )
    assert expected in finding.message


@pytest.mark.parametrize(
    ("before", "after"), [((8, 6, 8), (6, 8, 8)), ((12, 6, 6), (6, 12, 6)), ((7, 5, 2, 3), (5, 7, 6))]
)
def test_rows_of_exchanged_samples_name_no_axis(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    call = TorchCall("view", (torch.zeros(before),), (torch.zeros(after),), (), {}, None, None)
    reshape = ScrambledReshape(call, before, after, before[:2], after[:2])
    (finding,) = find_rule("M309")({"scrambled_reshapes": [reshape], "transposed_map": None, "reshaped_samples": None})
    assert "so that the axes with lengths" in finding.message


def test_text_of_the_fix_is_the_line_that_the_edit_writes() -> None:
    (finding,) = checkup_findings(bad(), "M309")
    assert "channels_first = " in finding.fix
    assert "h is what" not in finding.fix
    assert all(edit.text in finding.fix for edit in finding.edits)
