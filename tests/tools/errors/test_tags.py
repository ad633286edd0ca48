"""Tags and notes on disk: saved by each click, merged with what others write, never lost."""

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

BAD = {
    "no head": "1,2,3\n",
    "another file": "sepal,petal\n1,2\n",
    "a key that is text": "key,tags,note\n3,a,\nfour,b,\n",
    "a key that is a fraction": "key,tags\n3.5,a\n",
    "a cell too many": "key,tags\n3,a,b,c\n",
    "an empty key": "key,tags\n,a\n",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "labels.csv"


def test_nothing_is_written_without_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    marks = Tags()
    marks.tag([3], "wrong label")
    marks.note([3], "it is a seven")
    assert list(tmp_path.iterdir()) == []


def test_each_click_is_saved_and_comes_back(path: Path) -> None:
    marks = Tags(path)
    assert not path.exists()
    marks.tag([3, 5], "wrong label")
    marks.note([5], 'a "7", or\na 1; who knows')
    marks.tag([5], "ambiguous")
    marks.tag([3], "wrong label", on=False)
    again = Tags(path)
    assert again.by_key == {5: {"wrong label", "ambiguous"}}
    assert again.notes == {5: 'a "7", or\na 1; who knows'}
    assert again.tagged("ambiguous") == [5]
    assert [one.name for one in path.parent.iterdir()] == ["labels.csv"]


def test_marks_made_before_a_path_is_given_are_saved_then(path: Path) -> None:
    Tags(path).tag([1], "theirs")
    marks = Tags()
    marks.tag([2], "ours")
    marks.save(path)
    marks.note([2], "more")
    assert Tags(path).by_key == {1: {"theirs"}, 2: {"ours"}}
    assert marks.tagged() == [1, 2]


def test_the_file_says_what_was_said_of_each_sample(path: Path) -> None:
    table = ClassificationTable.from_arrays([0, 1, 1], [0, 0, 1], class_names=["cat", "=dog"], index=[10, 20, 30])
    samples = SampleDisplay(torch.arange(400.0).reshape(100, 4))
    marks = create_tags(path, table, samples)
    marks.tag([20], "wrong label")
    frame = pd.read_csv(path)
    assert list(frame.columns) == ["key", "tags", "note", "target", "prediction", "fingerprint"]
    assert frame.iloc[0][["key", "target", "prediction"]].tolist() == [20, "cat", "=dog"]
    assert re.fullmatch("[0-9a-f]{12}", str(frame.fingerprint[0]))


def test_two_that_write_lose_nothing(path: Path) -> None:
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
marks = Tags(sys.argv[1])
for key in range(40):
    marks.tag([key], sys.argv[2])
"""


def test_processes_that_write_at_the_same_time_lose_nothing(path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen([sys.executable, "-c", WRITER, path, name], env=env) for name in ("a", "b")]
    assert [one.wait(60) for one in running] == [0, 0]
    assert Tags(path).by_key == {key: {"a", "b"} for key in range(40)}


def test_what_a_person_writes_into_the_file_stays(path: Path) -> None:
    path.write_text("\ufeffowner;key;tags;note\r\nann;7.0;later;\r\nbob;8;;\r\n", encoding="utf-8")
    before = path.read_bytes()
    marks = Tags(path)
    assert marks.by_key == {7: {"later"}}
    assert path.read_bytes() == before
    marks.tag([9], "new")
    frame = pd.read_csv(path).set_index("key")
    assert frame.owner[[7, 8]].tolist() == ["ann", "bob"]
    assert frame.tags[[7, 9]].tolist() == ["later", "new"]


def test_two_rows_of_one_sample_count_both(path: Path) -> None:
    path.write_text("key,tags,note\n1,a,first\n1,b; c,second\n", encoding="utf-8")
    marks = Tags(path)
    assert marks.by_key == {1: {"a", "b", "c"}}
    assert marks.notes == {1: "first\nsecond"}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_file_that_cannot_be_read_is_refused_and_stays(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SetupError, match=r"labels\.csv .*expected .*was not changed"):
        Tags(path)
    marks = Tags()
    marks.tag([1], "kept")
    with pytest.raises(SetupError):
        marks.save(path)
    assert path.read_text(encoding="utf-8") == text
    marks.tag([2], "kept")  # the bad path was not taken
    assert marks.tagged() == [1, 2]


def test_a_file_that_breaks_meanwhile_loses_nothing(path: Path) -> None:
    marks = Tags(path)
    marks.tag([1], "a")
    good = path.read_text(encoding="utf-8")
    path.write_bytes(b"\xff\xfe\x00 no text")
    with pytest.raises(SetupError, match="cannot be read"):
        marks.tag([2], "b")
    assert marks.tagged() == [1, 2]
    path.write_text(good, encoding="utf-8")
    marks.tag([3], "c")
    assert Tags(path).tagged() == [1, 2, 3]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="nowhere"):
        Tags(tmp_path / "nowhere" / "labels.csv")


def test_a_lock_of_a_dead_process_does_not_hold(path: Path) -> None:
    lock = path.with_name(".labels.csv.lock")
    lock.touch()
    os.utime(lock, (0, 0))
    Tags(path).tag([1], "a")
    assert not lock.exists()


def test_fingerprints_tell_that_the_data_has_changed_under_its_marks(path: Path) -> None:
    data = np.arange(400.0).reshape(100, 4)
    table = ClassificationTable.from_arrays(np.zeros(100, int), np.zeros(100, int))
    create_tags(path, table, SampleDisplay([(row, 0) for row in data])).tag([3, 50, 99], "a")
    relabeled = create_tags(path, table, SampleDisplay([(row, 1) for row in data]))
    assert changed_samples_note(relabeled) == ()
    moved = create_tags(path, table, SampleDisplay([(row, 0) for row in np.roll(data, 1, 0)]))
    assert moved.changed_samples() == [3, 50, 99]
    assert changed_samples_note(moved)[0].startswith("3 tagged samples have changed")
    shorter = create_tags(path, table, SampleDisplay([(row, 0) for row in data[:60]]))
    assert shorter.changed_samples() == [99]


def test_the_debugger_keeps_tags_in_a_file(path: Path) -> None:
    model = torch.nn.Linear(4, 2)
    data = TensorDataset(torch.rand(30, 4), torch.zeros(30, dtype=torch.long))
    debugger = Debugger(model, DataLoader(data, 10), loss_fn=torch.nn.CrossEntropyLoss())
    result = debugger.errors(tags=path)
    result.answer({"kind": "mark", "rows": [3, 4], "tag": "wrong label"})
    result.tag([5], "ambiguous", note="hm")
    assert debugger.errors(tags=path).tagged().index.tolist() == [3, 4, 5]
    assert pd.read_csv(path).fingerprint.nunique() == 3
    other = debugger.errors()
    other.save_tags(path)
    assert other.tags.notes == {5: "hm"}
    data.tensors[0][4] += 1
    assert "1 tagged samples have changed" in str(debugger.errors(tags=path))
