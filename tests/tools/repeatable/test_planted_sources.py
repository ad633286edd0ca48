"""Tests that sources which this process holds constant, or which act in workers and threads, are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.repeatable import FOLDER, debugger_of, truth_of

PLANTED = FOLDER / "planted"
NAMES = [
    "hashed_words", "literal_set_of_losses", "unsorted_files", "half_filled_buffer", "futures_as_completed",
    "worker_fresh_generator", "process_number_in_workers", "own_torch_generator",
    "cached_draw", "generator_of_weights", "loss_object_with_memory", "numpy_empty_padding", "teacher_that_drifts",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_planted_source_is_named_with_its_line(name: str) -> None:
    path = PLANTED / f"{name}.py"
    source, line = truth_of(path)
    result = debugger_of(path).repeatable(steps=6)
    assert result.source.startswith(source)
    assert line in (result.where.source or "")


@pytest.mark.parametrize(
    "name",
    [
        "sets_for_membership",
        "filled_empty",
        "futures_in_order",
        "sorted_files",
        "memoized_table",
        "numpy_empty_filled",
        "loss_object_of_the_setup",
    ],
)
def test_repeatable_program_that_reads_a_source_is_left_alone(name: str) -> None:
    assert debugger_of(FOLDER / "healthy" / f"{name}.py").repeatable(steps=6).verdict == "repeatable"


def test_every_planted_program_states_its_source() -> None:
    paths = sorted(Path(PLANTED).glob("[a-z]*.py"))
    assert len(paths) == 40
    assert all(truth_of(path)[0] for path in paths)
