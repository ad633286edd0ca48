"""Tests of tags and notes on disk: saving, merging with other writers, and invalid files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.sample_display import SampleDisplay
from nbdebug.tools.errors.tags import Tags, changed_samples_note, create_tags

INVALID_FILES = {
    "no header": "1,2,3\n",
    "another file": "sepal,petal\n1,2\n",
    "a key that is text": "key,tags,note\n3,a,\nfour,b,\n",
    "a key that is a fraction": "key,tags\n3.5,a\n",
    "a cell too many": "key,tags\n3,a,b,c\n",
    "an empty key": "key,tags\n,a\n",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "labels.csv"


def test_tags_without_path_write_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tags = Tags()
    tags.tag([3], "wrong label")
    tags.note([3], "it is a seven")
    assert list(tmp_path.iterdir()) == []


def test_tags_and_notes_are_saved_at_each_change_and_read_back(path: Path) -> None:
    tags = Tags(path)
    assert not path.exists()
    tags.tag([3, 5], "wrong label")
    tags.note([5], 'a "7", or\na 1; who knows')
    tags.tag([5], "ambiguous")
    tags.tag([3], "wrong label", on=False)
    reopened = Tags(path)
    assert reopened.by_key == {5: {"wrong label", "ambiguous"}}
    assert reopened.notes == {5: 'a "7", or\na 1; who knows'}
    assert reopened.tagged("ambiguous") == [5]
    assert [file.name for file in path.parent.iterdir()] == ["labels.csv"]


def test_tags_save_merges_earlier_tags_into_existing_file(path: Path) -> None:
    Tags(path).tag([1], "saved")
    tags = Tags()
    tags.tag([2], "new")
    tags.save(path)
    tags.note([2], "more")
    assert Tags(path).by_key == {1: {"saved"}, 2: {"new"}}
    assert tags.tagged() == [1, 2]


def test_tags_file_contains_target_prediction_and_fingerprint(path: Path) -> None:
    table = ClassificationTable.from_arrays([0, 1, 1], [0, 0, 1], class_names=["cat", "=dog"], index=[10, 20, 30])
    samples = SampleDisplay(torch.arange(400.0).reshape(100, 4))
    tags = create_tags(path, table, samples)
    tags.tag([20], "wrong label")
    frame = pd.read_csv(path)
    assert list(frame.columns) == ["key", "tags", "note", "target", "prediction", "fingerprint"]
    assert frame.iloc[0][["key", "target", "prediction"]].tolist() == [20, "cat", "=dog"]
    assert re.fullmatch("[0-9a-f]{12}", str(frame.fingerprint[0]))


def test_two_tags_objects_on_one_file_merge_their_changes(path: Path) -> None:
    first, second = Tags(path), Tags(path)
    first.tag([1, 2], "a")
    second.tag([2, 3], "b")
    second.note([1], "from the second")
    first.tag([2], "a", on=False)
    first.tag([4], "c")
    assert Tags(path).by_key == {1: {"a"}, 2: {"b"}, 3: {"b"}, 4: {"c"}}
    assert first.notes == {1: "from the second"}
    first.tag([1], "a", on=False)
    second.tag([3], "b", on=False)
    assert Tags(path).tagged() == [2, 4]
    assert second.tagged("a") == []


WRITER = """
import sys
from nbdebug.tools.errors.tags import Tags
tags = Tags(sys.argv[1])
for key in range(40):
    tags.tag([key], sys.argv[2])
