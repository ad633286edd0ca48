"""How often a trial of a repair shows its gain, and how often the fix of a finding does as well as the repair.

    python benchmarks/repair.py FOLDER [--steps 150] [--seeds 5] [--only NAME] [--shard 0 2] [--json FILE]
    python benchmarks/repair.py --report FILE FILE

The programs are the files ``FOLDER/cases/*.py``. Each defines ``program(fixed, seed)``, which returns an object with
``model``, ``loss_fn``, ``optimizer``, ``train_loader``, ``train`` and, where it has them, ``val_loader``, ``scheduler``
and ``task``, and ``CASE``, whose ``accepts`` are the codes of the findings that name its mistake.

Four arms of each program are trained with the same seeds: as it is, as its repaired twin, with the same samples in
another order (a change without effect), and with the fix of the first accepted finding that can be tried. The finding
comes from a checkup and a watched run of another instance of the program. Programs whose twin has another training
function are left out, since copies are trained by a plain loop.

- gain: programs whose difference between the twin and the program has an interval above zero.
- no gain of the null change: programs whose difference between the two orders has not.
- reached: programs with a gain whose fix has at least the score of the twin, minus 0.02 or a tenth of the gain.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, RandomSampler

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.finding import Finding
from nbdebug.statistics.paired_differences import PairedDifference, paired_difference
from nbdebug.tools.try_fix.arms import Arm, ArmRunner
from nbdebug.tools.try_fix.change import parse_change
from nbdebug.tools.try_fix.tool import prepare_experiment
from nbdebug.views.live import Screen
from nbdebug.views.page import View

_TOLERANCE, _SHARE_OF_GAIN = 0.02, 0.1


def load_case(path: Path) -> ModuleType:
    """Import the file of a program."""
    spec = importlib.util.spec_from_file_location(f"repaired_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def create_debugger(module: ModuleType, fixed: bool, seed: int = 0) -> tuple[Debugger, Callable[[], None]]:
    """Return a debugger of a new instance of a program, and the training function of that instance."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    program = module.program(fixed=fixed, seed=seed)
    options = {name: getattr(program, name) for name in ("loss_fn", "optimizer", "scheduler", "task")}
    debugger = Debugger(program.model, program.train_loader, program.val_loader, **options)
    return debugger, lambda: program.train(program)


def has_own_loop(module: ModuleType) -> bool:
    """Check whether the training functions of the program and of its twin differ."""
    functions = [module.program(fixed=fixed, seed=0).train for fixed in (False, True)]
    first, second = [(f.__code__, [cell.cell_contents for cell in f.__closure__ or ()]) for f in functions]
    return first != second


def accepted_finding(module: ModuleType) -> tuple[bool, Finding | None]:
    """Return whether the mistake is found, and the first finding of it whose fix can be tried."""
    debugger, train = create_debugger(module, fixed=False)
    debugger.checkup()
    with debugger.watch():
        train()
    accepted = [finding for finding in debugger.findings.faults if finding.code in module.CASE.accepts]
    return bool(accepted), next((finding for finding in accepted if finding.setup_fix), None)


def reorder(copy: Any) -> bool:
    """Draw the same training samples in another order."""
    loader = copy.train_loader
    if not isinstance(loader, DataLoader) or not isinstance(loader.sampler, RandomSampler):
        return False
    sampler = RandomSampler(loader.dataset, generator=torch.Generator())
    copy.train_loader = DataLoader(
        loader.dataset, loader.batch_size, sampler=sampler, collate_fn=loader.collate_fn, drop_last=loader.drop_last
    )
    return True


