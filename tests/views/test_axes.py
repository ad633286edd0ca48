"""Ticks and scales, where node is there to run them without a page."""

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
const up = scale([0, 10], [0, 100]), log = scale([1, 100], [0, 200], true);
const many = [...Array(10000).keys()], saw = many.map((i) => i % 7);
console.log(JSON.stringify({
  ticks: ticks([0, 1]), narrow: ticks([0.9991, 0.9999]), same: ticks([3, 3]),
  huge: ticks([1e20, 2e20]), minus: ticks([-2, 2], 4),
  decades: logTicks([1e-6, 1]), one: logTicks([1, 30]), inside: logTicks([2, 7]),
  up: [up(5), up.invert(50)], log: [log(10), log.invert(100)],
  empty: extent([]), flat: extent([2, null, 2]), positive: extent([-1, 0, 5, 8], true),
  zero: padRange([0.1, 1]), far: padRange([9, 10]),
  gaps: lineSegments([0, 1, 2, 3], [1, null, 3, 4], (x) => x * 10, (y) => y),
  dense: lineSegments(many, saw, (x) => x / 100, (y) => y)[0].length,
  positives: lineSegments([0, 1, 2], [1, 0, 2], (x) => x * 10, (y) => y, true).length,
}));
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Any:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed; the charts are tested in the browser all the same")
    folder: Path = tmp_path_factory.mktemp("axes")
    (folder / "axes.mjs").write_text(inline_module(PACKAGE_FOLDER / "views/axes.js"), encoding="utf-8")
    (folder / "cases.mjs").write_text(CASES, encoding="utf-8")
    done = subprocess.run([node, "cases.mjs"], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_ticks_are_round_and_inside(said: Any) -> None:
    assert said["ticks"] == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert said["narrow"] == [0.9992, 0.9994, 0.9996, 0.9998]
    assert said["same"] == [3]
    assert said["minus"] == [-2, -1, 0, 1, 2]
    assert 2 <= len(said["huge"]) <= 11


def test_log_ticks_are_powers_of_ten(said: Any) -> None:
    assert said["decades"] == [1e-6, 1e-4, 1e-2, 1]
    assert said["one"] == [1, 2, 5, 10, 20]
    assert said["inside"] == [2, 3, 4, 5, 6, 7]


def test_scales_map_there_and_back(said: Any) -> None:
    assert said["up"] == [50, 5]
    assert said["log"] == [100, pytest.approx(10)]


def test_extents_are_never_empty(said: Any) -> None:
    assert said["empty"] == [0, 1]
    assert said["flat"] == [1.8, 2.2]
    assert said["positive"] == [5, 8]
    assert said["zero"][0] == 0
    assert math.isclose(said["far"][0], 8.94)


def test_lines_break_at_gaps_and_spare_hidden_points(said: Any) -> None:
    assert said["gaps"] == [[[0, 1]], [[20, 3], [30, 4]]]
    assert said["dense"] <= 1000
    assert said["positives"] == 2
