"""Tests of the line that computes where the target of a cut starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdebug.source.producers import executed_return
from nbdebug.source.window_lines import converted_start_line

# The lines of a function of two series; the one with "here" computes the start of the target.
FUNCTIONS = {
    "a quotient": "    first = start // 4  # here\n    return x[start : start + 8], y[first : first + 8]\n",
    "in variables": (
        "    first = int(start) * 2  # here\n    cut = x[start : start + 8]\n    classes = list(y[first : first + 8])\n"
        "    return cut, classes\n"
    ),
    "the same start": "    return x[start : start + 8], y[start : start + 8]\n",
    "another variable": "    first = len(y) // 2\n    return x[start : start + 8], y[first : first + 8]\n",
    "no slices": "    first = start // 4\n    return x[start], y[first]\n",
    "no pair": "    return x[start : start + 8]\n",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_start_of_a_target_that_is_computed_from_that_of_the_input_is_found(name: str, tmp_path: Path) -> None:
    file, source = tmp_path / "program.py", f"def cut(x, y, start):\n{FUNCTIONS[name]}"
    file.write_text(source, encoding="utf-8")
    variables: dict[str, object] = {"__name__": "program"}
    exec(compile(source, str(file), "exec"), variables)
    pair = executed_return(variables["cut"])  # type: ignore[arg-type]
    assert pair is not None
    line = converted_start_line(pair)
    numbers = [number for number, text in enumerate(source.splitlines(), 1) if "# here" in text]
    assert [line.number if line else None] == (numbers or [None])
