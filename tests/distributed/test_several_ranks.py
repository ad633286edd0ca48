"""Tests of watch and checkup in two and four processes, under DistributedDataParallel and ``fully_shard``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.distributed.rank_processes import WRAPPERS, run_ranks

every_wrapper = pytest.mark.parametrize("wrapper", WRAPPERS)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run_ranks(tmp_path_factory.mktemp("ranks"))


@every_wrapper
def test_watched_training_is_bit_identical(ranks: list[dict[str, Any]], wrapper: str) -> None:
    for rank in ranks:
        assert rank[wrapper]["watched"] == rank[wrapper]["plain"]
        assert rank[wrapper]["errors"] == ""
        assert rank[wrapper]["steps"] == 16


@every_wrapper
def test_healthy_run_has_no_findings_and_prints_once(ranks: list[dict[str, Any]], wrapper: str) -> None:
    assert [rank[wrapper]["faults"] for rank in ranks] == [[], []]
    assert ranks[0][wrapper]["printed"].count("nbdebug watch: 16 steps") == 1
    assert ranks[1][wrapper]["printed"] == ""


@every_wrapper
def test_parameters_have_the_names_of_the_model_inside(ranks: list[dict[str, Any]], wrapper: str) -> None:
    assert "0.weight" in ranks[0][wrapper]["names"]


def test_gradient_norms_of_shards_are_reduced_to_that_of_the_whole_model(ranks: list[dict[str, Any]]) -> None:
    assert ranks[0]["fsdp"]["norms"][0] == pytest.approx(ranks[0]["ddp"]["norms"][0], rel=1e-4)


def test_checkup_on_all_ranks_has_one_report(ranks: list[dict[str, Any]]) -> None:
    first, second = (rank["checkups"] for rank in ranks)
    assert first["shared"] == second["shared"]
    assert "L204" in first["shared"]
    assert second["printed"] == ""


def test_checkup_on_one_rank_does_not_wait(ranks: list[dict[str, Any]]) -> None:
    assert ranks[1]["checkups"]["alone"]


def test_checkup_of_sharded_model_is_refused_on_all_ranks(ranks: list[dict[str, Any]]) -> None:
    assert all("is sharded over ranks; expected" in rank["checkups"]["refusal"] for rank in ranks)


def test_four_ranks_train_the_same_and_have_one_report(tmp_path: Path) -> None:
    ranks = [rank["ddp"] for rank in run_ranks(tmp_path, count=4, wrappers=("ddp",))]
    for rank in ranks:
        assert rank["watched"] == rank["plain"]
        assert rank["errors"] == ""
        assert rank["steps"] == 8
        assert rank["faults"] == []
    assert len({rank["watched"] for rank in ranks}) == 4  # their random states differ
    assert [rank["printed"].count("nbdebug watch: 8 steps") for rank in ranks] == [1, 0, 0, 0]
