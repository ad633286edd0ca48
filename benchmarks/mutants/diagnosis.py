"""A training run with nbdebug: a checkup, and a watch around the program's own training."""

from __future__ import annotations

import time
import traceback
from pathlib import Path
from typing import Any

from benchmarks.mutants.corpus import load_program

_PLACE = ("module", "parameter", "file", "line", "source")


def diagnose(path: str, seed: int) -> dict[str, Any]:
    """Return all findings of a checkup and a watch; what the program itself raises in training is not a crash."""
    import nbdebug

    program = load_program(Path(path), seed)
    result: dict[str, Any] = {"crash": None, "raised": None, "findings": []}
    debugger = None
    start = time.perf_counter()
    try:
        debugger = nbdebug.Debugger(
            program.model,
            program.train_loader,
            program.val_loader,
            loss_fn=program.loss_fn,
            optimizer=program.optimizer,
            scheduler=program.scheduler,
            task=program.task,
        )
        debugger.checkup()
        with debugger.watch():
            try:
                program.train()
            except Exception:
                result["raised"] = traceback.format_exc()[-1500:]
    except Exception:
        result["crash"] = traceback.format_exc()[-2500:]
    result["seconds"] = time.perf_counter() - start
    findings = debugger.findings if debugger is not None else ()
    for finding in (each.to_dict() for each in findings):
        place = {key: value for key, value in (finding["where"] or {}).items() if key in _PLACE}
        kept = {key: finding[key] for key in ("code", "severity", "message")}
        result["findings"].append({**kept, "where": place})
    return result
