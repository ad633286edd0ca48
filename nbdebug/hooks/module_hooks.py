"""Hooks on forward passes, submodule outputs, loss calls and mode switches."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from nbdebug.source.location import SourceLine, get_line_from_frame
from nbdebug.tensors.pytree import tree_tensors

_MAX_HOOKED_MODULES, _MAX_CALLS_PER_STEP, _MAX_TENSORS_PER_CALL = 400, 4, 4
_OutputCallback = Callable[[str, nn.Module, Tensor], None]


@contextmanager
def observe_forward_passes(
    model: nn.Module,
    on_begin: Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None],
    on_end: Callable[[Any], None],
    wants_output: Callable[[], bool | None] = lambda: True,
) -> Iterator[None]:
    """Call ``on_begin`` before each call of the model within the block, and ``on_end`` with its output after it.

    The hook on the output is registered only while ``wants_output()`` is true; None leaves it as it is.
    """
    output_handles: list[RemovableHandle] = []

    def add_output_hook() -> None:
        output_handles.append(model.register_forward_hook(_CallbackHook(on_end, slice(2, 3))))

    def remove_output_hook() -> None:
        while output_handles:
            output_handles.pop().remove()

    def before(*args: Any) -> None:
        on_begin(*args)
        is_wanted = wants_output()
        if is_wanted is False:
            remove_output_hook()
        elif is_wanted and not output_handles:
            add_output_hook()

    with ExitStack() as hooks:
        hooks.callback(remove_output_hook)
        with suppress(RuntimeError):  # a scripted module accepts no hooks
            hooks.callback(model.register_forward_pre_hook(_CallbackHook(before), with_kwargs=True).remove)
            add_output_hook()
        yield


class _CallbackHook:
    """A hook that returns None, is ignored by a compiler, and is dropped when the model is copied or saved.

    ``callback`` gets the slice ``argument_slice`` of the hook's arguments.
    """

    def __init__(self, callback: Callable[..., None], argument_slice: slice = slice(None)) -> None:
        self.callback, self.argument_slice = callback, argument_slice

    def __call__(self, *args: Any) -> None:
        if not torch.compiler.is_dynamo_compiling():
            self.callback(*args[self.argument_slice])

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy holds a standard library method that accepts anything and does nothing.
        return getattr, (nullcontext(), "__exit__")


@contextmanager
def observe_mode_switches(on_switch: Callable[[tuple[nn.Module, bool]], None]) -> Iterator[None]:
    """Call ``on_switch`` with (module, mode) before each ``train()`` and ``eval()`` of any module within the block."""
    original = nn.Module.train

    @functools.wraps(original)
    def train(self: Any, mode: bool = True) -> Any:
        on_switch((self, mode))
        return original(self, mode)

    nn.Module.train = train  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.train = original  # type: ignore[method-assign]


class SubmoduleOutputs:
    """Hooks on the submodules that compute something themselves; registered only while open.

    ``on_output`` gets the name, the submodule and its output: ``name`` for the first call of a step, ``name#2`` for the
    second, ``name[1]`` for the second tensor of a nested output. Calls without gradients and recomputation in a
    backward pass are skipped, and so are submodules for whose name ``is_selected`` is false.
    """

    def __init__(
        self, model: nn.Module, on_output: _OutputCallback, is_selected: Callable[[str], bool] = lambda _: True
    ) -> None:
        self.on_output, self.calls = on_output, dict[str, int]()
        self.modules = dict(
            [entry for entry in computing_modules(model).items() if is_selected(entry[0])][:_MAX_HOOKED_MODULES]
        )
        self.handles: list[RemovableHandle] = []

    def open(self) -> None:
        """Register the hooks for the next step."""
        self.calls.clear()
        if not self.handles:
            for name, module in self.modules.items():
                hook = _SubmoduleOutputHook(self, name)
                try:
                    self.handles.append(module.register_forward_hook(hook))
                except RuntimeError:  # a scripted module accepts no hooks
                    continue

    def close(self) -> None:
        """Remove the hooks."""
        while self.handles:
            self.handles.pop().remove()

    def record(self, name: str, module: nn.Module, output: Any) -> None:
        """Record an output of a submodule."""
        count = self.calls.get(name, 0) + 1
        if not torch.is_grad_enabled() or (count > 1 and _is_in_backward()) or count > _MAX_CALLS_PER_STEP:
            return
        self.calls[name] = count
        if count == 1 and type(output) is Tensor:  # the common case: each line saved here saves microseconds
            if output.is_floating_point() and output.numel():
                self.on_output(name, module, output)
            return
        call_suffix = f"#{count}" if count > 1 else ""
        float_tensors = [tensor for tensor in tree_tensors(output) if tensor.is_floating_point() and tensor.numel()]
        for i, tensor in enumerate(float_tensors[:_MAX_TENSORS_PER_CALL]):
            self.on_output(f"{name}{f'[{i}]' if i else ''}{call_suffix}", module, tensor)


def _is_in_backward() -> bool:
    """Check whether this thread is running a backward pass."""
    return bool(torch._C._current_graph_task_id() >= 0)  # the same check as in torch's own checkpoint


class _SubmoduleOutputHook:
    """A forward hook that is ignored by a compiler and dropped when the model is copied or saved."""

    def __init__(self, outputs: SubmoduleOutputs, name: str) -> None:
        self.outputs, self.name = outputs, name

    def __call__(self, module: nn.Module, _: Any, output: Any) -> None:
        """Record an output, and return None so that it stays unchanged."""
        if not torch.compiler.is_compiling():
            self.outputs.record(self.name, module, output)

    def __reduce__(self) -> tuple[Any, ...]:
        return _inert_hook, ()


def _ignore_call(*_: Any) -> None:
    """Ignore all arguments."""


def _inert_hook() -> Callable[..., None]:
    """Return the replacement of a hook in a copied model."""
    return _ignore_call


def computing_modules(model: nn.Module) -> dict[str, nn.Module]:
    """Return the submodules without children or with parameters of their own, by path."""
    return {
        name: module
        for name, module in model.named_modules()
        if not any(module.children()) or any(True for _ in module.parameters(recurse=False))
    }


@contextmanager
def observe_first_loss_call(
    loss_fn: Callable[..., Any] | None, on_line: Callable[[SourceLine], None]
) -> Iterator[None]:
    """Call ``on_line`` with the user's line of the first call of the loss within the block, if the loss is a module."""
    if not isinstance(loss_fn, nn.Module):
        yield
        return

    def before_call(*_: Any) -> None:
        handle.remove()
        if line := get_line_from_frame(sys._getframe(1)):
            on_line(line)

    handle = loss_fn.register_forward_pre_hook(before_call)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def observe_loss_calls(
    loss_fn: Callable[..., Any] | None,
    on_training_call: Callable[[tuple[Any, ...]], None],
    on_evaluation_loss: Callable[[Tensor], None],
) -> Iterator[None]:
    """Observe each call of the loss within the block, if the loss is a module.

    With gradients enabled, ``on_training_call`` gets the arguments before the call. Otherwise ``on_evaluation_loss``
    gets the scalar loss.
    """
    if not isinstance(loss_fn, nn.Module):
        yield
        return
    output_handles: list[RemovableHandle] = []

    def before(_: nn.Module, args: tuple[Any, ...]) -> None:
        if torch.is_grad_enabled():
            on_training_call(args)
        elif not output_handles:
            output_handles.append(loss_fn.register_forward_hook(_CallbackHook(after, slice(2, 3))))

    def after(value: Any) -> None:
        output_handles.pop().remove()
        if isinstance(value, Tensor) and value.numel() == 1:
            on_evaluation_loss(value)

    input_handle = loss_fn.register_forward_pre_hook(_CallbackHook(before))
    try:
        yield
    finally:
        for handle in (input_handle, *output_handles):
            handle.remove()


@contextmanager
def hooked(hooks: Mapping[nn.Module, Any], *, before: bool = False, with_kwargs: bool = False) -> Iterator[None]:
    """Register forward hooks for the duration of a block; with ``before``, hooks that run before the module."""
    with ExitStack() as stack:
        for module, hook in hooks.items():
            register = module.register_forward_pre_hook if before else module.register_forward_hook
            stack.callback(register(hook, with_kwargs=with_kwargs).remove)
        yield
