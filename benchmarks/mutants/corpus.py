"""Training programs as files: where they are, and how one is loaded.

A plain program is a script. It builds ``model``, ``loss_fn``, ``optimizer``, ``train_loader`` and, where it has them,
``val_loader`` and ``scheduler``, and defines ``train()``. A script with other names ends with
``SETUP = dict(model=net, optimizer=opt, ...)``. It may define ``score(model)``, a number that is lower for a better
model, where the loss on the validation batches is not the measure.

A factory program defines ``program(...)``, which returns an object with these parts as attributes; its ``train`` takes
that object. ``program`` may take ``seed`` and ``fixed``; ``fixed`` is True.
"""

from __future__ import annotations

import importlib.util
import inspect
import random
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

PROGRAMS = Path(__file__).parent / "programs"
_PARTS = ("model", "loss_fn", "optimizer", "train_loader", "val_loader", "scheduler", "task", "score")


@dataclass
class Program:
    """The objects of a loaded program and its training function, which takes no argument."""

    model: nn.Module
    loss_fn: Callable[..., Any] | None
    optimizer: Any
    train_loader: Any
    train: Callable[[], object]
    val_loader: Any = None
    scheduler: Any = None
    task: str | None = None
    score: Callable[[nn.Module], float] | None = None
    namespace: dict[str, Any] = field(default_factory=dict)


def find_programs(folders: Iterable[Path] = ()) -> dict[str, Path]:
    """Return the files of all programs by name: those of this benchmark and those of further folders."""
    files = sorted(PROGRAMS.glob("[a-z]*.py"))
    for folder in folders:
        sys.path.append(str(folder))
        files += sorted(path for path in folder.rglob("[a-z]*.py") if is_program(path))
    return {path.stem: path for path in files}


def is_program(path: Path) -> bool:
    """Check whether a file of a further folder is a program."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return any(line.startswith(("def program(", "def train(", "SETUP =")) for line in lines)


def seed_everything(seed: int) -> None:
    """Seed the generators of Python, NumPy and torch."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def load_program(path: Path, seed: int) -> Program:
    """Execute a file with seeded generators and return its program."""
    seed_everything(seed)
    text = path.read_text(encoding="utf-8")
    if any(line.startswith("def program(") for line in text.splitlines()):
        return _load_factory(path, seed)
    module = ModuleType("__main__")
    module.__file__ = str(path)
    sys.modules["__main__"] = module
    exec(compile(text, str(path), "exec"), module.__dict__)
    return _plain_program(module.__dict__)


def _plain_program(namespace: dict[str, Any]) -> Program:
    parts = {name: namespace[name] for name in (*_PARTS, "train") if name in namespace}
    return Program(**{"loss_fn": None, **parts, **namespace.get("SETUP", {})}, namespace=namespace)


def _load_factory(path: Path, seed: int) -> Program:
    name = f"program_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file; expected a program.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    arguments = {"seed": seed, "fixed": True}
    accepted = inspect.signature(module.program).parameters
    built = module.program(**{key: value for key, value in arguments.items() if key in accepted})
    parts = {part: getattr(built, part) for part in _PARTS if hasattr(built, part)}
    return Program(**parts, train=lambda: built.train(built), namespace={"extras": getattr(built, "extras", {})})
