"""Score the debugger on notebooks with one planted mistake each.

    python -m benchmarks.notebooks [--only cells_digits] [--json out.json] [--show]

Each notebook runs without the mistake (its twin), with it, and with the first fix that is said, as pasted: a diff
changes its cell and all cells run again, code runs in a cell before the training. Four questions: does the first fault
name the mistake, does the fix run, does it bring the score of the twin, and does the twin have no fault. The score of
the twin is brought if at least 80 % of the distance to it is closed, or all but 0.02.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.notebooks.kernel_session import CellError, KernelSession, Run, open_kernel
from benchmarks.notebooks.planted import PlantedNotebook, load_notebooks

_SHARE, _TOLERANCE = 0.8, 0.02


@dataclass
class Outcome:
    """The answers for one notebook; scores are those of the twin, with the mistake, and with the fix."""

    name: str
    expected: tuple[str, ...]
    first: str
    message: str
    fix: str
    kind: str
    is_right: bool
    twin: float
    planted: float
    fixed: float | None
    error: str
    false: list[str]

    @property
    def brings_twin(self) -> bool:
        """Whether the fix ran and closed the distance to the twin."""
        if self.fixed is None:
            return False
        left = self.twin - self.fixed
        if math.isnan(self.planted):  # the mistake made the score infinite
            return left <= _TOLERANCE
        return left <= max((1 - _SHARE) * (self.twin - self.planted), _TOLERANCE)


def examine(session: KernelSession, notebook: PlantedNotebook) -> Outcome:
    """Return the answers for one notebook."""
    twin = session.run(notebook.cells(planted=False), notebook.arguments)
    planted = session.run(notebook.cells(planted=True), notebook.arguments)
    first = planted.first or {}
    kind = "diff" if first.get("cells") else "code" if first.get("is_code") else "sentence" if first else ""
    fixed, error = None, ""
    try:
        fixed = _run_fix(session, notebook, planted)
    except CellError as raised:
        error = str(raised)
    return Outcome(
        notebook.name,
        notebook.codes,
        first.get("code", ""),
        first.get("message", ""),
        first.get("fix", ""),
        kind,
        first.get("code", "") in notebook.codes,
        twin.score,
        planted.score,
        fixed,
        error,
        [f"{fault['code']}: {fault['message']}" for fault in [*twin.checkup, *twin.watch]],
    )


def _run_fix(session: KernelSession, notebook: PlantedNotebook, planted: Run) -> float | None:
    """Return the score with the first fix as pasted; None if it is a sentence."""
    first, cells = planted.first or {}, notebook.cells(planted=True)
    if first.get("cells"):
        for number, source in first["cells"].items():
            if int(number) not in planted.numbers:
                raise CellError(f"the fix changes cell {number}, which is none of the notebook")
            cells[planted.numbers.index(int(number))] = "".join(_without_watch(source))
        return session.run(cells).score
    return session.run(cells, extra=first["fix"]).score if first.get("is_code") else None


def _without_watch(source: str) -> list[str]:
    """Return the lines of a cell without the one that opens the watch, as the user or the magic has written it."""
    lines = source.splitlines(keepends=True)
    return lines[1:] if lines[0].startswith(("%%watch", "with __import__", "get_ipython().run_cell_magic")) else lines


def summarize(outcomes: list[Outcome]) -> str:
    """Return a line for each notebook, and the totals."""
    lines = [
        f"{'✓' if item.is_right else '✕'} {item.name:34} {item.first or '-':5} {item.kind or '-':8} "
        f"{'✓' if item.brings_twin else '✕'} twin {item.twin:7.3f} planted {item.planted:7.3f} "
        f"fixed {'-' if item.fixed is None else format(item.fixed, '7.3f')} {item.error} "
        f"{'FALSE ' + '; '.join(item.false) if item.false else ''}"
        for item in outcomes
    ]
    count = len(outcomes)
    lines.append(
        f"{count} notebooks: first fault right in {sum(item.is_right for item in outcomes)}, "
        f"fix brings the twin's score in {sum(item.brings_twin for item in outcomes)}, "
        f"faults on twins {sum(len(item.false) for item in outcomes)}"
    )
    return "\n".join(lines)


def main() -> None:
    """Examine the notebooks, one kernel for each style."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="prefix of the names")
    parser.add_argument("--json", type=Path, help="file for the answers")
    arguments = parser.parse_args()
    notebooks = list(load_notebooks(arguments.only))
    outcomes = []
    for style in dict.fromkeys(notebook.style for notebook in notebooks):
        with open_kernel() as session:
            for notebook in (item for item in notebooks if item.style == style):
                try:
                    outcomes.append(examine(session, notebook))
                except CellError as error:
                    print(f"{notebook.name}: {error}", flush=True)
                else:
                    print(summarize(outcomes[-1:]).partition("\n")[0], flush=True)
    print(summarize(outcomes))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(item) for item in outcomes], indent=1))


if __name__ == "__main__":
    main()
