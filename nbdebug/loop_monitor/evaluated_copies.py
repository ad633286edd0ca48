"""A copy of the model that a loop evaluates in its place, while the training changes the model only."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

from nbdebug.loop_monitor.weight_copies import first_values
from nbdebug.source.location import SourceLine, get_calling_line

_MAX_TRACED_BATCHES = 4  # of each evaluation
_MAX_EVALUATIONS, _MIN_EVALUATIONS = 64, 2
_MAX_COMPARED_PARAMETERS = 32
_CallbackWrapper = Callable[[Callable[[Any], None]], Callable[[Any], None]]


@dataclass(frozen=True)
class EvaluatedCopy:
    """A module that every evaluation called, and never the model: its weights are constant, the model's are not.

    ``batches`` counts the validation batches. ``is_initial`` is true if the copy has the weights from before the loop.
    ``line`` is where it was called.
    """

    evaluations: int
    batches: int
    is_initial: bool
    line: SourceLine


class EvaluatedCopyMonitor:
    """Searches for the module that is called on validation batches on which the model is not.

    Modules are observed only after a validation batch without a pass of the model. A pass of the model or of one of its
    parts on such a batch, or any without gradient, ends the search, and so does a second module of these shapes, as in
    an ensemble. Keeps no module of the user's alive.
    """

    def __init__(self, model: nn.Module, can_trace: bool) -> None:
        self.model, self.can_trace = model, can_trace
        self.shapes = [p.shape for p in model.parameters()]
        count = len(self.shapes)
        self.compared = range(0, count, 1 + count // _MAX_COMPARED_PARAMETERS)
        self.initial = self.weights(model)
        self.is_ended, self.has_pass = not can_trace or not count, False
        self.is_validation, self.traced, self.batches = False, 0, 0
        self.first_parameter: ReferenceType[Tensor] | None = None  # of the copy; its wrappers may be new each time
        self.model_parts = set[int]()
        self.evaluations: list[tuple[list[Tensor], list[Tensor]]] = []
        self.is_new_evaluation, self.has_skipped, self.is_counted = False, False, False
        self.handle: RemovableHandle | None = None
        self.line: SourceLine | None = None
        self.on_call: Callable[[Any], None] = self.on_module

    @torch.no_grad()
    def weights(self, module: nn.Module) -> list[Tensor]:
        """Return some values of the weights of a module."""
        parameters = [*module.parameters()]
        return [first_values(parameters[position]) for position in self.compared]

    def on_batch(self, split: str, batch: Any) -> None:
        """Record a batch of any loader; observe the calls of modules if the one before was left to another module."""
        is_validation = split == "val"
        self.has_skipped |= self.is_validation
        self.close()
        if self.is_ended:
            return
        if is_validation and not self.is_validation:
            self.is_new_evaluation, self.traced = True, 0
        self.is_validation = is_validation
        self.is_counted = False
        is_due = self.traced < _MAX_TRACED_BATCHES and len(self.evaluations) < _MAX_EVALUATIONS
        if is_validation and is_due and self.has_skipped:
            self.traced += 1
            self.model_parts = {id(part) for part in self.model.modules()}
            self.handle = register_module_forward_pre_hook(self.before_call)

    def on_forward_begin(self) -> None:
        """Record a pass of the model."""
        self.has_pass = True
        if self.is_validation or not torch.is_grad_enabled():
            self.end()

    def before_call(self, module: nn.Module, args: Any) -> None:
        """Pass a module that is called to the callback."""
        if not torch.compiler.is_compiling():
            self.on_call(module)

    def on_module(self, module: nn.Module) -> None:
        """Inspect a module that is called after a validation batch."""
        if id(module) in self.model_parts:
            return self.end()
        parameters = [*module.parameters()]
        if [p.shape for p in parameters] != self.shapes:
            return
        if any(id(part) in self.model_parts for part in module.modules()):
            return self.end()
        if self.first_parameter is None:
            self.first_parameter = ref(parameters[0])
            self.line = get_calling_line(sys._getframe(1))
        elif self.first_parameter() is not parameters[0]:
            return self.end()
        self.batches += not self.is_counted
        self.is_counted = True
        if self.is_new_evaluation:
            self.is_new_evaluation = False
            self.evaluations.append((self.weights(module), self.weights(self.model)))

    def end(self) -> None:
        """End the search, since the program evaluates the model too."""
        self.is_ended = True
        self.close()

    def close(self) -> None:
        """Observe no more calls."""
        if self.handle is not None:
            self.handle.remove()
            self.handle = None

    def summary(self) -> EvaluatedCopy | None:
        """Return the module that all evaluations called; None if the model was evaluated or the module changed."""
        if self.is_ended or not self.has_pass or len(self.evaluations) < _MIN_EVALUATIONS or self.line is None:
            return None
        (first_copy, first_model), others = self.evaluations[0], self.evaluations[1:]
        is_constant = all(_are_equal(first_copy, weights) for weights, _ in others)
        models = [first_model, *(weights for _, weights in others)]
        has_changed = not any(map(_are_equal, models, models[1:]))
        if not is_constant or not has_changed:
            return None
        return EvaluatedCopy(len(self.evaluations), self.batches, _are_equal(first_copy, self.initial), self.line)


def _are_equal(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(torch.equal(a, b.to(a.device)) for a, b in zip(first, second, strict=True))
