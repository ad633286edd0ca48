"""Tests of Batch and of the pytree functions behind it."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from nbdebug.exceptions import NotChecked
from nbdebug.setup import Batch
from nbdebug.tensors.pytree import describe_tensors, tree_leaves, tree_map


def test_take_samples_selects_inputs_targets_and_raw_batch() -> None:
    x, y = torch.arange(12.0).reshape(4, 3), torch.arange(4)
    batch = Batch((x,), targets=(y,), indices=(9, 8, 7, 6), raw={"x": x, "y": y}).take_samples([2, 0])
    assert batch.inputs.tolist() == [[6.0, 7.0, 8.0], [0.0, 1.0, 2.0]]
    assert batch.target.tolist() == [2, 0]
    assert batch.indices == (7, 9)
    assert batch.raw["y"].tolist() == [2, 0]


def test_take_samples_of_sequence_first_input_selects_second_axis() -> None:
    sequence_first, y = torch.randn(7, 4, 3), torch.arange(4)
    assert Batch((sequence_first,), targets=(y,)).take_samples([1, 3]).inputs.shape == (7, 2, 3)


def test_take_samples_of_batch_that_the_dataset_returns_whole_has_no_indices() -> None:
    assert Batch((torch.zeros(6, 2),), targets=(torch.zeros(6),), indices=(3,)).take_samples([5, 4]).indices is None


def test_take_samples_without_sample_axis_raises() -> None:
    with pytest.raises(NotChecked, match="no axis of the 4 samples"):
        Batch((torch.randn(5, 3),), targets=(torch.arange(4),)).take_samples([0])


def test_batch_size_without_target_is_that_of_most_inputs() -> None:
    assert Batch((torch.zeros(5, 2), torch.zeros(5), torch.zeros(9))).size == 5
    assert Batch((3,)).size == 0


def test_dataset_index_of_row_without_indices_is_row() -> None:
    batch = Batch((torch.zeros(2, 1),), indices=(41, 7))
    assert batch.dataset_index(0) == 41
    assert Batch((torch.zeros(2, 1),)).dataset_index(1) == 1


def test_batch_text_lists_dtypes_and_shapes() -> None:
    batch = Batch((torch.zeros(2, 1, 8, 8),), targets=(torch.zeros(2, dtype=torch.int64),))
    assert str(batch) == "float32 (2, 1, 8, 8) → int64 (2,)"
    assert describe_tensors(None) == "NoneType"


def test_batch_to_device_keeps_structure() -> None:
    packed = pack_sequence([torch.randn(3, 4), torch.randn(2, 4)])
    batch = Batch((packed,), {"mask": torch.ones(2)}, (torch.zeros(2),)).to(torch.device("cpu"))
    assert torch.equal(batch.args[0].data, packed.data)
    assert set(batch.kwargs) == {"mask"}


def test_tree_map_keeps_container_types() -> None:
    tree = {"a": [torch.ones(1), (torch.ones(2), "text")], "b": {}}
    doubled_tree = tree_map(tree, lambda leaf: leaf * 2 if isinstance(leaf, torch.Tensor) else leaf)
    assert doubled_tree["a"][1][0].tolist() == [2.0, 2.0]
    assert doubled_tree["a"][1][1] == "text"
    assert doubled_tree["b"] == {}
    assert [path for path, _ in tree_leaves(tree)] == [("a", 0), ("a", 1, 0), ("a", 1, 1), ("b",)]
