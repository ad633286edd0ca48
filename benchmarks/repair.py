"""How often a trial of a repair shows its gain, and how often the fix of a finding does as well as the repair.

    python benchmarks/repair.py FOLDER [--steps 150] [--seeds 5] [--only NAME] [--half tuning] [--json FILE]
    python benchmarks/repair.py --report FILE FILE

The programs are the files ``FOLDER/cases/*.py``. Each defines ``program(fixed, seed)``, which returns an object with
``model``, ``loss_fn``, ``optimizer``, ``train_loader``, ``train`` and, where it has them, ``val_loader``, ``scheduler``
and ``task``, and ``CASE``, whose ``accepts`` are the codes of the findings that name its mistake.

Four arms of each program are trained with the same seeds: as it is, as its repaired twin, with the same samples in
another order (a change without effect), and with the fix of the first accepted finding that can be tried. The finding
comes from a checkup and a watched run of another instance of the program.

A fix that changes lines of the program is applied to them, and the program is started again with its own loop; so is
every arm of a program whose twin has another training function. If those lines cannot run again, as those outside of
functions, and the finding has the same fix for the setup, that is tried. Any other fix changes a copy of the setup, and
all arms are then trained by a plain loop.

- gain: programs whose difference between the twin and the program has an interval above zero.
- no gain of the null change: programs whose difference between the two orders has not.
- reached: programs whose fix has at least the score of the twin, minus 0.02 or a tenth of the gain, among all programs
  whose mistake is found; a finding without a fix that can be tried counts as not reached.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler

from nbdebug.debugger import Debugger
from nbdebug.finding import Edit, Finding
from nbdebug.statistics.paired_differences import PairedDifference, paired_difference
from nbdebug.tools.try_fix.arms import Arm, ArmRunner
from nbdebug.tools.try_fix.change import parse_change
from nbdebug.tools.try_fix.program import BuiltProgram
from nbdebug.tools.try_fix.tool import prepare_experiment
from nbdebug.training.changed_loaders import rebuild_loader
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
    first, second = map(_code_and_values, functions)
    return first != second


def _code_and_values(train: Any) -> tuple[Any, list[Any]]:
    """Return the code of a function with the values that it encloses, or the class of an object and its attributes."""
    if isinstance(train, partial):
        code, values = _code_and_values(train.func)
        return code, [*values, *train.args, *train.keywords.values()]
    code = getattr(train, "__code__", None)
    if code is None:
        return type(train), [id(value) if isinstance(value, Tensor) else value for value in vars(train).values()]
    return code, [cell.cell_contents for cell in train.__closure__ or ()]


def accepted_finding(module: ModuleType) -> tuple[bool, Finding | None]:
    """Return whether the mistake is found, and the first finding of it whose fix can be tried."""
    debugger, train = create_debugger(module, fixed=False)
    debugger.checkup()
    with debugger.watch():
        train()
    accepted = [finding for finding in debugger.findings.faults if finding.code in module.CASE.accepts]
    return bool(accepted), next((finding for finding in accepted if finding.edits or finding.setup_fix), None)


def reorder(copy: Any) -> bool:
    """Draw the same training samples in another order."""
    loader = copy.train_loader
    if not isinstance(loader, DataLoader) or not isinstance(loader.sampler, RandomSampler):
        return False
    dataset: Any = loader.dataset
    sampler = RandomSampler(dataset, generator=torch.Generator())
    copy.train_loader = rebuild_loader(loader, sampler=sampler)  # no call here that could have made a user's loader
    return True


def examine(module: ModuleType, name: str, steps: int, seeds: int) -> dict[str, Any]:
    """Return the scores of all arms of one program."""
    row: dict[str, Any] = {"program": name, "loop": has_own_loop(module)}
    started = time.perf_counter()
    row["found"], finding = accepted_finding(module)
    row["repair"] = f"{finding.code}: {finding.setup_fix or finding.fix_text}" if finding is not None else ""
    row["diff"] = bool(finding and finding.edits)
    row["own loop"] = row["loop"] or row["diff"]
    row |= _run_arms(module, steps, seeds, finding, row["own loop"], row["loop"])
    if row["diff"] and not row["loop"] and finding is not None and finding.setup_fix and "fix error" in row:
        row["diff"] = row["own loop"] = False  # lines that cannot run again: the same fix, on a copy of the setup
        row |= _run_arms(module, steps, seeds, finding, False, False)
    return {**row, "seconds": time.perf_counter() - started}


def _run_arms(
    module: ModuleType, steps: int, seeds: int, finding: Finding | None, own_loop: bool, is_loop_of_twin: bool
) -> dict[str, Any]:
    """Return the scores of each arm by its name, or its error."""
    trial = partial(_loop_scores if own_loop else _scores, module, steps, seeds)
    twin = partial(trial, fixed=True) if own_loop else partial(trial, change=_twin(module))
    arms = {"before": trial, "twin": twin, "null": partial(_scores, module, steps, seeds, change=reorder)}
    if finding is not None and (finding.edits or not is_loop_of_twin):
        arms["fix"] = partial(trial, edits=finding.edits) if own_loop else partial(trial, change=finding)
    row: dict[str, Any] = {}
    for arm, run in arms.items():
        try:
            row[arm] = run()
        except Exception as error:  # a changed program may raise whatever it does
            row[f"{arm} error"] = f"{type(error).__name__}: {error}"[:300]
    return row


def _twin(module: ModuleType) -> Callable[[Any], Debugger]:
    return lambda copy: create_debugger(module, fixed=True)[0]


def _loop_scores(
    module: ModuleType, steps: int, seeds: int, fixed: bool = False, edits: tuple[Edit, ...] = ()
) -> list[float]:
    """Return the scores of the program or its twin, started again with its own loop, seed by seed."""
    debugger, _ = create_debugger(module, fixed=fixed)
    score, _ = prepare_experiment(debugger.setup, steps, seeds, None)
    numbers = iter(range(seeds))
    program = BuiltProgram(lambda: create_debugger(module, fixed, next(numbers)))
    arm = Arm("started again", (), score, program=program, edits=edits)
    ArmRunner(debugger.setup, [arm], steps, seeds, False).run(Screen(), lambda status: View())
    return [run.score for run in arm.runs]


def _scores(module: ModuleType, steps: int, seeds: int, change: Any = None) -> list[float]:
    """Return the scores of copies with a change, or without one, seed by seed."""
    debugger, _ = create_debugger(module, fixed=False)
    score, in_place = prepare_experiment(debugger.setup, steps, seeds, None)
    arm = Arm("changed", () if change is None else (parse_change(change),), score)
    ArmRunner(debugger.setup, [arm], steps, seeds, in_place).run(Screen(), lambda status: View())
    return [run.score for run in arm.runs]


def print_report(files: list[Path]) -> None:
    """Print a line for each program, and the shares."""
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        print(" | ".join([f"{row['program']:38}", *_describe(row)]))
    complete = [row for row in rows if _is_complete(row, "twin")]
    gaining = [row for row in complete if _difference(row, "twin").sign > 0]
    nulls = [_difference(row, "null").sign <= 0 for row in rows if _is_complete(row, "null") and not row["own loop"]]
    located = [row for row in rows if row["found"]]
    print(f"\nprograms: {len(rows)}; scores of the twin and the program differ in kind: {len(rows) - len(complete)}")
    print(f"gain of the twin: {len(gaining)} of {len(complete)}")
    print(f"no gain of the null change: {sum(nulls)} of {len(nulls)}")
    print(f"found: {len(located)}; the fix reaches the twin: {sum(map(_reaches, located))} of them")
    for name, chosen in (("with a diff", True), ("that changes the setup", False)):
        group = [row for row in located if row["repair"] and row["diff"] == chosen]
        print(f"  fixes {name}: {sum(map(_reaches, group))} of {len(group)}")
    print(f"  without a fix that can be tried: {', '.join(r['program'] for r in located if not r['repair'])}")


def _describe(row: dict[str, Any]) -> Iterator[str]:
    for arm in ("twin", "null", "fix"):
        if _is_complete(row, arm) and (arm != "null" or not row["own loop"]):
            yield f"{arm} {np.mean(row['before']):.3f} -> {np.mean(row[arm]):.3f} {_difference(row, arm)}"
        elif f"{arm} error" in row:
            yield f"{arm} {row[f'{arm} error'][:120]}"
    reached = " reaches" if _reaches(row) else ""
    yield row["repair"].replace("\n", "; ")[:60] + reached


def _is_complete(row: dict[str, Any], arm: str) -> bool:
    return "before" in row and arm in row


def _difference(row: dict[str, Any], arm: str) -> PairedDifference:
    return paired_difference(np.array(row[arm]) - np.array(row["before"]))


def _reaches(row: dict[str, Any]) -> bool:
    if not (_is_complete(row, "fix") and _is_complete(row, "twin")):
        return False
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
    parser.add_argument("--half", choices=("tuning", "held-out"), help="by the first byte of SHA-256 of the name")
    options = parser.parse_args()
    if options.report:
        return print_report(options.report)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(options.folder))
    paths = sorted((options.folder / "cases").glob("[a-z]*.py"))[options.shard[0] :: options.shard[1]]
    for path in paths:
        half = "held-out" if hashlib.sha256(path.stem.encode()).digest()[0] % 2 else "tuning"
        if options.only in path.stem and options.half in (None, half):
            row = examine(load_case(path), path.stem, options.steps, options.seeds)
            with options.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
