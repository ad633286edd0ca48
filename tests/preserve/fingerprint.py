"""A record of everything that must not change, compared bit for bit with a later one.

Uses no code of ``nbdebug.preserve``, whose errors it must detect.
"""

from __future__ import annotations

import hashlib
import random
from collections import deque
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)
_OPAQUE = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
_OPAQUE_MODULES = ("torch._", "torch.fx", "torch.jit", "torch.utils.hooks", "torch.utils.data.dataloader", "weakref")


def fingerprint(*objects: Any, loaders: Iterable[Any] = ()) -> Fingerprint:
    """Return the current state of these objects, of every random generator and of the settings of torch."""
    return Fingerprint(objects, tuple(loaders))


class Fingerprint:
    """Facts by path. Keeps references to the objects, so that no id can be reused."""

    def __init__(self, objects: tuple[Any, ...], loaders: tuple[Any, ...]) -> None:
        self._arguments = objects, loaders
        self._references: list[Any] = []
        self._paths: dict[int, str] = {}
        self.facts: dict[str, object] = {}
        for index, obj in enumerate((*objects, *loaders)):
            self._record(f"{type(obj).__name__}#{index}", obj)
        self._record_global_state()

    def check(self) -> None:
        """Raise AssertionError with one line per difference from the current state."""
        lines = self.differences()
        assert not lines, f"{len(lines)} differences:\n" + "\n".join(lines[:30])

    def differences(self) -> list[str]:
        """Return one line for each fact that has changed, appeared or disappeared."""
        current = fingerprint(*self._arguments[0], loaders=self._arguments[1]).facts
        names = dict.fromkeys([*self.facts, *current])
        lines = ((name, self.facts.get(name, "(nothing)"), current.get(name, "(nothing)")) for name in names)
        return [f"{name}: {before} -> {after}" for name, before, after in lines if before != after]

    def _record(self, path: str, value: Any) -> None:
        if isinstance(value, _PLAIN):
            self.facts[path] = f"{type(value).__name__} {value!r}"
            return
        first_path = self._paths.setdefault(id(value), path)
        self.facts[path] = f"{type(value).__name__} at {id(value):#x}"
        self._references.append(value)
        if first_path == path and not isinstance(value, _OPAQUE):
            self._record_contents(path, value)

    def _record_contents(self, path: str, value: Any) -> None:
        state = _generator_state(value)
        if state is not None:
            self.facts[f"{path} state"] = _hash(state)
        elif isinstance(value, torch.Tensor):
            self._tensor(path, value)
        elif isinstance(value, np.ndarray):
            self.facts[f"{path} values"] = _hash(value.tobytes())
        elif isinstance(value, dict):
            self._dict(path, value)
        elif isinstance(value, (list, tuple, deque, set, frozenset, bytearray)):
            self._items(path, value)
        elif isinstance(value, Dataset):
            self._dataset(path, value)
        elif isinstance(value, torch.jit.ScriptModule):
            self._script(path, value)
        elif isinstance(value, (torch.nn.Module, DataLoader)) or not type(value).__module__.startswith(_OPAQUE_MODULES):
            self._object(path, value)

    def _dict(self, path: str, value: dict[Any, Any]) -> None:
        # A tensor as a key has no stable text: its position names it.
        names = [
            key if isinstance(key, str) else f"{type(key).__name__}{position}" for position, key in enumerate(value)
        ]
        self.facts[f"{path} keys"] = [(name, hash(key)) for name, key in zip(names, value, strict=True)]
        for name, item in zip(names, value.values(), strict=True):
            self._record(f"{path}[{name}]", item)

    def _items(self, path: str, value: Any) -> None:
        self.facts[f"{path} length"] = len(value)
        for index, item in enumerate(value):
            self._record(f"{path}[{index}]", item)

    def _object(self, path: str, value: Any) -> None:
        for base in type(value).__mro__:
            for name in getattr(base, "__slots__", ()):
                if hasattr(value, name):
                    self._record(f"{path}.{name}", getattr(value, name))
        if hasattr(value, "__dict__"):
            self.facts[f"{path}.__dict__"] = id(vars(value)), list(vars(value))
            for name, item in list(vars(value).items()):
                self._record(f"{path}.{name}", item)
        elif hasattr(value, "state_dict"):
            self._record(f"{path}.state", {name: str(item) for name, item in value.state_dict().items()})

    def _dataset(self, path: str, value: Any) -> None:
        for name, item in vars(value).items():
            self.facts[f"{path}.{name}"] = repr(item) if isinstance(item, _PLAIN) else id(item)
            items = item if isinstance(item, (list, tuple)) else [item]
            for index, part in enumerate(items):
                if isinstance(part, Dataset) or _generator_state(part) is not None:
                    self._record(f"{path}.{name}[{index}]", part)

    def _script(self, path: str, value: Any) -> None:
        for name, tensor in [*value.named_parameters(), *value.named_buffers()]:
            self._record(f"{path}.{name}", tensor)
        for name, module in value.named_modules():
            self.facts[f"{path}.{name} training"] = module.training

    def _tensor(self, path: str, tensor: torch.Tensor) -> None:
        self.facts[f"{path} flags"] = tensor.requires_grad, tensor.is_leaf, str(tensor.dtype), str(tensor.device)
        self.facts[f"{path} graph"] = self._id(tensor.grad_fn)
        if not isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            self.facts[f"{path} values"] = _values(tensor)
            self.facts[f"{path} memory"] = _memory(tensor)
        if tensor.is_leaf or tensor.retains_grad:
            self._record(f"{path}.grad", tensor.grad)
        for hooks in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            self._record(f"{path}.{hooks}", getattr(tensor, hooks))
        self._record(f"{path}.__dict__", vars(tensor))

    def _id(self, value: Any) -> int | None:
        self._references.append(value)
        return None if value is None else id(value)

    def _record_global_state(self) -> None:
        self.facts |= {
            "python random": _hash(repr(random.getstate()).encode()),
            "numpy random": _hash(repr(np.random.get_state()[1:]).encode() + np.random.get_state()[1].tobytes()),
            "torch random": _hash(torch.get_rng_state().numpy().tobytes()),
            "grad mode": torch.is_grad_enabled(),
            "anomaly mode": (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
            "default dtype": torch.get_default_dtype(),
            "deterministic": (torch.are_deterministic_algorithms_enabled(), torch.get_deterministic_debug_mode()),
            "autocast": [torch.is_autocast_enabled(device) for device in ("cpu", "cuda")],
            "autocast dtype": [torch.get_autocast_dtype(device) for device in ("cpu", "cuda")],
            "threads": torch.get_num_threads(),
        }
        if torch.cuda.is_initialized():
            self.facts["CUDA random"] = [_hash(state.numpy().tobytes()) for state in torch.cuda.get_rng_state_all()]


def _values(tensor: torch.Tensor) -> str:
    dense = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
    flat = dense.cpu().flatten().clone()  # numpy marks the memory it shares as not to be resized
    first_values = [f"{value:.6g}" for value in flat[:3].tolist()]
    return f"{tuple(tensor.shape)} {' '.join(first_values)} … {_hash(flat.view(torch.uint8).numpy().tobytes())}"


def _memory(tensor: torch.Tensor) -> tuple[object, ...]:
    if tensor.layout != torch.strided:
        return ()
    return tensor.data_ptr(), tensor.stride(), tensor.storage_offset()


def _generator_state(value: Any) -> bytes | None:
    if isinstance(value, torch.Generator):
        return value.get_state().numpy().tobytes()
    if isinstance(value, random.Random):
        return repr(value.getstate()).encode()
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state).encode()
    if isinstance(value, np.random.RandomState):
        return value.get_state()[1].tobytes() + repr(value.get_state()[2:]).encode()
    return None


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
