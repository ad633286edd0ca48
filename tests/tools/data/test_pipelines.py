"""Tests of the comparison of preprocessing pipelines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import nbdebug

IMAGES = [torch.rand(3, 5, 5, generator=torch.Generator().manual_seed(i)) for i in range(6)]


def scale(x: Tensor) -> Tensor:
    return x * 255


def center(x: Tensor) -> Tensor:
    return x - 0.5


def center_from_fourth(x: Tensor) -> Tensor:
    return x - (0.5 if torch.equal(x, x.clamp(max=0.98)) else 0.4)


class Compose:
    """Steps in an attribute, as several libraries have them."""

    def __init__(self, *transforms: Callable[[Any], Any]) -> None:
        self.transforms = list(transforms)

    def __call__(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x


@pytest.mark.parametrize(
    ("f", "g"),
    [
        (scale, scale),
        (Compose(scale, center), Compose(scale, center)),
        (nn.Sequential(nn.ReLU(), nn.Flatten()), [torch.relu, lambda x: x.flatten(1)]),
        (Compose(scale, center), lambda x: x * 255 - 0.5),
        (lambda x: x.numpy(), lambda x: x),
    ],
)
def test_equal_pipelines_agree(f: Any, g: Any) -> None:
    comparison = nbdebug.compare_pipelines(f, g, IMAGES)
    assert comparison.agrees
    assert comparison.first is None
    assert "agree on 6 samples" in comparison.to_text()


def test_first_step_and_sample_are_found() -> None:
    late = [image * 0.9 for image in IMAGES]
    late[3] = torch.ones(3, 5, 5)
    f, g = Compose(torch.clone, Compose(center, scale)), [torch.clone, center_from_fourth, scale]
    comparison = nbdebug.compare_pipelines(f, g, late)
    assert comparison.first is not None
    assert (comparison.first.number, comparison.first.first_sample, comparison.first.disagreeing) == (2, 3, 1)
    assert comparison.first.names == ("center", "center_from_fourth")
    assert comparison.final_disagreements == 1
    assert comparison.to_frame()["disagreeing"].tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("g", "kind", "text"),
    [
        (lambda x: x * 255, "values", "255 × the first (0–255 for 0–1)"),
        (lambda x: (x - 0.5) / 0.25, "values", "the second is 4 × the first -2"),
        (lambda x: x.flip(0), "values", "axis 0 is reversed, such as BGR for RGB"),
        (lambda x: x.transpose(1, 2), "values", "the last two axes are exchanged"),
        (lambda x: x.permute(1, 2, 0), "shape", "axes in the order (1, 2, 0)"),
        (lambda x: x.double(), "dtype", "float32 and float64"),
        (lambda x: (x, 1), "structure", "only one of them has"),
        (lambda x: x[9], "error", "the second raises IndexError"),
        (lambda x: x.masked_fill(x > 0.9, torch.nan), "values", "missing or infinite values are in other places"),
        (lambda x: str(x.shape), "values", "of type Tensor"),
    ],
)
def test_difference_is_described_by_its_shape(g: Callable[[Tensor], Any], kind: str, text: str) -> None:
    first = nbdebug.compare_pipelines(lambda x: x, g, IMAGES).first
    assert first is not None
    assert first.difference is not None
    assert first.difference.kind == kind
    assert text in first.difference.text


def test_samples_modules_and_random_state_are_untouched() -> None:
    norm = nn.BatchNorm2d(3)
    before = [image.clone() for image in IMAGES]
    state = torch.get_rng_state()
    comparison = nbdebug.compare_pipelines(
        nn.Sequential(norm), [lambda x: norm(x.add_(torch.rand(3, 5, 5)))], [image[None] for image in IMAGES]
    )
    assert not comparison.agrees
    assert int(norm.num_batches_tracked) == 0
    assert torch.equal(state, torch.get_rng_state())
    assert all(map(torch.equal, before, IMAGES))


def test_random_steps_with_the_same_draws_agree() -> None:
    def jitter(x: Tensor) -> Tensor:
        return x + torch.rand(1) + float(np.random.rand())

    assert nbdebug.compare_pipelines([jitter, scale], [jitter, scale], IMAGES).agrees


def test_picture_and_array_with_same_values_agree() -> None:
    pictures = [Image.fromarray((image.permute(1, 2, 0).numpy() * 255).astype(np.uint8)) for image in IMAGES]
    assert nbdebug.compare_pipelines(lambda p: p, np.asarray, pictures).agrees


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, scale, IMAGES), "^f is an int; expected a function"),
        ((scale, nn.Linear, IMAGES), "^g is the class Linear"),
        ((scale, scale, []), "^samples is empty; expected"),
        ((scale, scale, 5), "^samples is an int; expected"),
    ],
)
def test_invalid_arguments_raise(arguments: Any, message: str) -> None:
    with pytest.raises(nbdebug.SetupError, match=message):
        nbdebug.compare_pipelines(*arguments)
