"""Tests of snapshots: what they record, how they are written, and what differs between two."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier
from nbdebug.tools.provenance import ProgramSnapshot, SnapshotChanges
from nbdebug.tools.provenance.data_fingerprint import fingerprint_data
from nbdebug.tools.provenance.machine import git_state, plain_config
from nbdebug.tools.provenance.snapshot import FORMAT

DATA = TensorDataset(torch.arange(40.0).reshape(20, 2), torch.arange(20))


def test_snapshot_records_versions_settings_data_config_and_code() -> None:
    snapshot = nbdebug.snapshot(data=DataLoader(DATA, batch_size=4), config={"lr": 0.1, "model": {"width": 8}})
    assert snapshot.versions["torch"] == torch.__version__
    assert snapshot.settings["threads"] == torch.get_num_threads()
    assert snapshot.config == {"lr": 0.1, "model.width": 8}
    assert "all samples, float32 (2,), int64 ()" in snapshot.data["loader"]
    assert dict(snapshot.cells)["test_snapshot.py"] == Path(__file__).read_text(encoding="utf-8")


def test_saved_snapshot_is_equal_and_plain_json(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    snapshot = nbdebug.snapshot(path, data={"train": DATA}, config={"lr": 0.1})
    assert json.loads(path.read_text())["format"] == "nbdebug snapshot 1"
    assert nbdebug.compare(path, snapshot).headline == "Nothing has changed."
    assert os.listdir(tmp_path) == ["run.json"]


def reordered(seed: int) -> Subset[Any]:
    return Subset(DATA, torch.randperm(20, generator=torch.Generator().manual_seed(seed)).tolist())


def fingerprint(data: Any, limit: int = 1000) -> str:
    return fingerprint_data(data, limit, 10.0).text


def test_fingerprint_ignores_the_order_but_no_value_and_no_sample() -> None:
    first = fingerprint(DataLoader(DATA, shuffle=True))
    assert first == fingerprint(reordered(1)) == fingerprint(reordered(2))
    changed = TensorDataset(DATA.tensors[0].clone(), DATA.tensors[1])
    changed.tensors[0][7, 1] += 1e-5
    others = [changed, Subset(DATA, range(19)), Subset(DATA, [0, *range(19)]), TensorDataset(DATA.tensors[0])]
    assert len({first, *map(fingerprint, others)}) == 5


def test_fingerprint_of_a_large_set_reads_a_part() -> None:
    assert "(5 of 20 samples" in fingerprint(DATA, 5)
    assert fingerprint(DATA, 5) == fingerprint(DATA, 5)


class Augmented(Dataset[Tensor]):
    def __init__(self, generator: Any = None) -> None:
        self.generator = generator

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Tensor:
        noise = self.generator.normal() if self.generator else random.random() + np.random.rand() + torch.rand(())
        return torch.tensor(float(index + noise))


def test_augmentation_does_not_change_the_fingerprint_or_is_reported() -> None:
    states = random.getstate(), torch.get_rng_state()
    assert fingerprint(Augmented()) == fingerprint(Augmented())
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])
    assert fingerprint(Augmented(np.random.default_rng(0))).startswith("changes (")


class Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Any:
        yield from torch.arange(6.0)


def test_streams_have_a_fingerprint() -> None:
    assert fingerprint(DataLoader(Stream(), batch_size=2)) == fingerprint(DataLoader(Stream(), batch_size=2))
    debugger = Debugger(torch.nn.Linear(1, 1), iter([(torch.ones(2, 1), torch.ones(2, 1))] * 3))
    debugger.snapshot()
    assert len(list(debugger.train_loader)) == 3


@dataclasses.dataclass
class Options:
    lr: float
    inner: Any


@pytest.mark.parametrize(
    "config",
    [
        {"lr": 0.1, "inner": {"width": 3}},
        argparse.Namespace(lr=0.1, inner=SimpleNamespace(width=3)),
        Options(0.1, {"width": 3}),
    ],
)
def test_config_of_any_kind_is_flat(config: Any) -> None:
    assert plain_config(config) == {"lr": 0.1, "inner.width": 3}


def snapshot_of(cells: list[str], start: int = 1, **facts: Any) -> ProgramSnapshot:
    return ProgramSnapshot(cells=tuple((f"In[{start + i}]", cell) for i, cell in enumerate(cells)), **facts)


def test_changes_name_facts_with_both_values() -> None:
    before = ProgramSnapshot(versions={"torch": "2.6", "numpy": "1.26"}, settings={"threads": 2})
    after = ProgramSnapshot(versions={"torch": "2.7", "scipy": "1.11"}, settings={"threads": 2})
    changes = nbdebug.compare(before, after)
    assert isinstance(changes, SnapshotChanges)
    assert [(c.name, c.before, c.after) for c in changes.changes] == [
        ("torch", "2.6", "2.7"), ("numpy", "1.26", "—"), ("scipy", "—", "1.11"),
    ]  # fmt: skip
    assert changes.headline == "Changed: 3 in versions."


def test_code_is_compared_cell_by_cell_whatever_their_numbers() -> None:
    cells = ["import torch", "lr = 0.1\nsteps = 100\nwidth = 8", "train(model)", "print('done')"]
    changed = ["import torch", "lr = 0.3\nsteps = 100\nwidth = 8", "train(model)", "errors = evaluate(model)\nerrors"]
    code = nbdebug.compare(snapshot_of(cells), snapshot_of(changed, start=11)).code
    assert [(c.name, c.kind) for c in code] == [
        ("In[2] → In[12]", "changed"), ("In[14]", "added"), ("In[4]", "removed"),
    ]  # fmt: skip
    assert code[0].diff.splitlines()[1:3] == ["-lr = 0.1", "+lr = 0.3"]
    assert nbdebug.compare(snapshot_of(cells), snapshot_of(cells, start=7)).code == ()


def test_git_state_has_commit_diff_and_other_files(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=tmp_path, check=True)

    assert git_state(tmp_path) == {}
    git("init", "-q")
    (tmp_path / "train.py").write_text("lr = 1\n")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    assert git_state(tmp_path)["diff"] == ""
    (tmp_path / "train.py").write_text("lr = 2\n")
    (tmp_path / "new.py").write_text("")
    state = git_state(tmp_path)
    assert "+lr = 2" in state["diff"]
    assert state["files outside of git"] == ["new.py"]
    assert len(state["commit"]) == 40


_WRITER = """
import sys
from nbdebug.tools.provenance import ProgramSnapshot
number = 0
while True:
    number += 1
    ProgramSnapshot(config={{"number": number, "filling": "x" * 500_000}}).save({path!r})
    print(number, flush=True)
