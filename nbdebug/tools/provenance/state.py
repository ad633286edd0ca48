"""Hashes of what training changes: the tensors of each module, and the state of optimizers and schedulers."""

from __future__ import annotations

from typing import Any

from torch import nn

from nbdebug.setup import Setup
from nbdebug.tensors.hashing import hash_value


def setup_state(setup: Setup) -> dict[str, str]:
    """Return a hash of each part of a setup by name; parts without tensors of their own are left out."""
    state: dict[str, str] = {}
    modules: list[tuple[str, Any]] = [("model", setup.eager_model)]
    modules += [("loss_fn", setup.loss_fn)] if isinstance(setup.loss_fn, nn.Module) else []
    for name, root in modules:
        for path, module in root.named_modules():
            if tensors := _own_tensors(module):
                state[".".join(filter(None, [name, path]))] = _text(tensors)
    for number, optimizer in enumerate(setup.optimizers):
        name = "optimizer" if len(setup.optimizers) == 1 else f"optimizer {number}"
        state[name] = _text(optimizer.state_dict())
    for number, scheduler in enumerate(setup.schedulers):
        if hasattr(scheduler, "state_dict"):
            name = "scheduler" if len(setup.schedulers) == 1 else f"scheduler {number}"
            state[name] = _text(_plain(scheduler.state_dict()))
    return state


def _own_tensors(module: nn.Module) -> dict[str, Any]:
    named = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
    return {name: tensor.detach() for name, tensor in named}


def _plain(state: Any) -> dict[str, Any]:
    """Return the entries of a state that are values: some schedulers keep functions, which have no hash."""
    return {key: value for key, value in state.items() if not callable(value)} if isinstance(state, dict) else {}


def _text(value: Any) -> str:
    return f"{hash_value(value) % 2**64:016x}"
