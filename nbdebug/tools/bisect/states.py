"""Bisection over the samples of the training data, and over checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import torch

from nbdebug.exceptions import SetupError
from nbdebug.formatting import join_names
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_map_style
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.tools.bisect.delta_debugging import OutOfRuns, first_failing, minimize
from nbdebug.tools.bisect.result import Bisection, BisectVerdict, ProbeRun
from nbdebug.tools.bisect.run_log import RunLog
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.tools.try_fix.matched_run import MatchedBatches, changed_copy
from nbdebug.tools.try_fix.tool import is_trained_in_place
from nbdebug.training.changed_loaders import keep_samples
from nbdebug.training.trainer import Trainer

Fails = Callable[[TreatedSetup], bool]
_MAX_NAMED = 6
_STATE_KEYS = ("model", "state_dict", "model_state_dict")


def bisect_samples(setup: Setup, log: RunLog, fails: Fails | None, steps: int) -> Bisection:
    """Return a minimal set of training samples with which training fails.

    Each run trains a copy on a subset, for one epoch of it and at most ``steps`` steps. By default it fails if the loss
    or a weight is not finite.
    """
    loader = setup.train_loader
    if not is_map_style(loader) or loader.batch_size is None:
        raise SetupError(
            "train_loader has no dataset with indices and a batch size; expected a DataLoader of one. "
            "Bisect the samples of a DataLoader(dataset, batch_size)."
        )
    in_place = is_trained_in_place(setup)
    smallest = list(range(len(loader.dataset)))

    def fails_with(indices: Sequence[int]) -> bool:
        nonlocal smallest
        log.check()
        size = min(loader.batch_size or 1, len(indices))
        count = min(-(-len(indices) // size), steps)
        with changed_copy(setup, (), [], "other", in_place=in_place) as treated:
            treated.train_loader = keep_samples(loader, indices, batch_size=size, shuffle=True, drop_last=False)
            failed = _train_fails(treated, count, fails)
        log.add(ProbeRun(f"{len(indices)} samples", len(indices), failed=failed))
        if failed and len(indices) < len(smallest):
            smallest = list(indices)
        return failed

    if not fails_with(smallest):
        return log.result("not reproduced", "Training on all samples does not fail. Allow more steps=, or pass fails=.")
    verdict: BisectVerdict = "located"
    try:
        smallest = minimize(smallest, fails_with)
    except OutOfRuns:
        verdict = "undecided"
    return describe_samples(log, smallest, verdict, "alone")


def describe_samples(log: RunLog, indices: Sequence[int], verdict: BisectVerdict, company: str) -> Bisection:
    """Return the result for samples with which training fails, ``company`` being the other samples of that run."""
    names = tuple(f"sample {index}" for index in sorted(indices))
    fields = {"candidates": names, "indices": tuple(sorted(indices))}
    if verdict == "located":
        headline = f"Training fails with {_count(len(names))} {company}: {join_names(names, _MAX_NAMED)}."
        return log.result(verdict, headline, **fields)
    return log.result(verdict, f"{_count(len(names))} are left after {len(log.runs)} runs. Allow more runs=.", **fields)


def train_steps(treated: TreatedSetup, steps: int) -> list[float]:
    """Train a copy with the first seed, and return the loss of each step; an exception does not count as a failure."""
    batches = MatchedBatches(treated.setup, 0)
    trainer = Trainer(treated.setup, treated.optimizers, batches)
    try:
        with UserCodeErrors(lambda: "on a part of the samples"):
            return [trainer.step() for _ in range(steps)]
    finally:
        batches.stream.close()


def _train_fails(treated: TreatedSetup, steps: int, fails: Fails | None) -> bool:
    losses = train_steps(treated, steps)
    if fails is not None:
        with UserCodeErrors(lambda: "on a part of the samples"):
            return bool(fails(treated))
    return not all(map(isfinite, losses)) or not _is_finite(treated)


def _is_finite(treated: TreatedSetup) -> bool:
    tensors = [*treated.model.parameters(), *treated.model.buffers()]
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


def bisect_checkpoints(setup: Setup, checkpoints: Sequence[Any], log: RunLog, fails: Fails | None) -> Bisection:
    """Return the first checkpoint from which on a copy fails; they are paths of state dictionaries, or dictionaries.

    By default, a checkpoint fails if a weight or the loss of the first training batch is not finite. Paths are read
    without executing code.
    """
    if len(checkpoints) < 2:
        raise SetupError(f"checkpoints has {len(checkpoints)} entries; expected at least 2. Pass them in their order.")
    in_place = is_trained_in_place(setup)
    names = [str(item) if isinstance(item, (str, Path)) else f"checkpoint {i}" for i, item in enumerate(checkpoints)]

    def fails_at(index: int) -> bool:
        log.check()
        with changed_copy(setup, (), [], "other", in_place=in_place) as treated, torch.no_grad():
            treated.model.load_state_dict(read_state(checkpoints[index]))
            with UserCodeErrors(lambda: f"with {names[index]}"):
                failed = bool(fails(treated)) if fails is not None else _is_broken(treated)
        log.add(ProbeRun(names[index], index, failed=failed))
        return failed

    if fails_at(0) or not fails_at(len(checkpoints) - 1):
        return log.result("not reproduced", "The first checkpoint must pass and the last one fail. Pass fails=.")
    try:
        first = first_failing(len(checkpoints), fails_at)
    except OutOfRuns:
        return log.result("undecided", f"The {log.most} runs did not suffice. Allow more runs=.")
    headline = f"{names[first]} is the first that fails; {names[first - 1]} passes."
    return log.result("located", headline, candidates=(names[first],), indices=(first,))


def read_state(checkpoint: Any) -> Any:
    """Return the state dictionary of a checkpoint, or of the file at a path, which is read without executing code."""
    state = (
        torch.load(checkpoint, map_location="cpu", weights_only=True)
        if isinstance(checkpoint, (str, Path))
        else checkpoint
    )
    inner = next((state[key] for key in _STATE_KEYS if isinstance(state.get(key), dict)), None)
    return state if inner is None else inner


def _is_broken(treated: TreatedSetup) -> bool:
    loss = treated.setup.output_and_loss(next(treated.setup.batches(1)))[1]
    return not _is_finite(treated) or not isfinite(float(loss))


def _count(number: int) -> str:
    return f"{number} sample{'s' if number > 1 else ''}"
