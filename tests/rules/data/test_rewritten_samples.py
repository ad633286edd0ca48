"""Tests of D104 on datasets that change their stored data when a sample is read."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset

from nbdebug.finding import Finding
from nbdebug.measurements.rewritten_samples import rewritten_samples
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import apply_edits
from tests.rules.rule_findings import rule_findings


class Points(Dataset[Any]):
    """Points with a mean of 2 and a standard deviation of 3; a function reads one of them."""

    def __init__(self, read: Callable[[Any, int], Tensor], as_array: bool = False) -> None:
        x, self.labels = points()
        self.x: Any = (2 + 3 * x).numpy() if as_array else 2 + 3 * x
        self.rows = list((2 + 3 * x).unbind())
        self.read, self.is_scaled, self.reads = read, False, torch.zeros(len(x))
        self.generator = torch.Generator().manual_seed(0)
        self.cache: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.read(self, index), self.labels[index]


def scale_view(data: Any, index: int) -> Tensor:
    row = data.x[index]
    row -= 2
    row /= 3
    return row


def scale_array(data: Any, index: int) -> Tensor:
    data.x[index] = (data.x[index] - 2) / 3
    return torch.from_numpy(data.x[index])


def scale_row(data: Any, index: int) -> Tensor:
    return data.rows[index].sub_(2).div_(3)


def scale_copy(data: Any, index: int) -> Tensor:
    return (data.x[index] - 2) / 3


def scale_once(data: Any, index: int) -> Tensor:
    if not data.is_scaled:
        data.x = (data.x - 2) / 3
        data.is_scaled = True
    return data.x[index]


def augment(data: Any, index: int) -> Tensor:
    data.reads[index] += 1
    return scale_copy(data, index) + 0.1 * torch.randn(4, generator=data.generator)


def setup_of(dataset: Dataset[Any]) -> Setup:
    return Setup(network(3), DataLoader(dataset, 16), loss_fn=nn.CrossEntropyLoss())


def rewriting(dataset: Dataset[Any]) -> list[Finding]:
    findings = rule_findings(setup_of(dataset), "D104")
    return [finding for finding in findings if finding.aspect == "rewritten"]


@pytest.mark.parametrize(
    "build",
    [
        lambda: Points(scale_view),
        lambda: Points(scale_array, as_array=True),
        lambda: Points(scale_row),
        lambda: Subset(Points(scale_view), range(40)),
    ],
    ids=["view of a tensor", "array", "list of tensors", "subset"],
)
def test_unscaled_input_reports_samples_that_are_scaled_again_at_each_read(build: Callable[[], Dataset[Any]]) -> None:
    (finding,) = rewriting(build())
    assert finding.severity == "error"
    assert "Each read of a train sample changes the stored data" in finding.message


def subtract_mean(row: Tensor) -> None:
    row.sub_(2)  # here


def scale_array_once_more(data: Any, index: int) -> Tensor:
    data.reads[index] += 1
    picture = np.nan_to_num(data.x[index], copy=False)
    np.multiply(picture, 0.3, out=picture)  # here
    picture += 1
    return torch.from_numpy(picture)


def scale_in_a_function(data: Any, index: int) -> Tensor:
    data.reads[index] += 1
    row = data.rows[index]
    subtract_mean(row)
    return row.clone()


def scale_result_of_a_function(data: Any, index: int) -> Tensor:
    return torch.from_numpy(scale_copy(data, index).numpy()) + view_of_table(data, index).mul_(0.5)  # here


def scale_in_a_loop(data: Any, index: int) -> Tensor:
    row = data.x[index]
    for column in range(4):
        row[column] = row[column] / 3  # here
    return row


def scale_entry(data: Any, index: int) -> Tensor:
    sample = {"x": data.rows[index]}
    sample["x"] /= 3  # here
    return sample["x"]


def scale_by_lambda(data: Any, index: int) -> Tensor:
    center = lambda row: row.sub_(2)  # noqa: E731  # here
    return torch.stack([*map(center, [data.rows[index]])])[0]


MODULE_ROWS = (2 + 3 * points()[0]).numpy()


def scale_module_rows(data: Any, index: int) -> Tensor:
    row = MODULE_ROWS[index]
    np.subtract(row, 2, out=row)  # here
    return torch.from_numpy(row)


def scale_cached_row(data: Any, index: int) -> Tensor:
    if index not in data.cache:
        data.cache[index] = data.x[index].numpy().copy()
    row = data.cache[index]
    row -= 2  # here
    return torch.from_numpy(row)


@functools.lru_cache(maxsize=256)
def load_row(index: int) -> Tensor:
    return 2 + 3 * points()[0][index]


def scale_loaded_row(data: Any, index: int) -> Tensor:
    return load_row(index).div_(3)  # here


def add_noise_to_row(data: Any, index: int) -> Tensor:
    data.rows[index] += torch.randn(4, generator=data.generator)  # here
    return data.rows[index]


_MODULE_GENERATOR = np.random.default_rng(0)


def scale_row_by_module_generator(data: Any, index: int) -> Tensor:
    data.rows[index] *= _MODULE_GENERATOR.uniform(1.1, 1.2)  # here
    return data.rows[index]


@pytest.mark.parametrize(
    ("read", "as_array"),
    [
        (scale_array_once_more, True),
        (scale_in_a_function, False),
        (scale_result_of_a_function, False),
        (scale_in_a_loop, False),
        (scale_entry, False),
        (scale_by_lambda, False),
        (scale_module_rows, False),
        (scale_cached_row, False),
        (scale_loaded_row, False),
        (add_noise_to_row, False),
        (scale_row_by_module_generator, False),
    ],
)
def test_samples_that_are_scaled_again_are_placed_at_the_change(read: Callable[..., Any], as_array: bool) -> None:
    (finding,) = rewriting(Points(read, as_array))
    assert "# here" in str(finding.where.source)


@pytest.mark.parametrize("read", [scale_view, scale_row])
def test_fix_of_a_read_that_rewrites_its_sample_makes_a_new_one(read: Callable[..., Any]) -> None:
    (finding,) = rewriting(Points(read))
    source = apply_edits(Path(__file__).read_text(encoding="utf-8"), finding.edits)
    changed = next(node for node in ast.parse(source).body if getattr(node, "name", "") == read.__name__)
    names: dict[str, Any] = {"Any": Any, "Tensor": Tensor}
    exec(ast.unparse(changed), names)
    fixed, original = Points(names[read.__name__]), Points(scale_copy)
    assert torch.equal(torch.stack([fixed[0][0], fixed[0][0]]), torch.stack([original[0][0]] * 2))
    assert torch.equal(fixed.x, original.x)


def test_fix_of_an_assignment_to_stored_values_is_a_sentence() -> None:
    (finding,) = rewriting(Points(scale_array, as_array=True))
    assert finding.edits == ()
    assert finding.fix.startswith("Change a copy of the sample")


def test_placing_a_change_restores_a_trace_function() -> None:
    def trace(frame: FrameType, event: str, _: Any) -> None:
        return None

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        (rewritten,) = rewritten_samples(setup_of(Points(scale_view)))
        restored = sys.gettrace()
    finally:
        sys.settrace(previous)
    assert restored is trace
    assert rewritten.line is not None
    assert rewritten.line.text.strip() == "row -= 2"


def test_rewritten_samples_leaves_stored_data_unchanged() -> None:
    torch_data, array_data = Points(scale_row), Points(scale_array, as_array=True)
    rows, array = [row.clone() for row in torch_data.rows], array_data.x.copy()
    for data in (torch_data, array_data):
        assert rewritten_samples(setup_of(data))
    assert all(map(torch.equal, rows, torch_data.rows))
    assert np.array_equal(array, array_data.x)


def test_rewritten_samples_leaves_generators_unchanged() -> None:
    data, state = Points(add_noise_to_row), _MODULE_GENERATOR.bit_generator.state
    own_state = data.generator.get_state()
    assert rewritten_samples(setup_of(data))
    assert rewritten_samples(setup_of(Points(scale_row_by_module_generator)))
    assert torch.equal(data.generator.get_state(), own_state)
    assert _MODULE_GENERATOR.bit_generator.state == state


def add_noise_to_copy(data: Any, index: int) -> Tensor:
    row = data.rows[index].clone()
    row *= _MODULE_GENERATOR.uniform(1.1, 1.2)
    row += torch.randn(4, generator=data.generator)
    return row


@pytest.mark.parametrize("read", [scale_copy, scale_once, augment, add_noise_to_copy])
def test_unscaled_input_ignores_samples_that_are_computed_anew(read: Callable[[Any, int], Tensor]) -> None:
    assert rewriting(Points(read)) == []


def view_of_buffer(data: Any, index: int) -> Tensor:
    data.reads[:4] = data.x[index]
    return data.reads[:4]


def copy_of_buffer(data: Any, index: int) -> Tensor:
    return view_of_buffer(data, index).clone()


def view_of_table(data: Any, index: int) -> Tensor:
    return data.x[index]


@pytest.mark.parametrize(
    ("read", "is_shared"), [(view_of_buffer, True), (copy_of_buffer, False), (view_of_table, False)]
)
def test_duplicate_samples_of_views_of_one_buffer_is_an_error(
    read: Callable[[Any, int], Tensor], is_shared: bool
) -> None:
    findings = rule_findings(setup_of(Points(read)), "D107")
    assert [finding.severity for finding in findings] == ["error"] * is_shared
    assert all("return self.read(self, index)" in (finding.where.source or "") for finding in findings)


def test_rewritten_samples_leaves_caches_unchanged() -> None:
    data = Points(scale_cached_row)
    cached = data.cache[7] = np.ones(4, np.float32)
    assert rewritten_samples(setup_of(data))
    assert [*data.cache] == [7]
    assert data.cache[7] is cached
    assert np.array_equal(cached, np.ones(4))


def test_rewritten_samples_empties_caches_that_were_empty() -> None:
    load_row.cache_clear()
    assert rewritten_samples(setup_of(Points(scale_loaded_row)))
    assert load_row.cache_info().currsize == 0
