"""One forward pass with an eye on every submodule: what went in, what came out, and where it ended."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parameter import is_lazy

from nbdebug.exceptions import SetupError
from nbdebug.graph.source import from_exception
from nbdebug.portrait import Portrait, portrait
from nbdebug.preserve import Preserve
from nbdebug.setup import Setup
from nbdebug.setup.trees import tensors

MOST_TENSORS = 8


@dataclass
class Passage:
    """What was seen of a pass, by submodule: portraits of the tensors of the first call, and the number of calls.

    ``under_way`` are the calls that had not returned when the pass ended; ``stopped`` says why it did, if it was
    before its end. ``batch`` is a phrase about what was passed.
    """

    known: Set[nn.Module]
    batch: str = ""
    inputs: dict[nn.Module, tuple[Portrait, ...]] = field(default_factory=dict)
    outputs: dict[nn.Module, tuple[Portrait, ...]] = field(default_factory=dict)
    calls: Counter[nn.Module] = field(default_factory=Counter)
    under_way: list[nn.Module] = field(default_factory=list)
    stopped: str = ""

    def enter(self, module: nn.Module, args: Any) -> None:
        """A call begins."""
        if module in self.known:
            self.calls[module] += 1
            self.under_way.append(module)
            if module not in self.inputs:
                self.inputs[module] = portraits(args)

    def leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """A call ends well; what is still under way inside it had raised what the model itself caught."""
        if module not in self.known:
            return
        while self.under_way.pop() is not module:
            pass
        if module not in self.outputs:
            self.inputs[module] += portraits(kwargs)
            self.outputs[module] = portraits(output)


def passage(setup: Setup) -> Passage:
    """The first batch through the model; whatever data or model raise is told, not raised.

    Nothing of the user's is changed; so a model with lazy layers, which a first pass changes for good, does not run.
    """
    seen = Passage(frozenset(setup.eager.modules()))
    if lazy := [name for name, p in setup.eager.named_parameters() if is_lazy(p)]:
        seen.stopped = f"{lazy[0]} has no shape yet. Run one batch through the model first."
        return seen
    with Preserve(*setup.owned, loaders=(setup.train_loader, setup.val_loader)):
        try:
            run(setup, seen)
        except SetupError as refusal:
            seen.stopped = str(refusal)
        except Exception as error:
            line = from_exception(error)
            seen.stopped = f"{type(error).__name__}: {error}{f' ({line.where()})' if line else ''}"
    return seen


def run(setup: Setup, seen: Passage) -> None:
    """One batch through the model, as its user sends it."""
    batch = next(setup.batches(1))
    seen.batch = str(batch)
    with watched(seen), uncompiled():
        setup.predict(batch) if setup.step_fn is None else setup.step_fn(batch.raw)


def uncompiled() -> AbstractContextManager[Any]:
    """A block in which compiled parts run as Python; what compiles is asked only where it has been loaded."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


@contextmanager
def watched(seen: Passage) -> Iterator[None]:
    """A block in which every call of a module is told, of scripted ones too, which take no hooks of their own."""
    handles = [
        register_module_forward_pre_hook(seen.enter),
        register_module_forward_hook(seen.leave, with_kwargs=True),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def portraits(tree: Any) -> tuple[Portrait, ...]:
    """The portraits of the first tensors of a tree."""
    return tuple(portrait(tensor) for tensor in tensors(tree)[:MOST_TENSORS])
