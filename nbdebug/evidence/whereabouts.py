"""The user's line that calls a module, or that makes it."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn

from nbdebug.graph.assignments import assignments
from nbdebug.graph.source import Line, from_frame
from nbdebug.setup import Batch, Setup


def called_at(setup: Setup, batch: Batch, path: str) -> Line | None:
    """The line that calls a module first in a pass of one batch; None where none does."""
    found: list[Line | None] = []

    def note(*_: Any) -> None:
        found.append(from_frame(sys._getframe(1)))

    handle = setup.eager.get_submodule(path).register_forward_pre_hook(note)
    try:
        with torch.no_grad():
            setup.predict(batch)
    except Exception:
        return None
    finally:
        handle.remove()
    return next(iter(found), None)


def made_at(model: nn.Module, path: str) -> Line | None:
    """The line that sets a module as an attribute, or the innermost of those that it is in; None for containers."""
    while path:
        owner, _, name = path.rpartition(".")
        if lines := assignments(model.get_submodule(owner), name):
            return lines[0]
        path = owner
    return None
