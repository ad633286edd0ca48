"""Tests of the axes module, run by node without a page."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nbdebug.views.page import PACKAGE_FOLDER, inline_module

CASES = """
import { ticks, logTicks, scale, extent, padRange, lineSegments } from "./axes.mjs";
const linear = scale([0, 10], [0, 100]), log = scale([1, 100], [0, 200], true);
const indices = [...Array(10000).keys()], sawtooth = indices.map((i) => i % 7);
console.log(JSON.stringify({
  ticks: ticks([0, 1]), narrow: ticks([0.9991, 0.9999]), equal_ends: ticks([3, 3]),
  large: ticks([1e20, 2e20]), around_zero: ticks([-2, 2], 4),
  decades: logTicks([1e-6, 1]), within_two_decades: logTicks([1, 30]), within_decade: logTicks([2, 7]),
  linear_scale: [linear(5), linear.invert(50)], log_scale: [log(10), log.invert(100)],
  extent_empty: extent([]), extent_constant: extent([2, null, 2]), extent_positive: extent([-1, 0, 5, 8], true),
  pad_near_zero: padRange([0.1, 1]), pad_far_from_zero: padRange([9, 10]),
  segments_with_gap: lineSegments([0, 1, 2, 3], [1, null, 3, 4], (x) => x * 10, (y) => y),
  dense_points: lineSegments(indices, sawtooth, (x) => x / 100, (y) => y)[0].length,
  positive_points: lineSegments([0, 1, 2], [1, 0, 2], (x) => x * 10, (y) => y, true).length,
}));
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed; the charts are tested in the browser all the same")
    folder: Path = tmp_path_factory.mktemp("axes")
    (folder / "axes.mjs").write_text(inline_module(PACKAGE_FOLDER / "views/axes.js"), encoding="utf-8")
    (folder / "cases.mjs").write_text(CASES, encoding="utf-8")
    process = subprocess.run([node, "cases.mjs"], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def test_ticks_are_round_and_inside_range(results: Any) -> None:
    assert results["ticks"] == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert results["narrow"] == [0.9992, 0.9994, 0.9996, 0.9998]
    assert results["equal_ends"] == [3]
    assert results["around_zero"] == [-2, -1, 0, 1, 2]
    assert 2 <= len(results["large"]) <= 11


def test_log_ticks_are_powers_of_ten_or_round_multiples(results: Any) -> None:
    assert results["decades"] == [1e-6, 1e-4, 1e-2, 1]
    assert results["within_two_decades"] == [1, 2, 5, 10, 20]
    assert results["within_decade"] == [2, 3, 4, 5, 6, 7]


def test_scale_maps_values_and_inverts(results: Any) -> None:
    assert results["linear_scale"] == [50, 5]
    assert results["log_scale"] == [100, pytest.approx(10)]


def test_extent_and_pad_range_are_never_empty(results: Any) -> None:
    assert results["extent_empty"] == [0, 1]
    assert results["extent_constant"] == [1.8, 2.2]
    assert results["extent_positive"] == [5, 8]
    assert results["pad_near_zero"][0] == 0
    assert math.isclose(results["pad_far_from_zero"][0], 8.94)


def test_line_segments_break_at_gaps_and_thin_dense_points(results: Any) -> None:
    assert results["segments_with_gap"] == [[[0, 1]], [[20, 3], [30, 4]]]
    assert results["dense_points"] <= 1000
    assert results["positive_points"] == 2
