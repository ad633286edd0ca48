"""Tests of write_part and read_parts: one table from the tables of several ranks."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import distributed, multiprocessing
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import nbdebug
from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable
from nbdebug.predictions.distributed import read_parts, write_part

pytest.importorskip("duckdb")

ROWS, RANKS = 21, 2


def make_model_and_data() -> tuple[torch.nn.Module, TensorDataset]:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 4).eval()
    return model, TensorDataset(torch.randn(ROWS, 3), torch.randint(0, 4, (ROWS,)), torch.arange(ROWS))


def evaluate_rank(rank: int, address: str, folder: str) -> None:
    """Evaluate the share of one rank and write its part."""
    distributed.init_process_group("gloo", init_method=f"file://{address}", rank=rank, world_size=RANKS)
    model, data = make_model_and_data()
    loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data, shuffle=True, seed=3))
    with torch.no_grad():
        scores, targets, indices = zip(*((model(x), y, index) for x, y, index in loader), strict=True)
    table = ClassificationTable.from_arrays(torch.cat(scores), torch.cat(targets), index=torch.cat(indices).numpy())
    write_part(folder, rank, table)
    distributed.barrier()
    distributed.destroy_process_group()


def test_read_parts_of_two_processes_equals_table_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A test that ran a cell before leaves the module of IPython as the main one, which cannot be imported.
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None, raising=False)
    folder = tmp_path / "parts"
    multiprocessing.spawn(evaluate_rank, (str(tmp_path / "rendezvous"), str(folder)), nprocs=RANKS)
    assert sorted(path.name for path in folder.iterdir()) == [
        "part-00000-of-00002.parquet",
        "part-00001-of-00002.parquet",
    ]
    model, data = make_model_and_data()
    with torch.no_grad():
        expected = ClassificationTable.from_arrays(model(data.tensors[0]), data.tensors[1], index=np.arange(ROWS))
    merged_table = read_parts(folder, world=RANKS)
    assert isinstance(merged_table, ClassificationTable)
    pd.testing.assert_frame_equal(merged_table.to_frame(), expected.to_frame(), rtol=1e-5)
    assert merged_table.notes == (*expected.notes, "1 rows repeat a sample of an earlier row and are left out")
    assert (
        nbdebug.errors(predictions=folder).headline
        == nbdebug.errors(predictions=merged_table.prediction, targets=merged_table.target).headline
    )


def make_part(rows: range, names: list[str] | None = None) -> ClassificationTable:
    return ClassificationTable.from_arrays(
        [row % 2 for row in rows], [row % 3 % 2 for row in rows], index=[*rows], class_names=names
    )


def test_read_parts_with_missing_ranks_names_them(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="holds no parts; expected one per rank"):
        read_parts(tmp_path)
    write_part(tmp_path, 1, make_part(range(5)), world=4)
    write_part(tmp_path, 3, make_part(range(5, 9)), world=4)
    with pytest.raises(SetupError, match="lacks rank 0, 2 of 4"):
        read_parts(tmp_path)
    with pytest.raises(SetupError, match="holds parts of runs with 2 and 4 ranks"):
        read_parts(tmp_path, world=2)
    write_part(tmp_path, 0, make_part(range(5)), world=2)
    with pytest.raises(SetupError, match="holds parts of runs with 2 and 4 ranks; expected one run"):
        nbdebug.errors(predictions=tmp_path)


def test_read_parts_with_different_class_names_raises(tmp_path: Path) -> None:
    write_part(tmp_path, 0, make_part(range(5), ["cat", "dog"]), world=2)
    write_part(tmp_path, 1, make_part(range(5, 9), ["dog", "cat"]), world=2)
    with pytest.raises(SetupError, match=r"has the classes .*; expected .* Pass the same class_names for all parts"):
        read_parts(tmp_path)
    write_part(tmp_path, 1, make_part(range(5, 9)), world=2)
    with pytest.raises(SetupError, match="has the classes 0, 1; expected cat, dog"):
        read_parts(tmp_path)


def test_read_parts_with_integer_class_missing_on_one_rank_joins_classes(tmp_path: Path) -> None:
    write_part(tmp_path, 0, ClassificationTable.from_arrays([0, 1], [0, 0], index=[4, 0]), world=2)
    write_part(tmp_path, 1, ClassificationTable.from_arrays([2, 1], [2, 2], index=[1, 3]), world=2)
    merged_table = read_parts(tmp_path)
    assert merged_table.classes == ("0", "1", "2")
    assert (merged_table.index.tolist(), merged_table.target.tolist()) == ([0, 1, 3, 4], [0, 2, 2, 0])


def test_read_parts_of_identical_ranks_drops_repeated_rows(tmp_path: Path) -> None:
    for rank in range(3):
        write_part(tmp_path, rank, make_part(range(50)), world=3)
    merged_table = read_parts(tmp_path)
    assert len(merged_table) == 50
    assert merged_table.notes[-1].startswith("100 rows repeat a sample")


def test_write_part_without_index_or_with_invalid_rank_raises(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="index is None; expected the dataset index of each row"):
        write_part(tmp_path, 0, ClassificationTable.from_arrays([0], [0]))
    with pytest.raises(SetupError, match="rank is 2; expected 0 to 1"):
        write_part(tmp_path, 2, make_part(range(3)), world=2)
