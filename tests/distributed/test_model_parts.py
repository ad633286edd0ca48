"""Tests of watch, checkup and summary in two processes that each hold a part of one model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.distributed.model_parts import PROGRAMS, run_programs

every_program = pytest.mark.parametrize("program", PROGRAMS)
pipelines = pytest.mark.parametrize("program", [name for name in PROGRAMS if name != "tensor-parallel"])


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run_programs(tmp_path_factory.mktemp("ranks"))


@every_program
def test_watched_training_is_bit_identical(ranks: list[dict[str, Any]], program: str) -> None:
    for rank in ranks:
        assert rank[program]["watched"] == rank[program]["plain"]
        assert rank[program]["errors"] == ""
        assert rank[program]["steps"] == 32


@every_program
def test_ranks_that_read_the_same_samples_have_no_findings(ranks: list[dict[str, Any]], program: str) -> None:
    assert [rank[program]["faults"] for rank in ranks] == [[], []]


@every_program
def test_one_sentence_says_what_was_recognized_and_is_not_measured(ranks: list[dict[str, Any]], program: str) -> None:
    part = "is tensor-parallel" if program == "tensor-parallel" else "is a stage of a pipeline"
    sentence = f"tests of the trained model, and comparisons between ranks, since the model {part} over ranks"
    assert all(rank[program]["text"].count(sentence) == 1 for rank in ranks)
    assert ranks[0][program]["printed"].count(sentence) == 1
    assert ranks[1][program]["printed"] == ""


@every_program
def test_checkup_is_refused_on_both_ranks(ranks: list[dict[str, Any]], program: str) -> None:
    part = "is tensor-parallel" if program == "tensor-parallel" else "is a stage of a pipeline"
    assert all(f"model {part} over ranks; expected" in rank[program]["refusal"] for rank in ranks)


@every_program
def test_summary_on_one_rank_runs_no_pass(ranks: list[dict[str, Any]], program: str) -> None:
    text = ranks[1][program]["summary"]
    assert "over ranks, so that no rank can run it alone.\n" in text
    assert "Linear" in text


@pipelines
def test_loss_of_a_pipeline_is_that_of_the_last_stage(ranks: list[dict[str, Any]], program: str) -> None:
    assert [rank[program]["losses"] for rank in ranks] == [0, 32]
    assert "32 steps, the last stage has the loss" in ranks[0][program]["text"]


def test_parts_of_models_are_recognized(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert rank["parts"] == {
            "whole": ["WHOLE", False],
            "sharded": ["FULLY_SHARDED", True],
            "replicated and sharded": ["FULLY_SHARDED", False],
            "tensor-parallel": ["TENSOR_PARALLEL", False],
            "tensor-parallel and sharded": ["TENSOR_PARALLEL", False],
        }
