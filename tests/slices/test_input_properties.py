"""Tests of measure_properties() and InputProperties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nbdebug.slices import InputProperties, measure_properties

GENERATOR = torch.Generator().manual_seed(0)


def random_tensor(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=GENERATOR)


def test_brightness_contrast_and_sharpness_of_small_images_match_numpy() -> None:
    images = random_tensor(9, 1, 12, 16)
    properties = measure_properties(images)
    pixels = images.numpy().reshape(9, -1)
    np.testing.assert_allclose(properties["brightness"], pixels.mean(1), rtol=1e-5)
    np.testing.assert_allclose(properties["contrast"], pixels.std(1), rtol=1e-5)
    image = images.numpy()[:, 0].astype(float)
    neighbors = image[:, :-2, 1:-1] + image[:, 2:, 1:-1] + image[:, 1:-1, :-2] + image[:, 1:-1, 2:]
    laplacian = neighbors - 4 * image[:, 1:-1, 1:-1]
    np.testing.assert_allclose(properties["sharpness"], laplacian.reshape(9, -1).var(1), rtol=1e-4)
    assert "colorfulness" not in properties


def test_brightness_and_contrast_of_large_images_correlate_with_all_pixels() -> None:
    images = random_tensor(20, 3, 96, 130) * torch.linspace(0.2, 1, 20)[:, None, None, None]
    properties = measure_properties(images)
    assert np.corrcoef(properties["brightness"], images.mean((1, 2, 3)).numpy())[0, 1] > 0.99
    assert np.corrcoef(properties["contrast"], images.mean(1).flatten(1).std(1).numpy())[0, 1] > 0.95


def test_sharpness_of_blurred_image_is_lower() -> None:
    image = random_tensor(1, 1, 32, 32)
    blurred = torch.nn.functional.avg_pool2d(image, 3, 1, 1)
    sharpness, blurred_sharpness = measure_properties(torch.cat([image, blurred]))["sharpness"]
    assert blurred_sharpness < sharpness / 4


def test_colorfulness_of_gray_image_is_zero() -> None:
    gray = random_tensor(1, 1, 16, 16).expand(1, 3, 16, 16)
    gray_colorfulness, colorfulness = measure_properties(torch.cat([gray, random_tensor(1, 3, 16, 16)]))["colorfulness"]
    assert gray_colorfulness == pytest.approx(0, abs=1e-6)
    assert colorfulness > 0.1


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
def test_image_properties_do_not_depend_on_layout_and_dtype(dtype: torch.dtype) -> None:
    images = (random_tensor(6, 3, 12, 20) * 255).to(torch.uint8)
    expected = measure_properties(images.float())
    for variant in (images.to(dtype), images.movedim(1, 3).contiguous().to(dtype), images.to(dtype).numpy()):
        for name, values in measure_properties(variant).items():
            np.testing.assert_allclose(values, expected[name], rtol=2e-2)


def test_image_properties_of_different_sizes_include_aspect() -> None:
    properties = measure_properties([random_tensor(3, 10, 20), random_tensor(3, 30, 15), random_tensor(3, 12, 12)])
    assert properties["aspect"].tolist() == [2, 0.5, 1]
    assert len(properties["brightness"]) == 3


def test_length_of_tokens_excludes_padding() -> None:
    tokens = torch.tensor([[5, 0, 7, 0], [1, 2, 3, 4], [0, 0, 0, 0]])
    properties = measure_properties(tokens, unknown=2)
    assert properties["length"].tolist() == [3, 4, 0]
    assert properties["unknown tokens"].tolist() == [0, 1, 0]
    assert measure_properties(torch.tensor([[5, 9, 9], [9, 9, 9]]), padding=9)["length"].tolist() == [1, 0]


def test_text_properties_count_characters_words_and_unknown_words() -> None:
    properties = measure_properties(["Ab 12", "", "HELLO you"], vocabulary={"Ab", "you"})
    assert properties["length"].tolist() == [5, 0, 9]
    assert properties["words"].tolist() == [2, 0, 2]
    assert properties["digits"].tolist() == [2, 0, 0]
    assert properties["upper case"].tolist() == [0.5, 0, 5 / 8]
    assert properties["unknown words"].tolist() == [1, 0, 1]


def test_row_properties_count_missing_and_odd_values() -> None:
    rows = torch.randn(200, 6, generator=GENERATOR).clamp(-3, 3) * torch.tensor([1.0, 10, 100, 1, 1, 0])
    rows[3, :2] = torch.nan
    rows[7, 1:4] = 1000
    properties = measure_properties(rows)
    assert properties["missing values"].nonzero()[0].tolist() == [3]
    assert properties["missing values"][3] == 2
    assert properties["odd values"][7] == 3
    assert properties["odd values"].sum() == 3


def test_series_properties_are_level_spread_and_trend() -> None:
    time = torch.linspace(0, 1, 50)
    series = torch.stack([2 * time, 5 + 0 * time, (8 * time).sin()])
    for layout in (series, series[:, None], series[:, :, None]):
        properties = measure_properties(layout)
        np.testing.assert_allclose(properties["level"], series.mean(1), rtol=1e-5)
        assert properties["trend"][:2] == pytest.approx([2, 0], abs=1e-4)
        assert properties["spread"][1] == pytest.approx(0, abs=1e-6)


def test_input_properties_of_batches_equal_those_of_whole() -> None:
    images = random_tensor(10, 1, 20, 20)
    properties = InputProperties()
    for batch in images.split(4):
        properties.add((batch, {"other": torch.tensor(1)}))
    for name, values in measure_properties(images).items():
        np.testing.assert_allclose(properties.columns()[name], values, rtol=1e-5)


def test_input_properties_are_unaffected_by_later_change_of_batch() -> None:
    images = random_tensor(10, 1, 20, 20)
    expected = measure_properties(images)
    properties = InputProperties()
    for batch in images.split(4):
        properties.add(batch)
        batch.zero_()
    np.testing.assert_allclose(properties.columns()["brightness"], expected["brightness"], rtol=1e-5)


def test_input_properties_of_batches_of_many_shapes_keep_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.slices.input_properties.MIN_PENDING_ELEMENTS", 2000)
    batches = [
        random_tensor(3, 1, 12, 12),
        random_tensor(2, 1, 20, 20),
        random_tensor(4, 1, 12, 12),
        random_tensor(2, 1, 40, 40),
        random_tensor(1, 1, 12, 12),
    ]
    properties = InputProperties()
    for batch in batches:
        properties.add(batch)
    expected = np.concatenate([batch[:, :, :: -(-batch.shape[2] // 12)].mean((1, 2, 3)).numpy() for batch in batches])
    np.testing.assert_allclose(properties.columns()["brightness"], expected, rtol=1e-5)


def test_input_properties_of_other_length_than_table_are_excluded() -> None:
    properties = InputProperties()
    properties.add(torch.randint(0, 3, (12, 5), generator=GENERATOR))
    assert list(properties.columns(12)) == ["length"]
    assert properties.columns(5) == {}


def test_constant_properties_are_excluded() -> None:
    assert list(measure_properties(torch.randn(50, 3, generator=GENERATOR).clamp(-1, 1))) == []


@pytest.mark.parametrize(
    "inputs",
    [
        None, 3, "text", [], {}, object(), torch.tensor(1.0), torch.rand(4), torch.rand(0, 3), torch.rand(3, 0),
        torch.rand(2, 3, 4, 5, 6), torch.eye(3).to_sparse(), torch.rand(3, 3, dtype=torch.complex64), [object()],
    ],
)  # fmt: skip
def test_input_properties_of_unsupported_input_are_empty(inputs: Any) -> None:
    properties = InputProperties()
    properties.add(inputs)
    assert properties.columns() == {}


def test_input_properties_preserve_images_and_keep_no_gradients() -> None:
    images = random_tensor(4, 1, 16, 16).requires_grad_()
    before = images.detach().clone()
    properties = InputProperties()
    properties.add(images)
    properties.measure_pending()
    assert torch.equal(images, before)
    assert not any(values.requires_grad for columns in properties.parts for values in columns.values())
