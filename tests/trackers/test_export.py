"""Tests of the export of a run to each tracker whose package is installed, and of reading it back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nbdebug
from nbdebug.finding import Finding
from nbdebug.records import Record
from nbdebug.tensors.histogram_bins import pack_counts
from nbdebug.tensors.sampling import segment_histograms
from nbdebug.trackers import run_export
from nbdebug.trackers.run_export import RunExport
from nbdebug.trackers.tracker import Histogram, Row, Tracker
from nbdebug.watching.result import WatchResult

STEPS = 40
X = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))


def train(trackers: Sequence[Any] = ()) -> WatchResult:
    """Train a model whose loss is NaN from the last step on."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nbdebug.watch(model, optimizer, every=4, trackers=trackers) as run:
        for step in range(STEPS):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(X), (X[:, 0] > 0).long())
            (loss * float("nan") if step == STEPS - 1 else loss).backward()
            optimizer.step()
            if step % 10 == 9:
                run.log(val_loss=loss.item() + 0.1)
    assert run.result is not None
    return run.result


@pytest.fixture(scope="module")
def run() -> WatchResult:
    return train()


def check_diagnosis(source: Path, run: WatchResult) -> None:
    """The curves that are read back are those of the run."""
    diagnosis = nbdebug.diagnose(source)
    curves = diagnosis.curves
    assert curves.names == {"train_loss": "nbdebug/loss", "val_loss": "nbdebug/val_loss"}
    assert curves.unit == "step"
    steps, losses = run.record.series("loss")
    assert curves.train_loss.positions.tolist() == steps.tolist()
    np.testing.assert_allclose(curves.train_loss.values[:-1], losses[:-1], rtol=1e-6)
    assert curves.val_loss is not None
    assert len(curves.val_loss.values) == 4
    assert "T603" in [finding.code for finding in diagnosis]


class ListTracker(Tracker):
    """A tracker that keeps what it receives."""

    max_points = 100

    def __init__(self) -> None:
        self.steps, self.histogram_steps, self.findings, self.files = list[int](), list[int](), list[str](), list[str]()

    def add_rows(self, rows: Sequence[Row]) -> None:
        self.steps += [step for step, numbers in rows if "nbdebug/loss" in numbers]

    def add_histograms(self, step: int, histograms: Mapping[str, Histogram]) -> None:
        self.histogram_steps.append(step)

    def add_findings(self, step: int, findings: Sequence[Finding]) -> None:
        self.findings = [finding.code for finding in findings]

    def add_files(self, folder: Path) -> None:
        self.files = sorted(path.name for path in folder.iterdir())


def growing_record(record: Record, steps: int) -> Record:
    """The record as it was after some steps."""
    earlier = Record()
    earlier.run.extend([(int(step), {"loss": 1.0}) for step in record.run.steps[:steps]])
    return earlier


def test_updates_send_each_step_once_and_the_end_sends_the_rest(
    run: WatchResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = ListTracker()
    monkeypatch.setattr(run_export, "find_tracker", lambda _: tracker)
    export = RunExport([object()])
    export.advance(growing_record(run.record, 10), ())
    assert tracker.steps == [*range(1, 11)]
    export.advance(growing_record(run.record, 20), ())  # too early
    assert tracker.steps == [*range(1, 11)]
    export.finish(run)
    assert tracker.steps == [*range(1, STEPS + 1)]
    assert tracker.histogram_steps == run.record.shapes.steps
    assert tracker.findings == [finding.code for finding in run.report.findings]
    assert tracker.files == ["nbdebug.html", "nbdebug.json", "nbdebug.nbd"]


def test_histograms_have_the_moments_of_the_values() -> None:
    values = np.random.default_rng(0).normal(0.5, 2.0, 20_000)
    counts = segment_histograms(values.astype(np.float32), np.zeros(1, np.int64))
    histogram = Histogram.from_packed(pack_counts(counts)[0])
    assert histogram is not None
    assert histogram.percentages.sum() == pytest.approx(100)
    assert histogram.edges[0] <= values.min()
    assert histogram.edges[-1] >= values.max()
    below = histogram.percentages[histogram.edges[1:] <= 0].sum()
    assert below == pytest.approx(100 * (values < 0).mean(), abs=1.5)
    assert Histogram.from_packed(np.zeros_like(pack_counts(counts)[0])) is None


@pytest.mark.parametrize("target", [None, "runs/1", object()], ids=["none", "folder", "object"])
def test_what_is_no_tracker_is_refused_before_the_loop(target: Any) -> None:
    with pytest.raises(nbdebug.SetupError, match="expected a SummaryWriter, or the run that mlflow"):
        nbdebug.watch(nn.Linear(1, 1), trackers=target)


def test_tracker_that_fails_ends_nothing_and_is_reported(run: WatchResult, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = ListTracker()
    monkeypatch.setattr(tracker, "add_rows", lambda _: 1 / 0)
    monkeypatch.setattr(run_export, "find_tracker", lambda _: tracker)
    assert "trackers (ZeroDivisionError" in train([object()]).errors


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, WatchResult]]:
    """A folder of TensorBoard after a run that was exported while it went on."""
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from torch.utils.tensorboard import SummaryWriter

    folder = tmp_path_factory.mktemp("events")
    with SummaryWriter(str(folder)) as writer:
        yield folder, train([writer])


