"""Tests of samples that never return: in a worker of a loader, in a checkup and in the data profile."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from nbdebug.crashes import stuck_samples
from nbdebug.measurements import Measurements
from nbdebug.rule_engine.crash_rules import explain_error
from nbdebug.setup import Setup
from nbdebug.setup.time_limit import UserCodeTimeout, limit_samples, time_limit
from nbdebug.tools.data import data


class SlowDataset(Dataset[Any]):
    """Points of which one waits, as for a lock or a server; it tries again after each error."""

    def __init__(self, stuck: int, seconds: float = 60.0) -> None:
        self.stuck, self.seconds = stuck, seconds

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        try:
            if index == self.stuck:
                time.sleep(self.seconds)  # the server
        except Exception:
            return self[index]
        return torch.ones(2), index % 2


class SlowStream(IterableDataset[Any]):
    """Rows that stop coming."""

    def __iter__(self) -> Any:
        for index in range(40):
            yield SlowDataset(20)[index]


def setup_of(dataset: Any) -> Setup:
    return Setup(nn.Linear(2, 2), DataLoader(dataset, 4), loss_fn=nn.CrossEntropyLoss())


def test_code_that_retries_is_interrupted_and_the_alarm_restored() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(UserCodeTimeout, match=r"has not returned within 0.1 s"), time_limit(0.1):
        _ = SlowDataset(0)[0]
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_alarm_of_the_user_is_left_alone() -> None:
    signal.setitimer(signal.ITIMER_REAL, 60)
    try:
        with time_limit(0.01):
            time.sleep(0.05)
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 50
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.mark.parametrize(("stuck", "seconds"), [(5, 60.0), (5, 1.2)], ids=["hangs", "only slow in the worker"])
def test_worker_that_hangs_is_explained_with_sample_and_line(
    stuck: int, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stuck_samples, "SAMPLE_SECONDS", 0.2 if seconds > 2 else 2.0)
    with pytest.raises(RuntimeError) as raised:
        list(DataLoader(SlowDataset(stuck, seconds), 4, num_workers=1, timeout=1))
    (finding,) = explain_error(raised.value).findings
    assert finding.code == "X1034"
    if seconds > 2:
        assert f"sample {stuck} did not return" in finding.message
        assert "time.sleep(self.seconds)  # the server" in (finding.where.source or "")
    else:
        assert "40 samples can be read in this process" in finding.message


def test_profile_lists_a_sample_that_does_not_return_with_its_line() -> None:
    profile = data(setup_of(SlowDataset(5)), samples=40, seconds=0.5)
    split = profile.splits[0]
    assert set(split.failures) == {5}
    assert "has not returned within 0.5 s" in split.failures[5]
    assert split.failures[5].endswith("time.sleep(self.seconds)  # the server")


def test_profile_ends_at_a_batch_of_a_stream_that_does_not_come() -> None:
    split = data(setup_of(SlowStream()), seconds=0.5).splits[0]
    assert split.read == 20
    assert "ended at the wait for a batch" in split.notes[0]


def test_checkup_lists_a_sample_that_does_not_return() -> None:
    with limit_samples(0.1):
        (samples,) = Measurements(setup_of(SlowDataset(5)))["samples"]
    assert [type(error) for error in samples.failures.values()] == [TimeoutError]