def examine(module: ModuleType, name: str, steps: int, seeds: int) -> dict[str, Any]:
    """Return the scores of all arms of one program."""
    row: dict[str, Any] = {"program": name, "loop": has_own_loop(module)}
    if row["loop"]:
        return row
    started = time.perf_counter()
    row["found"], finding = accepted_finding(module)
    row["repair"] = f"{finding.code}: {finding.setup_fix}" if finding is not None else ""
    for arm, change in {"before": None, "twin": _twin(module), "null": reorder, "fix": finding}.items():
        if change is None and arm == "fix":
            continue
        debugger, _ = create_debugger(module, fixed=False)
        try:
            row[arm] = _scores(debugger, change, steps, seeds)
        except SetupError as error:
            row[f"{arm} error"] = str(error)[:300]
    return {**row, "seconds": time.perf_counter() - started}


def _twin(module: ModuleType) -> Callable[[Any], Debugger]:
    return lambda copy: create_debugger(module, fixed=True)[0]


def _scores(debugger: Debugger, change: Any, steps: int, seeds: int) -> list[float]:
    """Return the scores of copies with a change, or without one, seed by seed."""
    score, in_place = prepare_experiment(debugger.setup, steps, seeds, None)
    arm = Arm("changed", () if change is None else (parse_change(change),), score)
    ArmRunner(debugger.setup, [arm], steps, seeds, in_place).run(Screen(), lambda status: View())
    return [run.score for run in arm.runs]


def print_report(files: list[Path]) -> None:
    """Print a line for each program, and the shares."""
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    compared = [row for row in rows if not row["loop"]]
    for row in compared:
        print(" | ".join([f"{row['program']:38}", *_describe(row)]))
    twins = [_difference(row, "twin").sign > 0 for row in compared if _is_complete(row, "twin")]
    nulls = [_difference(row, "null").sign <= 0 for row in compared if _is_complete(row, "null")]
    gaining = [row for row in compared if _is_complete(row, "twin") and _difference(row, "twin").sign > 0]
    fixes = [_reaches(row) for row in gaining if "fix" in row]
    print(f"\nprograms: {len(rows)}, of which {len(rows) - len(compared)} have a mistake in the training function")
    print(f"cannot be compared: {sum(not _is_complete(row, 'twin') for row in compared)}")
    print(f"gain of the twin: {sum(twins)} of {len(twins)}; no gain of the null change: {sum(nulls)} of {len(nulls)}")
    print(
        f"found: {sum(row['found'] for row in compared)}, with a fix to try: {sum(bool(r['repair']) for r in compared)}"
    )
    print(f"the fix reaches the twin: {sum(fixes)} of {len(fixes)}")


def _describe(row: dict[str, Any]) -> Iterator[str]:
    for arm in ("twin", "null", "fix"):
        if _is_complete(row, arm):
            yield f"{arm} {np.mean(row['before']):.3f} -> {np.mean(row[arm]):.3f} {_difference(row, arm)}"
        elif f"{arm} error" in row:
            yield f"{arm} {row[f'{arm} error'][:120]}"
    reached = " reaches" if _is_complete(row, "fix") and _is_complete(row, "twin") and _reaches(row) else ""
    yield row["repair"].replace("\n", "; ")[:60] + reached


def _is_complete(row: dict[str, Any], arm: str) -> bool:
    return "before" in row and arm in row


def _difference(row: dict[str, Any], arm: str) -> PairedDifference:
    return paired_difference(np.array(row[arm]) - np.array(row["before"]))


def _reaches(row: dict[str, Any]) -> bool:
    before, twin, fixed = (float(np.mean(row[arm])) for arm in ("before", "twin", "fix"))
    return fixed >= twin - max(_TOLERANCE, _SHARE_OF_GAIN * (twin - before))


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--shard", type=int, nargs=2, default=(0, 1))
    parser.add_argument("--json", type=Path, default=Path("repair.jsonl"))
    parser.add_argument("--report", type=Path, nargs="+")
    options = parser.parse_args()
    if options.report:
        return print_report(options.report)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(options.folder))
    paths = sorted((options.folder / "cases").glob("[a-z]*.py"))[options.shard[0] :: options.shard[1]]
    for path in paths:
        if options.only in path.stem:
            row = examine(load_case(path), path.stem, options.steps, options.seeds)
            with options.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