def test_tensorboard_reads_curves_histograms_and_findings(events: tuple[Path, WatchResult]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder, run = events
    reader = EventAccumulator(str(folder), size_guidance={"histograms": 0, "scalars": 0}).Reload()
    steps, norms = run.record.series("gradient.norm", "0.weight")
    scalars = reader.Scalars("nbdebug.gradient.norm/0.weight")
    assert [event.step for event in scalars] == steps.tolist()
    np.testing.assert_allclose([event.value for event in scalars], norms, rtol=1e-6)
    newest = reader.Histograms("nbdebug.weight/0.weight")[-1]
    assert newest.step == run.record.shapes.steps[-1]
    assert sum(newest.histogram_value.bucket) == pytest.approx(100)
    text = reader.Tensors("nbdebug/findings/text_summary")[-1].tensor_proto.string_val[0].decode()
    assert all(finding.message.split("\n")[0] in text for finding in run.report.findings)
    assert nbdebug.load(folder / "nbdebug.nbd").steps == STEPS
    assert json.loads((folder / "nbdebug.json").read_text())["counts"]["error"] > 0


def test_diagnose_reads_tensorboard(events: tuple[Path, WatchResult]) -> None:
    check_diagnosis(*events)


def test_training_is_the_same_with_a_tracker(events: tuple[Path, WatchResult], run: WatchResult) -> None:
    assert events[1].loss == run.loss


@pytest.mark.parametrize("store", ["sqlite:///{}/mlflow.db", "file:{}/mlruns"])
def test_mlflow(tmp_path: Path, run: WatchResult, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(store.format(tmp_path))
    identity = mlflow.create_experiment("test", artifact_location=f"file:{tmp_path}/artifacts")
    with mlflow.start_run(experiment_id=identity) as target:
        run.export(target)
    saved = mlflow.MlflowClient().get_run(target.info.run_id)
    assert saved.data.metrics["nbdebug/val_loss"] == pytest.approx(run.record.series("val_loss")[1][-1])
    assert saved.data.tags["nbdebug.faults"].split(", ")[0] == run.report.faults[0].code
    files = tmp_path / "artifacts" / target.info.run_id / "artifacts" / "nbdebug"
    assert nbdebug.load(files / "nbdebug.nbd").steps == STEPS
    assert "T603" in (files / "findings.md").read_text()
    is_database = store.startswith("sqlite")
    check_diagnosis(tmp_path / "mlflow.db" if is_database else tmp_path / "mlruns" / identity / saved.info.run_id, run)


def test_wandb_rows_of_the_user_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    target = wandb.init(project="test", dir=str(tmp_path), mode="offline", settings=wandb.Settings(console="off"))
    target.log({"mine": 1.0}, step=3)
    run = train([target])
    assert run.errors == ""
    assert target.step <= 3  # no row of the user would be dropped
    target.log({"mine": 2.0}, step=4)
    assert target.summary["nbdebug/val_loss"] == pytest.approx(run.record.series("val_loss")[1][-1])
    assert target.summary["nbdebug/faults"] == len(run.report.faults)
    target.finish()
    (log,) = tmp_path.rglob("*.wandb")
    assert log.stat().st_size > 1000


def test_trackio(run: WatchResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    trackio = pytest.importorskip("trackio", reason="trackio is not installed")
    target = trackio.init(project="test", name="run")
    run.export(target)
    target.finish()
    from trackio.sqlite_storage import SQLiteStorage

    rows = SQLiteStorage.get_logs("test", "run")
    losses = [row["nbdebug/loss"] for row in rows if "nbdebug/loss" in row]
    assert len(losses) == STEPS
    assert losses[0] == pytest.approx(run.loss[0][1])