"""


def test_concurrent_processes_writing_tags_lose_nothing(path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [subprocess.Popen([sys.executable, "-c", WRITER, path, name], env=env) for name in ("a", "b")]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert Tags(path).by_key == {key: {"a", "b"} for key in range(40)}


def test_tags_file_edited_by_hand_keeps_its_other_columns(path: Path) -> None:
    path.write_text("\ufeffowner;key;tags;note\r\nann;7.0;later;\r\nbob;8;;\r\n", encoding="utf-8")
    content = path.read_bytes()
    tags = Tags(path)
    assert tags.by_key == {7: {"later"}}
    assert path.read_bytes() == content
    tags.tag([9], "new")
    frame = pd.read_csv(path).set_index("key")
    assert frame.owner[[7, 8]].tolist() == ["ann", "bob"]
    assert frame.tags[[7, 9]].tolist() == ["later", "new"]


def test_tags_and_notes_of_repeated_rows_are_merged(path: Path) -> None:
    path.write_text("key,tags,note\n1,a,first\n1,b; c,second\n", encoding="utf-8")
    tags = Tags(path)
    assert tags.by_key == {1: {"a", "b", "c"}}
    assert tags.notes == {1: "first\nsecond"}


@pytest.mark.parametrize("text", INVALID_FILES.values(), ids=INVALID_FILES)
def test_invalid_tags_file_raises_setup_error_and_is_not_changed(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SetupError, match=r"labels\.csv .*expected .*was not changed"):
        Tags(path)
    tags = Tags()
    tags.tag([1], "later")
    with pytest.raises(SetupError):
        tags.save(path)
    assert path.read_text(encoding="utf-8") == text
    tags.tag([2], "later")  # raises if the invalid path was taken
    assert tags.tagged() == [1, 2]


def test_tags_file_corrupted_after_opening_loses_no_tag(path: Path) -> None:
    tags = Tags(path)
    tags.tag([1], "a")
    valid_text = path.read_text(encoding="utf-8")
    path.write_bytes(b"\xff\xfe\x00 no text")
    with pytest.raises(SetupError, match="cannot be read"):
        tags.tag([2], "b")
    assert tags.tagged() == [1, 2]
    path.write_text(valid_text, encoding="utf-8")
    tags.tag([3], "c")
    assert Tags(path).tagged() == [1, 2, 3]


def test_tags_in_missing_folder_raise_setup_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="nowhere"):
        Tags(tmp_path / "nowhere" / "labels.csv")


def test_stale_lock_of_tags_file_is_removed(path: Path) -> None:
    lock = path.with_name(".labels.csv.lock")
    lock.touch()
    os.utime(lock, (0, 0))
    Tags(path).tag([1], "a")
    assert not lock.exists()


def test_changed_samples_lists_moved_and_missing_but_not_relabeled_samples(path: Path) -> None:
    data = np.arange(400.0).reshape(100, 4)
    table = ClassificationTable.from_arrays(np.zeros(100, int), np.zeros(100, int))
    create_tags(path, table, SampleDisplay([(row, 0) for row in data])).tag([3, 50, 99], "a")
    relabeled_tags = create_tags(path, table, SampleDisplay([(row, 1) for row in data]))
    assert changed_samples_note(relabeled_tags) == ()
    rolled_tags = create_tags(path, table, SampleDisplay([(row, 0) for row in np.roll(data, 1, 0)]))
    assert rolled_tags.changed_samples() == [3, 50, 99]
    assert changed_samples_note(rolled_tags)[0].endswith(" was written (3): 3, 50, 99")
    shorter_tags = create_tags(path, table, SampleDisplay([(row, 0) for row in data[:60]]))
    assert shorter_tags.changed_samples() == [99]


def test_debugger_errors_reads_and_saves_tags_file(path: Path) -> None:
    model = torch.nn.Linear(4, 2)
    data = TensorDataset(torch.rand(30, 4), torch.zeros(30, dtype=torch.long))
    debugger = Debugger(model, DataLoader(data, 10), loss_fn=torch.nn.CrossEntropyLoss())
    result = debugger.errors(tags=path)
    result.answer({"kind": "mark", "rows": [3, 4], "tag": "wrong label"})
    result.tag([5], "ambiguous", note="hm")
    assert debugger.errors(tags=path).tagged().index.tolist() == [3, 4, 5]
    assert pd.read_csv(path).fingerprint.nunique() == 3
    untagged = debugger.errors()
    untagged.save_tags(path)
    assert untagged.tags.notes == {5: "hm"}
    data.tensors[0][4] += 1
    assert " was written (1): 4" in str(debugger.errors(tags=path))
