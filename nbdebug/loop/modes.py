"""In which mode the passes of a loop run: those that are trained on, and those that only evaluate."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from nbdebug.graph.source import Line, caller

MOST = 200  # modules whose mode is followed


@dataclass(frozen=True)
class Mode:
    """The mode of the whole model, and of each submodule that a mode switches."""

    training: bool
    on: tuple[bool, ...]


@dataclass(frozen=True)
class Passes:
    """The forward passes of a loop, by mode.

    ``trained`` are the modes of the last pass before each step, in order, each with how many steps it lasted;
    ``validated`` counts the passes over batches of the validation loader that nothing was learned from, ``in_train``
    those of them that ran in train mode. ``switching`` are the paths of the submodules that a mode switches;
    ``shape`` is that of a real-valued output. ``lines`` are the user's: "forward", "validation", and "train" and
    "eval", which switched the mode last. ``calls`` are all lines that passes came from.
    """

    switching: tuple[str, ...] = ()
    trained: tuple[tuple[Mode, int], ...] = ()
    validated: int = 0
    in_train: int = 0
    shape: tuple[int, ...] | None = None
    lines: dict[str, Line] = field(default_factory=dict)
    calls: tuple[Line, ...] = ()


class Modes:
    """Follows the passes."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.modules = dict([(name, one) for name, one in model.named_modules() if is_switched(one)][:MOST])
        self.trained: list[tuple[Mode, int]] = []
        self.counts: Counter[str] = Counter()
        self.split = ""
        self.under_way: tuple[Mode, str] | None = None
        self.before_step: Mode | None = None
        self.shape: tuple[int, ...] | None = None
        self.lines: dict[str, Line] = {}
        self.calls: dict[tuple[Any, ...], Line | None] = {}

    def begins(self) -> None:
        """A pass of the whole model begins; one before it that nothing was learned from was an evaluation."""
        self.counts, self.under_way = self.closed, None
        mode = Mode(self.model.training, tuple([one.training for one in self.modules.values()]))
        self.under_way = mode, self.split
        kind = self.split, torch.is_grad_enabled(), mode.training
        if kind not in self.calls:
            line = self.calls[kind] = caller(sys._getframe(1))
            if line:
                self.lines.setdefault("validation" if self.split == "val" else "forward", line)

    @property
    def closed(self) -> Counter[str]:
        """The counts, with the latest pass if it was over validation data and no backward pass has followed."""
        if not self.under_way or self.under_way[1] != "val":
            return self.counts
        mode = self.under_way[0]
        return self.counts + Counter({"validated": 1, "in train": int(mode.training and any(mode.on))})

    def ends(self, output: Any) -> None:
        """A pass is over."""
        if self.shape is None and isinstance(output, torch.Tensor) and output.is_floating_point():
            self.shape = tuple(output.shape)

    def pulled(self) -> None:
        """A backward pass has run: the pass before it was one of training."""
        if self.under_way:
            self.before_step, self.under_way = self.under_way[0], None

    def stepped(self) -> None:
        """A step was made of what the last backward pass gave."""
        mode, self.before_step = self.before_step, None
        if mode is None:
            return
        if self.trained and self.trained[-1][0] == mode:
            self.trained[-1] = mode, self.trained[-1][1] + 1
        elif len(self.trained) < MOST:
            self.trained.append((mode, 1))

    def switched(self, event: tuple[nn.Module, bool]) -> None:
        """The mode of a module is switched; the line is kept where it is the whole model."""
        module, mode = event
        if module is self.model and (line := caller(sys._getframe(1))):
            self.lines["train" if mode else "eval"] = line

    def seen(self) -> Passes:
        """All that was counted."""
        counts, lines = self.closed, dict(self.lines)
        calls = tuple({line: None for line in self.calls.values() if line})
        evaluated = counts["validated"], counts["in train"]
        return Passes(tuple(self.modules), tuple(self.trained), *evaluated, self.shape, lines, calls)


def is_switched(module: nn.Module) -> bool:
    """Whether a mode decides what a module of torch's computes."""
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return float(module.p) > 0
    if isinstance(module, nn.modules.batchnorm._NormBase):
        return bool(module.track_running_stats)
    if isinstance(module, nn.MultiheadAttention):
        return float(module.dropout) > 0
    return isinstance(module, nn.RNNBase) and module.dropout > 0 and module.num_layers > 1
