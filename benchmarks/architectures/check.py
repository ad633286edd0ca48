"""Checkup and three watched steps of one model, compared bit for bit with an unwatched copy."""

from __future__ import annotations

import copy
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, default_collate

from benchmarks.architectures.models import Candidate
from nbdebug import Debugger
from tests.preserve.fingerprint import fingerprint

_BATCH, _STEPS, _VALIDATION = 8, 3, 16


def collate(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Stack the samples; the boxes of images stay a list."""
    is_list = {name: isinstance(value, dict) for name, value in samples[0].items()}
    return {
        name: [sample[name] for sample in samples] if is_list[name] else default_collate([s[name] for s in samples])
        for name in samples[0]
    }


def loaders_of(samples: list[Any]) -> tuple[Any, Any]:
    """Return loaders of the samples for training and for validation."""
    train, val = samples[:-_VALIDATION], samples[-_VALIDATION:]
    return DataLoader(train, _BATCH, shuffle=True, collate_fn=collate), DataLoader(val, _BATCH, collate_fn=collate)


def check(candidate: Candidate) -> dict[str, Any]:
    """Return the outcome of a checkup and of three watched steps."""
    model = candidate.model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train, val = loaders_of(candidate.samples)
    loss_fn = F.cross_entropy if "pixels" in candidate.samples[0] else None
    if loss_fn is not None:
        train, val = (_pairs(loader) for loader in (train, val))
    row: dict[str, Any] = {
        "model": type(model).__name__,
        "head": candidate.head,
        "plan": candidate.plan,
        "parameters": sum(p.numel() for p in model.parameters()),
        "inputs": {
            name: list(v.shape) if isinstance(v, Tensor) else "boxes" for name, v in candidate.samples[0].items()
        },
    }
    debugger = Debugger(model, train, val, loss_fn=loss_fn, optimizer=optimizer)
    before = fingerprint(model, optimizer, loaders=[train, val])
    start = time.process_time()
    try:
        report = debugger.checkup()
    except Exception as error:
        row["crash"] = _describe(error, "checkup")
        report = debugger.reports.get("checkup")
    row["checkup_cpu_seconds"] = round(time.process_time() - start, 2)
    row["changed"] = before.differences()[:5]
    if report is not None:
        row |= _summarize(report)
    return row | _compare_steps(debugger, model, optimizer, train, loss_fn)


def _pairs(loader: Any) -> Any:
    def pair(samples: list[dict[str, Any]]) -> list[Tensor]:
        return list(collate(samples).values())

    return DataLoader(loader.dataset, _BATCH, shuffle=loader.batch_sampler is not None, collate_fn=pair)


def _summarize(report: Any) -> dict[str, Any]:
    """Return the findings, and the rules that failed."""
    return {
        "findings": [[f.code, f.severity, f.message, str(f.where)] for f in report if f.severity != "note"],
        "pass_error": report.pass_error,
        "failed_rules": [[r.code, r.why] for r in report.not_checked if "the rule itself failed" in r.why],
        "checked_rules": len(report.checked_rules),
        "parts": dict(list(report.part_seconds.items())[:3]),
    }


def _describe(error: BaseException, where: str) -> str:
    frames = []
    traceback = error.__traceback__
    while traceback:
        code = traceback.tb_frame.f_code
        frames.append(f"{Path(code.co_filename).name}:{traceback.tb_lineno} {code.co_name}")
        traceback = traceback.tb_next
    return f"{where}: {type(error).__name__}: {str(error)[:400]} at {' < '.join(frames[::-1][:6])}"


def seed_all() -> None:
    """Seed every generator."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)


def _train(model: Any, optimizer: Any, train: Any, loss_fn: Any) -> list[float]:
    """Train three steps and return the losses."""
    losses = []
    for batch, _ in zip(train, range(_STEPS), strict=False):
        optimizer.zero_grad()
        loss = model(**batch)["loss"] if loss_fn is None else loss_fn(_logits(model(batch[0])), batch[1])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _logits(output: Any) -> Tensor:
    return output if isinstance(output, Tensor) else output[0]


def _twin_state(model: Any, optimizer: Any, train: Any, loss_fn: Any) -> list[Any]:
    seed_all()
    losses = _train(model, optimizer, train, loss_fn)
    moments = [v for state in optimizer.state.values() for v in state.values()]
    state = [*model.parameters(), *model.buffers(), *moments, torch.get_rng_state()]
    return [losses, [item.detach().clone() for item in state], random.getstate(), np.random.get_state()[1].tobytes()]


def _is_equal(a: list[Any], b: list[Any]) -> bool:
    tensors = len(a[1]) == len(b[1]) and all(
        x.dtype == y.dtype and x.shape == y.shape and torch.equal(_bits(x), _bits(y))
        for x, y in zip(a[1], b[1], strict=True)
    )
    return str(a[0]) == str(b[0]) and tensors and a[2:] == b[2:]


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


def _compare_steps(debugger: Any, model: Any, optimizer: Any, train: Any, loss_fn: Any) -> dict[str, Any]:
    """Train a copy without a watch and the model with one, and compare all bits."""
    row: dict[str, Any] = {}
    try:
        twins = [copy.deepcopy((model, optimizer)) for _ in range(2)]
    except Exception as error:
        return {"steps": f"the model cannot be copied: {type(error).__name__}: {error}"[:200]}
    start = time.process_time()
    try:
        plain = _twin_state(*twins[0], train, loss_fn)
    except Exception as error:
        return {"steps": f"the loop fails without nbdebug: {type(error).__name__}: {error}"[:200]}
    row["step_cpu_seconds"] = round((time.process_time() - start) / _STEPS, 4)
    start = time.process_time()
    try:
        with debugger.watch(every=1) as watch:
            watched = _twin_state(model, optimizer, train, loss_fn)
    except Exception as error:
        return {**row, "watch_crash": _describe(error, "watch")}
    row["watch_cpu_seconds"] = round(time.process_time() - start, 2)
    if not _is_equal(plain, watched):
        again = _twin_state(*twins[1], train, loss_fn)
        row["steps"] = "changed" if _is_equal(plain, again) else "the loop is not repeatable without nbdebug"
    else:
        row["steps"] = "equal"
    report = debugger.findings
    row["watch_errors"] = watch.error_summary
    row["watch_findings"] = [[f.code, f.severity, f.message, str(f.where)] for f in report if f.severity != "note"]
    row["watch_failed_rules"] = [[r.code, r.why] for r in report.not_checked if "itself failed" in r.why]
    row["loop_losses"] = plain[0]
    return row
