"""Where a program calls what: the exact expressions in its file, recorded while it runs.

Operators find the parts of a program by what its lines do, so a call counts wherever and however it is written.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DataLoader

Position = tuple[int, int]  # the end of an expression: line and byte in the line

LOSS_FUNCTIONS = (
    "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss",
    "smooth_l1_loss", "huber_loss", "kl_div", "gaussian_nll_loss", "poisson_nll_loss", "ctc_loss",
    "triplet_margin_loss", "margin_ranking_loss", "cosine_embedding_loss", "multi_margin_loss", "hinge_embedding_loss",
)  # fmt: skip
# Roles of the steps of a loop. A program may train another model before, as for its pretrained layers.
_STEP_ROLES = ("loss", "forward", "backward", "step", "zero_grad", "clip", "schedule_step")


class CallSites:
    """Recorder of calls by role; a context manager around the execution of one file."""

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        loops = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, (ast.For, ast.AsyncFor))]
        # Python 3.11 gives the call of iter() the range of the whole loop.
        self._iterated = {_range(loop): (loop.iter.end_lineno, loop.iter.end_col_offset) for loop in loops}
        self.roles: dict[str, dict[Position, None]] = {}
        self.constructors: list[tuple[Position, object]] = []
        self.forwards: list[tuple[Position, object]] = []
        self.loss_names: dict[str, None] = {}
        self._earlier_roles: dict[str, dict[Position, None]] = {}
        self._earlier_loss_names: dict[str, None] = {}
        self.lines: set[int] = set()
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> CallSites:
        """Patch torch, and trace the lines of the file."""
        self._patch(torch.Tensor, "backward", "backward")
        self._patch(torch.optim.Optimizer, "__init__", "optimizer", construct=True)
        self._patch(torch.optim.Optimizer, "zero_grad", "zero_grad")
        self._patch(nn.Module, "zero_grad", "zero_grad")
        self._patch(nn.utils, "clip_grad_norm_", "clip")
        self._patch(LRScheduler, "__init__", "scheduler", construct=True)
        for scheduler in [ReduceLROnPlateau, *_subclasses(LRScheduler)]:
            if "step" in vars(scheduler):
                self._patch(scheduler, "step", "schedule_step")
        self._patch(LRScheduler, "step", "schedule_step")
        self._patch(DataLoader, "__init__", "loader", construct=True)
        self._patch(DataLoader, "__iter__", "iteration")
        self._patch(nn.Module, "train", "mode")
        self._patch(nn.Module, "__init__", "module", construct=True)
        for name in LOSS_FUNCTIONS:
            self._patch(F, name, f"loss {name}")
        hooks = [
            register_optimizer_step_pre_hook(lambda *_: self._record("step")),
            nn.modules.module.register_module_forward_pre_hook(self._record_forward),
        ]
        self._undo += [hook.remove for hook in hooks]
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore torch."""
        sys.settrace(None)
        for undo in reversed(self._undo):
            undo()

    def begin_training(self) -> None:
        """Leave out the steps before; those of a role that the training itself never has still count."""
        self._earlier_roles = {role: self.roles.pop(role) for role in _STEP_ROLES if role in self.roles}
        self._earlier_loss_names, self.loss_names = self.loss_names, {}

    def _patch(self, holder: Any, name: str, role: str, construct: bool = False) -> None:
        original = vars(holder)[name]

        def recorded(*args: Any, **kwargs: Any) -> Any:
            if construct:
                self._record_constructor(role, args[0])
            elif role == "mode":
                mode = args[1] if len(args) > 1 else kwargs.get("mode", True)
                self._record("train_mode" if mode else "eval_mode")
            elif role.startswith("loss "):
                self._record_loss(role.removeprefix("loss "))
            else:
                self._record(role, args[0] if args else None)
            return original(*args, **kwargs)

        recorded.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
        recorded.__wrapped__ = original  # type: ignore[attr-defined]
        setattr(holder, name, recorded)
        self._undo.append(lambda: setattr(holder, name, original))

    def _record(self, role: str, subject: object = None, frame: FrameType | None = None) -> None:
        if (position := self._position(frame or sys._getframe(1))) is not None:
            self.roles.setdefault(role, {})[position] = None
            if role == "iteration":
                self.forwards.append((position, subject))

    def _record_constructor(self, role: str, subject: object) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and (frame.f_code.co_name != "__init__" or frame.f_locals.get("self") is not subject):
            if frame.f_code.co_filename == self.file:
                break
            frame = frame.f_back
        while frame is not None and frame.f_code.co_name == "__init__" and frame.f_locals.get("self") is subject:
            frame = frame.f_back
        if frame is not None and (position := self._position(frame)) is not None:
            self.constructors.append((position, subject))
            self.roles.setdefault(role, {})[position] = None

    def _record_loss(self, name: str) -> None:
        if (position := self._position(sys._getframe(1))) is not None:
            self.roles.setdefault("loss" if torch.is_grad_enabled() else "validation_loss", {})[position] = None
            if torch.is_grad_enabled():
                self.loss_names[name] = None

    def _record_forward(self, module: nn.Module, _: Any) -> None:
        if (position := self._position(sys._getframe(1))) is not None:
            phase = "forward" if torch.is_grad_enabled() else "validation_forward"
            self.roles.setdefault(phase, {})[position] = None
            self.forwards.append((position, module))

    def _position(self, frame: FrameType | None) -> Position | None:
        """Return the end of the expression that the innermost frame of the file is evaluating."""
        while frame is not None and frame.f_code.co_filename != self.file:
            frame = frame.f_back
        if frame is None:
            return None
        position = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
        end_line, end_column = self._iterated.get(position, (position[1], position[3]))
        return (end_line, end_column) if end_line is not None and end_column is not None else None

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._trace_line if frame.f_code.co_filename == self.file else None

    def _trace_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.lines.add(frame.f_lineno)
        return self._trace_line

    def summary(self, model: nn.Module, loaders: dict[str, Any]) -> dict[str, Any]:
        """Return the record as plain data; modules by their dotted names, loaders by their split."""
        names = {id(module): name for name, module in model.named_modules()}
        splits = {id(loader): split for split, loader in loaders.items() if loader is not None}
        modules: dict[str, list[str]] = {}
        calls: dict[str, list[str]] = {}
        for table, records in ((modules, self.constructors), (calls, self.forwards)):
            for (line, column), subject in records:
                if (name := names.get(id(subject), splits.get(id(subject)))) is not None:
                    owners = table.setdefault(f"{line}:{column}", [])
                    if name not in owners:
                        owners.append(name)
        return {
            "roles": {role: list(positions) for role, positions in {**self._earlier_roles, **self.roles}.items()},
            "made": modules,
            "called": calls,
            "losses": list(self.loss_names or self._earlier_loss_names),
            "lines": sorted(self.lines),
        }


def _range(node: ast.For | ast.AsyncFor) -> tuple[int | None, ...]:
    """Return the range of a statement in the order of ``co_positions``."""
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _subclasses(kind: type) -> list[type]:
    children: list[type] = kind.__subclasses__()
    return children + [below for child in children for below in _subclasses(child)]
