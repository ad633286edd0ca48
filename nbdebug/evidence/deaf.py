"""Which module is handed an input and answers as if it were not."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.evidence.ahead import another
from nbdebug.evidence.answers import Answers
from nbdebug.graph.source import is_library
from nbdebug.setup import Batch
from nbdebug.setup.trees import tensors

Heard = dict[str, list[Tensor]]


def deaf_module(answers: Answers, names: list[str]) -> str:
    """The path of the innermost of the user's modules whose answer is the same for other values of some inputs.

    Only modules that are handed these inputs as they are count; the path is empty for the model itself.
    """
    inputs = answers.inputs
    wanted = [inputs[name] for name in names]
    changed = answers.changed(lambda t: another(t) if any(t is one for one in wanted) else t)
    after = Answers(answers.setup, changed).inputs
    before, then = (answered(answers, *one) for one in ((answers.batch, wanted), (changed, [after[n] for n in names])))
    deaf = [path for path in before if path in then and is_same(before[path], then[path])]
    return max(deaf, key=lambda path: path.count(".") + bool(path), default="")


def answered(answers: Answers, batch: Batch, wanted: list[Tensor]) -> Heard:
    """What each of the user's modules that is handed one of some tensors returns, by path."""
    heard: Heard = {}
    with ExitStack() as stack:
        for path, module in answers.setup.eager.named_modules():
            if path and is_own(module):
                handle = module.register_forward_hook(partial(note, path, wanted, heard), with_kwargs=True)
                stack.callback(handle.remove)
        answers.to(batch)
    return heard


def note(path: str, wanted: list[Tensor], heard: Heard, _: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
    """Keeps the answer of a module that was handed one of the tensors."""
    if any(given is one for given in tensors((args, kwargs)) for one in wanted):
        heard[path] = [t.detach().clone() for t in tensors(output)]


def is_own(module: nn.Module) -> bool:
    """Whether the user wrote what a module does."""
    forward = type(module).forward
    return isinstance(forward, FunctionType) and not is_library(forward.__code__.co_filename)


def is_same(before: list[Tensor], after: list[Tensor]) -> bool:
    """Whether two answers agree in every value."""
    return len(before) == len(after) and all(map(torch.equal, before, after))
