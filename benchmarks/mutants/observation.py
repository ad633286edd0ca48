"""A training run without nbdebug: how good the model becomes, what the loop does in which order, and what moves."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from benchmarks.mutants.call_sites import CallSites
from benchmarks.mutants.corpus import Program, load_program

Scores = dict[str, float]


def observe(path: str, seed: int, unmutated: str | None = None, with_sites: bool = False) -> dict[str, Any]:
    """Train a program and return what was observed; ``unmutated`` is the file whose validation data are the measure."""
    sites = CallSites(Path(path)) if with_sites else None
    output = io.StringIO()
    result: dict[str, Any] = {"raised": None}
    with contextlib.redirect_stdout(output), sites or nullcontext():
        program = load_program(Path(path), seed)
        before = {name: weight.detach().clone() for name, weight in program.model.named_parameters()}
        untrained = _copy(program.model) if unmutated is None else None
        events = _Events(program)
        start = time.perf_counter()
        if sites is not None:
            sites.begin_training()
        try:
            program.train()
        except Exception as error:
            result["raised"] = f"{type(error).__name__}: {error}"[:300]
        result["seconds"] = time.perf_counter() - start
    loaders = {"train": program.train_loader, "val": program.val_loader}
    if sites is not None:
        result["sites"] = sites.summary(program.model, loaders)
    inputs = events.inputs or 1
    weights = dict(program.model.named_parameters())
    result["facts"] = events.facts()
    result["events"] = "".join(events.letters)[:60]
    result["moved"] = [
        name for name, value in before.items() if name in weights and not torch.equal(weights[name], value)
    ]
    result["weights"] = repr(sum(float(weight.detach().double().abs().sum()) for weight in weights.values()))
    result["record"] = _digest(output.getvalue(), program.namespace)
    truth = program if unmutated is None else load_program(Path(unmutated), seed)
    result["own"] = _score(program.model, program, inputs)
    result["true"] = result["own"] if unmutated is None else _score(program.model, truth, inputs)
    result["untrained"] = _score(untrained, program, inputs) if untrained is not None else None
    with suppress(Exception):
        if len(_row_hashes(program.train_loader) & _row_hashes(program.val_loader)) > 5:
            result["facts"].append("splits overlap")
    with suppress(Exception):
        if _is_random_in_eval_mode(program, inputs):
            result["facts"].append("random in eval mode")
    return result


class _Events:
    """Forward passes, backward passes, steps and clearings of gradients in their order, one letter each.

    F is a forward pass with gradients and f one in eval mode; V and v are the same without gradients; B, S and Z.
    """

    def __init__(self, program: Program) -> None:
        self.letters: list[str] = []
        self.inputs: int | None = None
        model = program.model
        self.has_modes = any(
            isinstance(m, nn.modules.batchnorm._BatchNorm)
            or (isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0)
            or (isinstance(m, (nn.MultiheadAttention, nn.RNNBase)) and m.dropout > 0)
            for m in model.modules()
        )
        self.normalizations = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        model.register_forward_pre_hook(self._forward)
        register_optimizer_step_pre_hook(lambda *_: self.letters.append("S"))
        self._patch(torch.autograd, "backward", "B")
        self._patch(torch.autograd, "grad", "B")
        self._patch(torch.optim.Optimizer, "zero_grad", "Z")
        self._patch(nn.Module, "zero_grad", "Z")

    def _patch(self, holder: Any, name: str, letter: str) -> None:
        original: Callable[..., Any] = getattr(holder, name)

        def recorded(*args: Any, **kwargs: Any) -> Any:
            self.letters.append(letter)
            return original(*args, **kwargs)

        setattr(holder, name, recorded)

    def _forward(self, model: nn.Module, arguments: tuple[Any, ...]) -> None:
        letter = "F" if torch.is_grad_enabled() else "V"
        is_training = model.training and (not self.normalizations or any(m.training for m in self.normalizations))
        self.letters.append(letter if is_training else letter.lower())
        if self.inputs is None and torch.is_grad_enabled():
            self.inputs = len(arguments)

    def facts(self) -> list[str]:
        """Return what is a mistake in nearly every program."""
        text = "".join(self.letters)
        updates = "".join(letter for letter in text if letter in "BSZ").split("S")
        piled = sum("Z" not in part for part in updates[1:-1])
        nothing = sum((part.endswith("Z") and "B" in part) or not part for part in updates[1:-1])
        facts = {
            "no step": "S" not in text,
            "gradients pile up": len(updates) > 4 and piled > len(updates) / 2,
            "steps on nothing": len(updates) > 4 and nothing > len(updates) / 2,
            "trains in eval mode": self.has_modes and text.count("f") > text.count("F") / 2,
            "evaluates in train mode": self.has_modes and "V" in text,
        }
        return [fact for fact, holds in facts.items() if holds]


def _copy(model: nn.Module) -> nn.Module | None:
    """Return a copy of a model; None if it cannot be copied."""
    with suppress(Exception):
        return copy.deepcopy(model)
    return None


def _score(model: nn.Module, truth: Program, inputs: int) -> Scores | None:
    """Return the loss, and the accuracy where there is one, of a model on the validation data of a program."""
    modes = [(module, module.training) for module in model.modules()]
    state = torch.get_rng_state()
    try:
        torch.manual_seed(0)
        model.eval()
        with torch.no_grad():
            if truth.score is not None:
                return {"loss": float(truth.score(model))}
            if (loader := truth.val_loader or truth.train_loader) is None or truth.loss_fn is None:
                return None
            return _loss_and_accuracy(model, loader, truth.loss_fn, inputs)
    except Exception as error:
        print(f"no score: {error}", file=sys.stderr)
        return None
    finally:
        torch.set_rng_state(state)
        for module, mode in modes:
            module.training = mode


def _loss_and_accuracy(model: nn.Module, loader: Any, loss_fn: Callable[..., Any], inputs: int) -> Scores:
    total = count = hits = labels = 0.0
    for batch in loader:
        parts = list(batch) if isinstance(batch, (tuple, list)) else [batch]
        output = model(*parts[:inputs])
        targets = parts[inputs:] or parts[-1:]
        value = float(loss_fn(output, *targets))
        total, count = total + value * len(parts[0]), count + len(parts[0])
        target = targets[-1]
        is_class = torch.is_tensor(output) and torch.is_tensor(target) and output.dim() == 2 and target.dim() == 1
        if is_class and output.shape[1] > 1 and not target.is_floating_point():
            hits, labels = hits + float((output.argmax(1) == target).sum()), labels + len(target)
    return {"loss": total / max(count, 1)} | ({"accuracy": hits / labels} if labels else {})


def _row_hashes(loader: Any) -> set[int]:
    firsts = (batch[0] if isinstance(batch, (tuple, list)) else batch for batch in loader)
    return {hash(row.tobytes()) for first in firsts for row in first.numpy()}


def _is_random_in_eval_mode(program: Program, inputs: int) -> bool:
    batch = next(iter(program.val_loader))
    values = batch[:inputs] if isinstance(batch, (tuple, list)) else [batch]
    program.model.eval()
    first, second = program.model(*values), program.model(*values)
    # A state that is kept, but forgotten within the sequence, changes the answer by less than a user can see.
    return not torch.allclose(first, second, rtol=0, atol=1e-3 * float(first.abs().max()))


def _digest(output: str, namespace: dict[str, Any]) -> str:
    """Return a hash of what a program printed and of the numbers in its lists and dictionaries."""
    values = [value for name, value in sorted(namespace.items()) if not name.startswith("_")]
    numbers = [repr(value) for value in values if _is_record(value)]
    return hashlib.sha256("\n".join([output, *numbers]).encode()).hexdigest()[:16]


def _is_record(value: Any) -> bool:
    """Check whether a value consists of numbers in lists and dictionaries."""
    if isinstance(value, dict):
        return all(map(_is_record, value.values()))
    return isinstance(value, (int, float)) or (isinstance(value, list) and all(map(_is_record, value)))
