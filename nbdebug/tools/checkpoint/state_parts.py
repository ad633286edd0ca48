"""Parts of the state of a training setup: where each is in a checkpoint, and where two states differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.loop_monitor.resumption import keeps_state
from nbdebug.preserve.process_snapshots import global_generators
from nbdebug.setup import Setup
from nbdebug.tensors.hashing import hash_value
from nbdebug.tensors.pytree import tree_leaves, tree_map
from nbdebug.tools.checkpoint.reading import is_tensor_mapping, mappings

_MIN_OVERLAP = 0.5  # of the keys, for a mapping to be the state of an object: versions of torch differ in a few
_MISSING = object()


@dataclass(frozen=True)
class StatePart:
    """An object whose ``state_dict()`` a checkpoint ought to contain; ``code`` is its name in the code of a fix."""

    name: str
    owner: Any
    code: str

    @property
    def is_model(self) -> bool:
        """Check whether this is the model."""
        return self.name == "model"

    def copied_state(self) -> dict[str, Any]:
        """Return a copy of the state, in which functions, which have no value to compare, are left out."""
        state = tree_map(self.owner.state_dict(), lambda v: v.detach().clone() if isinstance(v, Tensor) else v)
        return {key: value for key, value in state.items() if not callable(value)}

    @property
    def is_needed(self) -> bool:
        """Check whether the state matters for the next step: plain SGD without a schedule has none of its own."""
        if not isinstance(self.owner, torch.optim.Optimizer):
            return True
        is_scheduled = any("initial_lr" in group for group in self.owner.param_groups)
        return bool(self.owner.state) or is_scheduled or keeps_state(self.owner)


def state_parts(setup: Setup) -> list[StatePart]:
    """Return the model, and all other objects of a setup that have a state."""
    items: list[tuple[str, Any]] = [("loss_fn", setup.loss_fn)] if isinstance(setup.loss_fn, nn.Module) else []
    items += [("optimizer", item) for item in setup.optimizers] + [("scheduler", item) for item in setup.schedulers]
    items += [(_extra_name(item), item) for item in setup.extra_state]
    items += [("train_loader", setup.train_loader)]
    parts = [StatePart("model", setup.eager_model, "model")]
    for name, owner in items:
        if hasattr(owner, "state_dict") and hasattr(owner, "load_state_dict") and owner.state_dict():
            number = sum(part.name.split()[0] == name for part in parts) + 1
            suffixes = (f" {number}", f"_{number}") if number > 1 else ("", "")
            parts.append(StatePart(name + suffixes[0], owner, name + suffixes[1]))
    return parts


def _extra_name(item: Any) -> str:
    return "scaler" if isinstance(item, torch.amp.GradScaler) else type(item).__name__.lower()


def generator_states() -> dict[str, int]:
    """Return a hash of the state of each global random generator by name."""
    return {name: hash_value(snapshot.original) for name, snapshot in global_generators()}


def find_states(content: Any, parts: Iterable[StatePart]) -> dict[str, Mapping[Any, Any]]:
    """Return the mapping in a checkpoint that is the state of each part, for those that it contains.

    The names under which a checkpoint stores its parts do not count, but the keys of each part do. Only the model
    takes the largest remaining mapping of tensors if no keys agree.
    """
    candidates = list(mappings(content))
    states: dict[str, Mapping[Any, Any]] = {}
    for part in parts:
        own = part.owner.state_dict()
        scores = {i: _overlap(own, candidate) for i, candidate in enumerate(candidates)}
        best = max(scores, key=lambda i: scores[i], default=None)
        if best is not None and scores[best] >= _MIN_OVERLAP:
            states[part.name] = candidates.pop(best)
    if "model" not in states and (others := [item for item in candidates if is_tensor_mapping(item)]):
        states["model"] = max(others, key=len)
    return states


def _overlap(own: Mapping[Any, Any], candidate: Mapping[Any, Any]) -> float:
    """Return the share of equal keys among all keys of two states; for optimizers, of equal sizes of groups."""
    if "param_groups" in own or "param_groups" in candidate:
        if not ("param_groups" in own and "param_groups" in candidate):
            return 0.0
        return 1.0 if _group_sizes(own) == _group_sizes(candidate) else _MIN_OVERLAP
    keys, others = set(own), set(without_prefix(candidate)[0])
    return len(keys & others) / max(len(keys | others), 1)


def _group_sizes(state: Mapping[Any, Any]) -> list[int]:
    return [len(group["params"]) for group in state["param_groups"]]


def without_prefix(state: Mapping[Any, Any]) -> tuple[Mapping[Any, Any], str]:
    """Return a state without the prefix of a wrapper, such as ``module.``, with that prefix."""
    for prefix in ("module.", "_orig_mod.", "model."):
        if state and all(isinstance(key, str) and key.startswith(prefix) for key in state):
            return {key.removeprefix(prefix): value for key, value in state.items()}, prefix
    return state, ""


def has_generator_state(content: Any) -> bool:
    """Check whether a checkpoint contains a state of torch's generator: bytes of the same number."""
    size = torch.get_rng_state().numel()
    tensors = (leaf for _, leaf in tree_leaves(content) if isinstance(leaf, Tensor))
    return any(tensor.dtype == torch.uint8 and tensor.numel() == size for tensor in tensors)


def architecture_difference(own: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    """Return the first tensor of a model that a stored state lacks or has in another shape; empty if it fits."""
    for name, value in own.items():
        if name not in stored:
            return f"{name} is not in the checkpoint"
        shapes = [tuple(getattr(item, "shape", ())) for item in (value, stored[name])]
        if shapes[0] != shapes[1]:
            return f"{name} has shape {shapes[0]} in the model and {shapes[1]} in the checkpoint"
    extra = next((name for name in stored if name not in own), None)
    return f"{extra} is in the checkpoint, but not in the model" if extra is not None else ""


def non_finite_tensor(state: Mapping[str, Any]) -> str:
    """Return the name of the first tensor with NaN or infinity; empty if there is none."""
    floats = ((name, v) for name, v in state.items() if isinstance(v, Tensor) and v.is_floating_point())
    return next((str(name) for name, value in floats if not bool(value.isfinite().all())), "")


def first_difference(saved: Mapping[Any, Any], loaded: Mapping[Any, Any]) -> str:
    """Return the first entry in which two states differ, with both values; empty if they are equal."""
    before, after = dict(tree_leaves(saved)), dict(tree_leaves(loaded))
    for path in dict.fromkeys([*before, *after]):
        a, b = before.get(path, _MISSING), after.get(path, _MISSING)
        if not _is_equal(a, b):
            return f"{'.'.join(map(str, path))}{_values_text(a, b)}"
    return ""


def _is_equal(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.cpu(), b.cpu())
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return a is b or bool(a == b)


def _values_text(saved: Any, loaded: Any) -> str:
    """Return both values as the rest of a sentence."""
    if saved is _MISSING or loaded is _MISSING:
        return " was saved" if loaded is _MISSING else " was not saved"
    if isinstance(saved, Tensor) and isinstance(loaded, Tensor):
        if saved.shape != loaded.shape or saved.dtype != loaded.dtype or saved.numel() != 1:
            return ""
        saved, loaded = saved.item(), loaded.item()
    values = [f"{value:.6g}" if isinstance(value, float) else repr(value) for value in (loaded, saved)]
    return f" is {values[0]}, and was {values[1]}" if max(map(len, values)) < 40 else ""
