"""Properties of inputs, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nbdebug.slices import InputProperties, measure_properties

GENERATOR = torch.Generator().manual_seed(0)


def drawn(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=GENERATOR)


def test_brightness_and_contrast_of_small_images_are_those_of_all_pixels() -> None:
    images = drawn(9, 1, 12, 16)
    found = measure_properties(images)
    pixels = images.numpy().reshape(9, -1)
    np.testing.assert_allclose(found["brightness"], pixels.mean(1), rtol=1e-5)
    np.testing.assert_allclose(found["contrast"], pixels.std(1), rtol=1e-5)
    image = images.numpy()[:, 0].astype(float)
    around = image[:, :-2, 1:-1] + image[:, 2:, 1:-1] + image[:, 1:-1, :-2] + image[:, 1:-1, 2:]
    laplacian = around - 4 * image[:, 1:-1, 1:-1]
    np.testing.assert_allclose(found["sharpness"], laplacian.reshape(9, -1).var(1), rtol=1e-4)
    assert "colorfulness" not in found


def test_large_images_are_told_apart_from_a_part_of_their_pixels() -> None:
    images = drawn(20, 3, 96, 130) * torch.linspace(0.2, 1, 20)[:, None, None, None]
    found = measure_properties(images)
    assert np.corrcoef(found["brightness"], images.mean((1, 2, 3)).numpy())[0, 1] > 0.99
    assert np.corrcoef(found["contrast"], images.mean(1).flatten(1).std(1).numpy())[0, 1] > 0.95


def test_a_blurred_image_is_less_sharp() -> None:
    image = drawn(1, 1, 32, 32)
    blurred = torch.nn.functional.avg_pool2d(image, 3, 1, 1)
    sharp, dull = measure_properties(torch.cat([image, blurred]))["sharpness"]
    assert dull < sharp / 4


def test_gray_is_not_colorful() -> None:
    gray = drawn(1, 1, 16, 16).expand(1, 3, 16, 16)
    dull, bright = measure_properties(torch.cat([gray, drawn(1, 3, 16, 16)]))["colorfulness"]
    assert dull == pytest.approx(0, abs=1e-6)
    assert bright > 0.1


@pytest.mark.parametrize("kind", [torch.uint8, torch.float16, torch.float32, torch.float64])
def test_layouts_and_kinds_of_images_come_to_the_same(kind: torch.dtype) -> None:
    images = (drawn(6, 3, 12, 20) * 255).to(torch.uint8)
    first = measure_properties(images.float())
    for other in (images.to(kind), images.movedim(1, 3).contiguous().to(kind), images.to(kind).numpy()):
        for name, values in measure_properties(other).items():
            np.testing.assert_allclose(values, first[name], rtol=2e-2)


def test_images_of_different_sizes_have_an_aspect() -> None:
    found = measure_properties([drawn(3, 10, 20), drawn(3, 30, 15), drawn(3, 12, 12)])
    assert found["aspect"].tolist() == [2, 0.5, 1]
    assert len(found["brightness"]) == 3


def test_length_of_tokens_is_without_padding() -> None:
    tokens = torch.tensor([[5, 0, 7, 0], [1, 2, 3, 4], [0, 0, 0, 0]])
    found = measure_properties(tokens, unknown=2)
    assert found["length"].tolist() == [3, 4, 0]
    assert found["unknown tokens"].tolist() == [0, 1, 0]
    assert measure_properties(torch.tensor([[5, 9, 9], [9, 9, 9]]), padding=9)["length"].tolist() == [1, 0]


def test_texts() -> None:
    found = measure_properties(["Ab 12", "", "HELLO you"], vocabulary={"Ab", "you"})
    assert found["length"].tolist() == [5, 0, 9]
    assert found["words"].tolist() == [2, 0, 2]
    assert found["digits"].tolist() == [2, 0, 0]
    assert found["upper case"].tolist() == [0.5, 0, 5 / 8]
    assert found["unknown words"].tolist() == [1, 0, 1]


def test_missing_and_odd_values_of_rows() -> None:
    rows = torch.randn(200, 6, generator=GENERATOR).clamp(-3, 3) * torch.tensor([1.0, 10, 100, 1, 1, 0])
    rows[3, :2] = torch.nan
    rows[7, 1:4] = 1000
    found = measure_properties(rows)
    assert found["missing values"].nonzero()[0].tolist() == [3]
    assert found["missing values"][3] == 2
    assert found["odd values"][7] == 3
    assert found["odd values"].sum() == 3


def test_series_have_level_spread_and_trend() -> None:
    time = torch.linspace(0, 1, 50)
    series = torch.stack([2 * time, 5 + 0 * time, (8 * time).sin()])
    for given in (series, series[:, None], series[:, :, None]):
        found = measure_properties(given)
        np.testing.assert_allclose(found["level"], series.mean(1), rtol=1e-5)
        assert found["trend"][:2] == pytest.approx([2, 0], abs=1e-4)
        assert found["spread"][1] == pytest.approx(0, abs=1e-6)


def test_batches_come_to_the_same_as_the_whole() -> None:
    images = drawn(10, 1, 20, 20)
    found = InputProperties()
    for batch in images.split(4):
        found.add((batch, {"other": torch.tensor(1)}))
    for name, values in measure_properties(images).items():
        np.testing.assert_allclose(found.columns()[name], values, rtol=1e-5)


def test_a_model_that_changes_its_input_afterwards_changes_no_property() -> None:
    images = drawn(10, 1, 20, 20)
    wanted = measure_properties(images)
    found = InputProperties()
    for batch in images.split(4):
        found.add(batch)
        batch.zero_()
    np.testing.assert_allclose(found.columns()["brightness"], wanted["brightness"], rtol=1e-5)


def test_batches_of_many_shapes_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.slices.input_properties.MIN_PENDING_ELEMENTS", 2000)
    batches = [drawn(3, 1, 12, 12), drawn(2, 1, 20, 20), drawn(4, 1, 12, 12), drawn(2, 1, 40, 40), drawn(1, 1, 12, 12)]
    found = InputProperties()
    for one in batches:
        found.add(one)
    wanted = np.concatenate([one[:, :, :: -(-one.shape[2] // 12)].mean((1, 2, 3)).numpy() for one in batches])
    np.testing.assert_allclose(found.columns()["brightness"], wanted, rtol=1e-5)


def test_columns_of_another_length_than_the_table_are_left_out() -> None:
    found = InputProperties()
    found.add(torch.randint(0, 3, (12, 5), generator=GENERATOR))
    assert list(found.columns(12)) == ["length"]
    assert found.columns(5) == {}


def test_what_is_the_same_throughout_is_no_column() -> None:
    assert list(measure_properties(torch.randn(50, 3, generator=GENERATOR).clamp(-1, 1))) == []


@pytest.mark.parametrize(
    "inputs",
    [
        None, 3, "text", [], {}, object(), torch.tensor(1.0), torch.rand(4), torch.rand(0, 3), torch.rand(3, 0),
        torch.rand(2, 3, 4, 5, 6), torch.eye(3).to_sparse(), torch.rand(3, 3, dtype=torch.complex64), [object()],
    ],
)  # fmt: skip
def test_what_is_not_known_has_no_properties(inputs: Any) -> None:
    found = InputProperties()
    found.add(inputs)
    assert found.columns() == {}


def test_nothing_is_changed_and_nothing_is_kept_for_gradients() -> None:
    images = drawn(4, 1, 16, 16).requires_grad_()
    before = images.detach().clone()
    found = InputProperties()
    found.add(images)
    found.measure_pending()
    assert torch.equal(images, before)
    assert not any(one.requires_grad for part in found.parts for one in part.values())
