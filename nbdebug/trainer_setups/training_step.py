"""The model and the loss inside the training step of a trainer, found by one run of the step."""

from __future__ import annotations

import gc
import math
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as module_hooks

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.loss_terms import bind_arguments, record_loss_calls
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Setup, loaders
from nbdebug.setup.losses import FUNCTION_KINDS_BY_NAME, get_own_loss
from nbdebug.source.interpreter_events import observe_calls
from nbdebug.source.location import is_user_code

_MAX_LOSS_DIFFERENCE = 1e-6  # relative, of the loss of the step and that of the model and the loss function found in it
_TrainingStep = Callable[[Any], Any]


@dataclass
class _OuterCalls:
    """The modules that a step calls itself, in order; ``inner`` are those that another module calls."""

    depth: int = 0
    modules: list[nn.Module] = field(default_factory=list)
    inner: set[nn.Module] = field(default_factory=set)

    def enter(self, module: nn.Module, _: Any) -> None:
        """Handle a module about to be called."""
        if self.depth:
            self.inner.add(module)
        elif not any(module is known for known in self.modules):
            self.modules.append(module)
        self.depth += 1

    def leave(self, *_: Any) -> None:
        """Handle a call that has ended."""
        self.depth -= 1


@dataclass
class _ReturnedScalars:
    """The Python calls that returned a scalar tensor of one value: their code, their globals, their first argument."""

    value: float
    calls: list[tuple[CodeType, dict[str, Any], Any]] = field(default_factory=list)

    def on_event(self, frame: FrameType, event: str, returned: Any) -> None:
        """Handle an event of the interpreter."""
        code = frame.f_code
        if event != "return" or not isinstance(returned, Tensor) or returned.numel() != 1 or code.co_argcount < 2:
            return
        if is_user_code(code.co_filename) and float(returned.detach()) == self.value:
            self.calls.append((code, frame.f_globals, frame.f_locals.get(code.co_varnames[0])))


@contextmanager
def _observe_outer_calls() -> Iterator[_OuterCalls]:
    """Record the outermost calls of all modules within the block."""
    calls = _OuterCalls()
    begin = module_hooks.register_module_forward_pre_hook(calls.enter)
    end = module_hooks.register_module_forward_hook(calls.leave, always_call=True)
    try:
        yield calls
    finally:
        begin.remove()
        end.remove()


def find_model_and_loss(owner: nn.Module, step: _TrainingStep, train_loader: Any) -> dict[str, Any]:
    """Return the ``model`` whose passes make up a step, and the ``loss_fn`` with which it gives the loss of the step.

    ``step(batch)`` returns the loss, or an output that holds it. The model is the module of ``owner`` that alone has
    the parameters of the step, else ``owner``. If no loss function gives the same value, ``step_fn`` stands for both.
    A step that raises leaves the owner alone. Weights, modes, random state and loader are as before.
    """
    step_fn = partial(_loss_of_step, step)
    with Preserve(owner, loaders=(train_loader,)), _observe_outer_calls() as outer:
        raw, _ = next(loaders.peek_batches(train_loader, 1, "train_loader"))
        setup = Setup(owner, train_loader, step_fn=step_fn)
        values: list[float] = []
        calls, error = record_loss_calls(lambda: values.append(_seeded_loss(setup, raw)))
    if error is not None:
        return {"model": owner}
    with_parameters = [module for module in outer.modules if any(True for _ in module.parameters())]
    model = with_parameters[0] if len(with_parameters) == 1 else owner
    loss_modules = [module for module in outer.modules if module not in with_parameters]
    known = (*loss_modules, *_loss_attributes(owner, outer.inner), *_functional_losses(calls), None)
    for loss_fn in chain(known, _own_functions(setup, raw, values[0])):
        candidate = Setup(model, train_loader, loss_fn=loss_fn)
        with Preserve(owner, loaders=(train_loader,)):
            if _has_loss(candidate, raw, values[0]):
                return {"model": model, "loss_fn": loss_fn}
    return {"model": model, "step_fn": step_fn}


def _own_functions(setup: Setup, raw: Any, value: float) -> Iterator[Callable[..., Any]]:
    """Yield the user's functions that return the loss of a step, which runs once more when the first is needed."""
    with Preserve(setup.model, loaders=(setup.train_loader,)):
        functions = _find_loss_functions(lambda: _seeded_loss(setup, raw), value)
    yield from functions


def _loss_of_step(step: _TrainingStep, batch: Any) -> Any:
    """Return the loss of a step."""
    return get_own_loss(step(batch))


def _seeded_loss(setup: Setup, raw: Any) -> float:
    """Return the loss of a raw batch after seeding."""
    seed_all(0)
    return float(setup.output_and_loss(setup.split_batch(raw))[1].detach())


def _has_loss(setup: Setup, raw: Any, value: float) -> bool:
    """Check whether a setup gives a raw batch a loss of this value."""
    try:
        return math.isclose(_seeded_loss(setup, raw), value, rel_tol=_MAX_LOSS_DIFFERENCE)
    except Exception:
        return False


def _loss_attributes(owner: nn.Module, called: Collection[nn.Module]) -> list[Callable[..., Any]]:
    """Return the functions, and the modules that were called, that are attributes under the name of a loss."""
    children = {name: module for name, module in owner.named_children() if module in called}
    attributes = {**vars(owner), **children}
    return [value for name, value in attributes.items() if re.search("loss|criterion", name) and callable(value)]


def _functional_losses(calls: list[TorchCall]) -> list[Callable[..., Any]]:
    """Return torch's losses among some calls, with the options of the call; the last call first."""
    functions: list[Callable[..., Any]] = []
    for call in reversed(calls):
        function = getattr(F, call.name, None) if call.name in FUNCTION_KINDS_BY_NAME else None
        if function is not None and (arguments := bind_arguments(function, call)) is not None:
            without_operands = {name: value for name, value in arguments.items() if name not in ("input", "target")}
            options = {name: value for name, value in without_operands.items() if value is not None}
            functions.append(partial(function, **options))
    return functions


def _find_loss_functions(step: Callable[[], Any], value: float) -> list[Callable[..., Any]]:
    """Run a step, and return the user's functions that returned its loss, a scalar of this value; the inner ones first.

    Each has two or more arguments, of which the first may be an object that it is bound to.
    """
    scalars = _ReturnedScalars(value)
    with observe_calls(scalars.on_event):
        step()
    return [function for call in scalars.calls for function in _functions_of(*call)]


def _functions_of(code: CodeType, module_names: dict[str, Any], first: Any) -> list[Callable[..., Any]]:
    """Return the functions with some code: the method of the first argument, that of its module, or all closures."""
    method, function = getattr(first, code.co_name, None), module_names.get(code.co_name)
    if isinstance(method, MethodType) and method.__func__.__code__ is code:
        return [method]
    if isinstance(function, FunctionType) and function.__code__ is code:
        return [function]
    return [item for item in gc.get_referrers(code) if isinstance(item, FunctionType) and item.__code__ is code]
