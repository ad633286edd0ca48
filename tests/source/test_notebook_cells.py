"""Which cells of a notebook are current."""

from __future__ import annotations

import linecache

import pytest

from nbdebug.source.notebook_cells import without_earlier_forms


@pytest.mark.parametrize(
    ("cells", "current"),
    [
        (["model = f(1)", "model = f(2)"], [1]),
        (["a, b = 1, 2", "a = 3\nb = 4"], [1]),
        (["class Net: pass", "class Net:\n    x = 1", "net = Net()"], [1, 2]),
        (["x = 1", "x = 1\ny = 2"], [0, 1]),
        (["print(1)", "print(2)"], [0, 1]),
        (["x = = 1", "%time x"], [0, 1]),
    ],
)
def test_later_cell_that_defines_the_same_names_replaces_the_earlier(cells: list[str], current: list[int]) -> None:
    files = [f"<cell {number} of {hash(str(cells))}>" for number in range(len(cells))]
    for file, source in zip(files, cells, strict=True):
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    numbers = {file: number + 1 for number, file in reversed(list(enumerate(files)))}
    assert sorted(without_earlier_forms(numbers)) == sorted(files[number] for number in current)