"""


def test_killed_writer_leaves_a_complete_file(tmp_path: Path) -> None:
    path = str(tmp_path / "run.json")
    for delay in (0.0, 0.003, 0.011):
        process = subprocess.Popen([sys.executable, "-c", _WRITER.format(path=path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert nbdebug.compare(path, path).headline == "Nothing has changed."


def test_failed_write_keeps_the_former_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    ProgramSnapshot(config={"lr": 1}).save(path)

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        ProgramSnapshot(config={"lr": 2}).save(path)
    assert nbdebug.compare(path, ProgramSnapshot(config={"lr": 1})).changes == ()
    assert os.listdir(tmp_path) == ["run.json"]


def broken_file(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "run.json"
    path.write_text(content)
    return path


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda folder: nbdebug.compare(folder / "missing.json", ProgramSnapshot()), "cannot be read"),
        (lambda folder: nbdebug.compare(broken_file(folder, '{"format": "nb'), ProgramSnapshot()), "is not valid JSON"),
        (lambda folder: nbdebug.compare(broken_file(folder, "[1]"), ProgramSnapshot()), "another kind of file"),
        *(
            (lambda folder, odd=odd: nbdebug.compare(broken_file(folder, odd), ProgramSnapshot()), "no readable")
            for odd in (json.dumps({"format": FORMAT, name: 3}) for name in ("versions", "cells"))
        ),
        (
            lambda folder: nbdebug.compare(ProgramSnapshot(), torch.nn.Linear(1, 1)),
            "b is a Linear; expected a snapshot",
        ),
        (lambda folder: nbdebug.snapshot(samples=0), "samples is 0"),
        (lambda folder: nbdebug.snapshot(loader=1), "option of snapshot is 'loader'"),
    ],
)
def test_unusable_argument_raises(tmp_path: Path, call: Callable[[Path], Any], message: str) -> None:
    with pytest.raises(nbdebug.SetupError, match=message):
        call(tmp_path)


def test_results_are_plain_data_with_escaped_pages() -> None:
    changes = nbdebug.compare(snapshot_of(["<b>1"]), snapshot_of(["<b>2"], config={"a": "<i>"}))
    for result in (changes, nbdebug.snapshot(config={"a": "<i>"})):
        assert pickle.loads(pickle.dumps(result)).to_text() == result.to_text()
        assert "<i>" not in result.view().html()
        assert len(result.to_frame())
    assert "<b>" not in changes.view().html()


def test_rule_lists_data_and_versions_but_no_code() -> None:
    debugger = Debugger.of(classifier())
    before = debugger.snapshot()
    debugger.changes_since(dataclasses.replace(before, cells=(), data={"train_loader": "other"}))
    finding = next(finding for finding in debugger.findings if finding.code == "R903")
    assert finding.message.startswith("These facts differ from the earlier run: train_loader (data): other → ")


def test_package_that_only_one_environment_has_is_listed_but_no_finding() -> None:
    debugger = Debugger.of(classifier())
    before = debugger.snapshot()
    changes = debugger.changes_since(dataclasses.replace(before, versions={**before.versions, "other": "1.0"}))
    assert [(c.name, c.after) for c in changes.changes] == [("other", "—")]
    assert [finding for finding in debugger.findings if finding.code == "R903"] == []


def hidden_changes(change: Callable[[Debugger], Any]) -> list[Any]:
    """The findings R904 after a change that is made since a snapshot."""
    debugger = Debugger.of(classifier())
    before = debugger.snapshot()
    change(debugger)
    debugger.changes_since(before)
    return [finding for finding in debugger.findings if finding.code == "R904"]


def train(debugger: Debugger) -> None:
    setup: Any = debugger.setup
    for x, y in setup.train_loader:
        setup.optimizers[0].zero_grad()
        setup.loss_fn(setup.model(x), y).backward()
        setup.optimizers[0].step()


def watched_training(debugger: Debugger) -> None:
    with debugger.watch():
        train(debugger)


def test_state_that_changed_without_a_watched_run_is_reported() -> None:
    (finding,) = hidden_changes(train)
    assert finding.evidence["parts"] == ["model.0", "model.2", "optimizer"]
    assert finding.where.module == "0"


def test_one_changed_weight_is_reported_at_its_module() -> None:
    (finding,) = hidden_changes(lambda debugger: debugger.setup.model[2].bias.data.add_(1e-6))
    assert finding.evidence["parts"] == ["model.2"]


@pytest.mark.parametrize("is_first", [True, False])
def test_change_before_or_after_a_watched_run_is_reported(is_first: bool) -> None:
    def change(debugger: Debugger) -> None:
        if not is_first:
            watched_training(debugger)
        debugger.setup.model[2].bias.data.add_(1.0)
        if is_first:
            watched_training(debugger)

    (finding,) = hidden_changes(change)
    assert finding.evidence["parts"] == ["model.2"]


@pytest.mark.parametrize("change", [lambda debugger: None, lambda d: d.overfit(steps=4), watched_training])
def test_tools_and_watched_runs_are_no_hidden_changes(change: Callable[[Debugger], Any]) -> None:
    assert hidden_changes(change) == []
