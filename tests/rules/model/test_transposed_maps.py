"""Tests of M309 on models whose output maps answer at exchanged rows and columns."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

IMAGES = torch.rand(64, 3, 16, 16, generator=torch.Generator().manual_seed(0))
Function = Callable[[nn.Module, nn.Module, Tensor], Tensor]


class Network(nn.Module):
    def __init__(self, function: Function, is_zero: bool = False) -> None:
        super().__init__()
        self.function = function
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 1, 3, padding=1)
        if is_zero:
            nn.init.zeros_(self.last.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.first, self.last, x)


def last_map(first: nn.Module, last: nn.Module, x: Tensor) -> Tensor:
    return last(first(x).relu()).transpose(-1, -2)


def hidden_map(first: nn.Module, last: nn.Module, x: Tensor) -> Tensor:
    return last(first(x).relu().permute(0, 1, 3, 2))


def channels_last_input(first: nn.Module, last: nn.Module, x: Tensor) -> Tensor:
    return last(first(x.permute(0, 3, 2, 1)).relu())


def tokens(first: nn.Module, last: nn.Module, x: Tensor) -> Tensor:
    rows = first(x).relu().permute(0, 3, 2, 1).flatten(1, 2)
    return last(rows.transpose(1, 2).unflatten(2, (16, 16)))


def by_einsum(first: nn.Module, last: nn.Module, x: Tensor) -> Tensor:
    return torch.einsum("bcij->bcji", last(first(x).relu()))


def in_a_residual_branch(first: nn.Module, last: nn.Module, x: Tensor) -> Tensor:
    hidden = first(x)
    return last((hidden + hidden.tanh().mT).relu())


class Hourglass(nn.Module):
    """A network whose smallest maps of 2 × 2 see the whole image."""

    def __init__(self, is_transposed: bool) -> None:
        super().__init__()
        self.is_transposed = is_transposed
        self.first, self.down = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=4, padding=1)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 4, stride=4), nn.Conv2d(16, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.first(x).relu()
        logits: Tensor = self.last(torch.cat([fine, self.up(self.down(fine).relu())], 1))
        return logits.mT if self.is_transposed else logits


def straight(first: nn.Module, last: nn.Module, x: Tensor) -> Tensor:
    return last(first(x).relu())


def there_and_back(first: nn.Module, last: nn.Module, x: Tensor) -> Tensor:
    return last(first(x).relu().mT).mT


def symmetric_on_purpose(first: nn.Module, last: nn.Module, x: Tensor) -> Tensor:
    logits = straight(first, last, x)
    return (logits + logits.mT) / 2


def symmetric_inside(first: nn.Module, last: nn.Module, x: Tensor) -> Tensor:
    hidden = first(x).relu()
    return last(hidden + hidden.mT)


def mirrored(first: nn.Module, last: nn.Module, x: Tensor) -> Tensor:
    return straight(first, last, x).flip(-1)


def half_a_turn(first: nn.Module, last: nn.Module, x: Tensor) -> Tensor:
    return straight(first, last, x).flip((-1, -2))


def everywhere(first: nn.Module, last: nn.Module, x: Tensor) -> Tensor:
    hidden = first(x).flatten(2)
    attended = torch.softmax(hidden.mT @ hidden / 8, -1) @ hidden.mT
    return last(attended.mT.unflatten(2, (16, 16)).mT)


def averaged_over_views(first: nn.Module, last: nn.Module, x: Tensor) -> Tensor:
    return straight(first, last, x) + straight(first, last, x.mT).mT


def pooled(first: nn.Module, last: nn.Module, x: Tensor) -> Tensor:
    return last(first(x).relu()).mean((2, 3))


def make_setup(function: Function, x: Tensor = IMAGES, *, is_zero: bool = False, target: Tensor | None = None) -> Setup:
    torch.manual_seed(0)
    model = Network(function, is_zero)
    target = torch.randn(model(x).shape) if target is None else target
    return minimal_setup(model, x, target, nn.MSELoss())


def transposed_findings(setup: Setup) -> list[str]:
    return [f.severity for f in checkup_findings(setup, "M309") if "exchanged" in f.evidence]


@pytest.mark.parametrize("function", [last_map, hidden_map, tokens, by_einsum])
@pytest.mark.parametrize("is_zero", [False, True])
def test_output_at_exchanged_rows_and_columns_is_an_error(function: Function, is_zero: bool) -> None:
    assert transposed_findings(make_setup(function, is_zero=is_zero)) == ["error"]


@pytest.mark.parametrize("is_transposed", [False, True])
def test_small_maps_that_see_the_whole_image(is_transposed: bool) -> None:
    torch.manual_seed(0)
    setup = minimal_setup(Hourglass(is_transposed), IMAGES[..., :8, :8], torch.randn(64, 1, 8, 8), nn.MSELoss())
    assert transposed_findings(setup) == (["error"] if is_transposed else [])


def test_channels_last_images_with_exchanged_axes_are_an_error_at_their_line() -> None:
    (finding,) = checkup_findings(make_setup(channels_last_input, IMAGES.permute(0, 2, 3, 1).contiguous()), "M309")
    assert "permute(0, 3, 2, 1)" in str(finding.where.source)


def test_a_transposed_branch_is_a_warning() -> None:
    assert transposed_findings(make_setup(in_a_residual_branch)) == ["warning"]


HEALTHY = [
    straight,
    there_and_back,
    symmetric_on_purpose,
    symmetric_inside,
    mirrored,
    half_a_turn,
    everywhere,
    averaged_over_views,
    pooled,
]


@pytest.mark.parametrize("function", HEALTHY)
def test_outputs_in_place_are_quiet(function: Function) -> None:
    assert transposed_findings(make_setup(function)) == []


def test_maps_of_pairs_and_transposed_targets_are_quiet() -> None:
    pairs = IMAGES + IMAGES.mT
    distances = IMAGES * (1 - torch.eye(16))
    assert transposed_findings(make_setup(last_map, pairs)) == []
    assert transposed_findings(make_setup(in_a_residual_branch, distances)) == []
    assert transposed_findings(make_setup(last_map, target=IMAGES.mean(1, keepdim=True).mT)) == []


def test_maps_that_are_not_square_are_quiet() -> None:
    assert transposed_findings(make_setup(last_map, IMAGES[..., :12])) == []
