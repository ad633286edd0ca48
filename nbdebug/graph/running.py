"""Which submodule is at work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Running:
    """The paths of the submodules at work, the innermost last."""

    paths: list[str] = field(default_factory=list)

    @property
    def innermost(self) -> str | None:
        """The path of the submodule that runs, empty for the model itself; None outside of it."""
        return self.paths[-1] if self.paths else None

    def enter(self, path: str) -> None:
        """Notes that a submodule begins to run."""
        self.paths.append(path)

    def leave(self) -> None:
        """Notes that the innermost submodule is done."""
        self.paths.pop()

    @contextmanager
    def inside(self, model: nn.Module) -> Iterator[None]:
        """A block in which the submodules of ``model`` are followed, by hooks that are taken off afterwards."""
        plain = ((p, m) for p, m in model.named_modules() if not isinstance(m, torch.jit.ScriptModule))
        handles = []
        for path, module in plain:
            handles.append(module.register_forward_pre_hook(lambda *_, path=path: self.enter(path)))
            handles.append(module.register_forward_hook(lambda *_: self.leave(), always_call=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
