"""Tests of signs of life and of reports of ranks, which share a store in one process."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import distributed, nn

from nbdebug.distributed.parallel_models import shard_access, unwrap_model
from nbdebug.distributed.rank_group import RankGroup
from nbdebug.distributed.rank_report import CodePlace, RankReport, RankReports
from nbdebug.finding import Finding, Location
from nbdebug.report import Report
from nbdebug.rules.examples import classifier
from nbdebug.serialization.schema import document
from nbdebug.watching.heartbeat import FAILED, LEFT, LOST_SECONDS, RUNNING, Beat, Heartbeat, Stall, describe_stall
from nbdebug.watching.rank_observer import RankObserver
from nbdebug.watching.rank_watch import merge_rank_findings

PLACE = CodePlace("train.py", 7)


def beat(rank: int, step: int, in_backward: bool = False, state: str = RUNNING) -> Beat:
    return Beat(rank, 1, state, step, in_backward, PLACE)


@pytest.fixture
def group() -> RankGroup:
    return RankGroup(0, 2, distributed.HashStore())


@pytest.mark.parametrize(
    ("beats", "lost", "absent"),
    [
        ((beat(0, 9, True), beat(1, 9)), (), (1,)),
        ((beat(0, 9, True), beat(1, 8)), (), (1,)),
        ((beat(0, 9), beat(1, 10, True)), (), (0,)),
        ((beat(0, 9, True), beat(1, 9, False, LEFT)), (), (1,)),
        ((beat(0, 9, False, FAILED), beat(1, 9)), (1,), (1,)),
        ((beat(0, 9, True), beat(1, 9, True)), (), (0, 1)),
        ((beat(0, 9, True), beat(1, 9, True), beat(2, 9)), (), (2,)),
    ],
)
def test_stall_names_the_ranks_for_which_the_others_wait(
    beats: tuple[Beat, ...], lost: tuple[int, ...], absent: tuple[int, ...]
) -> None:
    stall = Stall(beats, lost, 6.0)
    assert stall.absent_ranks == absent
    assert "train.py, line 7" in describe_stall(stall)


def test_heartbeat_finds_lost_rank_and_stall(group: RankGroup) -> None:
    stalls: list[Stall] = []
    own = Heartbeat(group, "key", RankObserver(classifier()), stalls.append)
    other = Heartbeat(replace(group, rank=1), "key", RankObserver(classifier()), stalls.append)
    own.start()
    other.beat()
    own.read_beats()
    assert own.find_stall() is None
    own.last_progress -= 6
    assert own.find_stall() is not None
    own.last_progress += 6
    own.last_news[1] -= LOST_SECONDS + 1
    stall = own.find_stall()
    assert stall is not None
    assert stall.lost_ranks == (1,)
    other.state = LEFT
    other.beat()
    own.read_beats()
    assert own.lost_ranks() == ()
    own.stop("")
    own.last_progress -= 100
    assert own.find_stall() is None, "all ranks have left"
    assert not own.thread.is_alive()


def test_report_survives_the_store(group: RankGroup) -> None:
    report = RankReport(1, steps=4, epoch_batches=(2, 2), busiest_line=PLACE, lines={"batch": PLACE})
    group.write("report", report.to_json())
    assert RankReport.from_json(group.read("report") or "") == report
    assert group.read("another") is None


def test_merged_findings_name_the_ranks_unless_all_have_them() -> None:
    shared, own = Finding("A.", code="O515", severity="error"), Finding("B.", code="T601", severity="warning")
    other = Finding("C.", code="T602", severity="error", where=Location(module="head"))
    codes = frozenset({"O515", "T601", "T602"})
    content = document("", [shared, other], checked_rules=sorted(codes))
    reports = RankReports((RankReport(0), RankReport(1, findings=content)), 2)
    merged = merge_rank_findings(Report((shared, own), checked_rules=codes), reports, 0)
    messages = {finding.code: finding.message for finding in merged}
    assert messages == {
        "O515": "A.",
        "T601": "B. This holds on rank 0 only.",
        "T602": "C. This holds on rank 1 only.",
    }


def test_first_call_makes_the_report_and_lost_ranks_are_not_awaited(group: RankGroup) -> None:
    assert group.arrives_first("turn")
    assert not replace(group, rank=1).arrives_first("turn")
    group.write("report", "done")
    assert group.wait_while_alive("report", "life") == "done"


def test_plain_models_are_neither_unwrapped_nor_read_as_shards() -> None:
    model = nn.Linear(2, 2)
    assert unwrap_model(model) is model
    with shard_access(model)():
        assert torch.equal(model.weight.detach(), model.weight)


def test_whole_norms_need_all_ranks() -> None:
    norms = {"gradient_norm": [(1, 3.0), (2, 1.0)]}, {"gradient_norm": [(1, 4.0)]}
    reports = tuple(RankReport(rank, shard_norms=table) for rank, table in enumerate(norms))
    assert RankReports(reports, 2).whole_norms("gradient_norm") == {1: 5.0}
    assert RankReports(reports[:1], 2).whole_norms("gradient_norm") == {}
