"""What submodules put out in a running loop, on the steps that are looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from nbdebug.setup.trees import tensors

MOST_MODULES, MOST_CALLS, MOST_TENSORS = 400, 4, 4
Take = Callable[[str, nn.Module, Tensor], None]


class Outputs:
    """Hooks on the submodules that compute something themselves; they hang only while ``open``.

    ``take`` gets the place, the submodule and its output: ``name`` for the first call of a step, ``name#2`` for the
    second, ``name[1]`` for the second tensor of a tree. What runs without gradients, or again in a backward pass, is
    left out, and so are submodules whose name ``picks`` refuses.
    """

    def __init__(self, model: nn.Module, take: Take, picks: Callable[[str], bool] = lambda _: True) -> None:
        self.take, self.calls = take, dict[str, int]()
        self.modules = dict([one for one in computing(model).items() if picks(one[0])][:MOST_MODULES])
        self.handles: list[RemovableHandle] = []

    def open(self) -> None:
        """Hangs the hooks for the next step."""
        self.calls.clear()
        if not self.handles:
            for name, module in self.modules.items():
                hook = Hook(self, name)
                try:
                    self.handles.append(module.register_forward_hook(hook))
                except RuntimeError:  # a scripted module takes none
                    continue

    def close(self) -> None:
        """Takes the hooks off."""
        while self.handles:
            self.handles.pop().remove()

    def heard(self, name: str, module: nn.Module, output: Any) -> None:
        """A submodule has put something out."""
        count = self.calls.get(name, 0) + 1
        if not torch.is_grad_enabled() or (count > 1 and in_backward()) or count > MOST_CALLS:
            return
        self.calls[name] = count
        if count == 1 and type(output) is Tensor:  # as nearly all are: each line left out saves microseconds here
            if output.is_floating_point() and output.numel():
                self.take(name, module, output)
            return
        call = f"#{count}" if count > 1 else ""
        floats = [one for one in tensors(output) if one.is_floating_point() and one.numel()]
        for i, one in enumerate(floats[:MOST_TENSORS]):
            self.take(f"{name}{f'[{i}]' if i else ''}{call}", module, one)


def in_backward() -> bool:
    """Whether this thread runs a backward pass now."""
    return bool(torch._C._current_graph_task_id() >= 0)  # as torch's own checkpoint asks


class Hook:
    """One hook, which neither a compiler nor a copied or saved model takes with it."""

    def __init__(self, outputs: Outputs, name: str) -> None:
        self.outputs, self.name = outputs, name

    def __call__(self, module: nn.Module, _: Any, output: Any) -> None:
        """Hears an output, and returns None so that it stays as it is."""
        if not torch.compiler.is_compiling():
            self.outputs.heard(self.name, module, output)

    def __reduce__(self) -> tuple[Any, ...]:
        return silence, ()


def nothing(*_: Any) -> None:
    """Hears nothing."""


def silence() -> Callable[..., None]:
    """What a copy of a hook is."""
    return nothing


def computing(model: nn.Module) -> dict[str, nn.Module]:
    """The submodules without children or with parameters of their own, by path."""
    return {
        name: one
        for name, one in model.named_modules()
        if not any(one.children()) or any(True for _ in one.parameters(recurse=False))
    }
