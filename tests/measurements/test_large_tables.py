"""Tests of the limits that keep the cost of a checkup of large tables low."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.measurements import Measurements, dataset_rows, duplicates, target_encoding
from nbdebug.preserve import Preserve
from nbdebug.rules.examples import minimal_setup, network
from nbdebug.setup import Setup
from nbdebug.tensors.row_search import find_rows_with_values


def _setup(train_rows: int, val_rows: int) -> Setup:
    """Rows of random numbers."""
    x = torch.randn(train_rows + val_rows, 8, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    val_loader = DataLoader(TensorDataset(x[train_rows:], y[train_rows:]), batch_size=16)
    model = nn.Sequential(nn.Linear(8, 2))
    return minimal_setup(model, x[:train_rows], y[:train_rows], nn.CrossEntropyLoss(), val_loader=val_loader)


def _measure(setup: Setup, name: str) -> object:
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader)):
        return Measurements(setup)[name]


def test_windows_of_a_large_split_are_searched_by_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    def search(column: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        searched.append(len(values))
        return find_rows_with_values(column, values)

    monkeypatch.setattr(duplicates, "find_rows_with_values", search)
    assert _measure(_setup(3_000, 5_000), "shared_windows") == duplicates.SharedWindows([], 5_000, 8, 0)
    assert searched
    assert max(searched) <= 2_048


@pytest.mark.parametrize(("repeated_row", "shared_row"), [(None, None), (7, None), (None, 7), (7, 7)])
def test_hashes_tell_whether_inputs_are_equal(repeated_row: int | None, shared_row: int | None) -> None:
    x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    if repeated_row is not None:
        x[0] = x[repeated_row]
    if shared_row is not None:
        x[250] = x[shared_row]
    train, val = (
        dataset_rows.SplitTable(split, (part,), (torch.zeros(len(part)),), range(len(part)), True)
        for split, part in (("train", x[:200]), ("val", x[200:]))
    )
    assert train.may_have_equal_inputs is (repeated_row is not None)
    assert train.may_share_inputs_with(val) is val.may_share_inputs_with(train) is (shared_row is not None)


def test_windows_that_overlap_are_found_at_each_shift() -> None:
    series = torch.randn(400, generator=torch.Generator().manual_seed(0))
    series[1::2] = 0.0  # every other step does not vary
    for shift in (-2, 2):
        starts = range(20, 300, 40)
        parts = [torch.stack([series[i + j : i + j + 12] for i in starts]) for j in (0, shift)]
        train, val = (
            dataset_rows.SplitTable(split, (part,), (), range(len(part)), True)
            for split, part in zip(("train", "val"), parts, strict=True)
        )
        shared = duplicates._match_windows(train, val, 1)
        assert (sorted(shared.pairs), shared.max_shift) == ([(i, i) for i in range(7)], 2)


def test_encodings_in_a_large_table_are_found_though_a_sample_rules_most_columns_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[torch.Tensor] = []
    factorize = target_encoding._factorize
    monkeypatch.setattr(target_encoding, "_factorize", lambda column: searched.append(column) or factorize(column))
    generator = torch.Generator().manual_seed(0)
    categories = torch.randint(0, 5_000, (20_000,), generator=generator)
    labels = torch.randint(0, 2, (20_000,), generator=generator)
    prices = torch.randn(20_000, generator=generator)
    sizes = categories.bincount(minlength=5_000)
    label_sums, price_sums = (torch.zeros(5_000).index_add_(0, categories, y) for y in (labels.float(), prices))
    smoothed, mean_price = ((label_sums + 0.5) / (sizes + 1))[categories], (price_sums / sizes)[categories]
    numbers = torch.randn(20_000, generator=generator)
    x = torch.stack([numbers, (numbers > 1).float(), (2_000 * numbers).round(), smoothed, mean_price], 1)
    for y, column in ((labels, 3), (prices[:, None], 4)):
        searched.clear()
        loss_fn = nn.MSELoss() if y.is_floating_point() else nn.CrossEntropyLoss()
        encodings = _measure(minimal_setup(network(2), x, y, loss_fn), "target_encodings")
        assert [encoding.column for encoding in encodings] == [column]
        assert not any(torch.equal(part, x[:, i]) for part in searched for i in (0, 1, 2))


@pytest.mark.parametrize("rows_per_category", [2, 20])
def test_encodings_of_neighboring_rows_are_found_without_the_columns_that_never_repeat_a_value(
    monkeypatch: pytest.MonkeyPatch, rows_per_category: int
) -> None:
    copied: list[int] = []
    to_columns = target_encoding.to_columns
    monkeypatch.setattr(
        target_encoding, "to_columns", lambda parts: copied.append(parts[0].shape[1]) or to_columns(parts)
    )
    generator = torch.Generator().manual_seed(0)
    prices = torch.randn(60_000, generator=generator)
    means = prices.view(-1, rows_per_category).mean(1).repeat_interleave(rows_per_category)
    numbers = torch.randn(60_000, 2, generator=generator)
    x = torch.stack([numbers[:, 0], numbers[:, 1], means], 1)
    encodings = _measure(minimal_setup(network(3), x, prices[:, None], nn.MSELoss()), "target_encodings")
    assert [encoding.column for encoding in encodings] == [2]
    assert copied == [1]


def test_a_random_part_of_a_huge_tensor_dataset_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_rows, "_MAX_STORED_VALUES", 9_000)
    monkeypatch.setattr(dataset_rows, "_MAX_READ_VALUES", 4_500)
    setup = _setup(2_000, 1_000)
    tables = _measure(setup, "tables")
    assert isinstance(tables, dict)
    train, val = tables["train"], tables["val"]
    assert (len(train), train.is_complete) == (500, False)
    assert (len(val), val.is_complete) == (1_000, True)
    assert list(train.indices) == sorted(set(train.indices))
    assert max(train.indices) > 1_500
    inputs = setup.train_loader.dataset.tensors[0]
    assert torch.equal(train.inputs[0], inputs[list(train.indices)])


def test_the_page_lists_the_time_of_each_part() -> None:
    setup = minimal_setup(network(3), torch.randn(60, 4), torch.arange(60) % 3, nn.CrossEntropyLoss())
    report = Debugger.of(setup).checkup()
    seconds = list(report.part_seconds.values())
    assert seconds == sorted(seconds, reverse=True)
    assert 0.5 * report.seconds < sum(seconds) <= report.seconds * 1.01
    assert {"first pass", "D108 split-overlap"} <= set(report.part_seconds)
    times = report.view().state()["times"]
    assert len(times) == 12
    assert times[-1] == ("in total", f"{report.seconds:.2f} s")
    assert times[0][0] in report.view().html()
