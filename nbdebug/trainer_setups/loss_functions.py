"""The function of the user that computes the loss of a step, found among the calls that the step makes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from torch import Tensor

from nbdebug.source.location import is_user_code


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


def find_loss_functions(step: Callable[[], Any], value: float) -> list[Callable[..., Any]]:
    """Run a step, and return the user's functions that returned its loss, a scalar of this value; the inner ones first.

    Each has two or more arguments, of which the first may be an object that it is bound to. Uses ``sys.setprofile``.
    """
    scalars, profiler = _ReturnedScalars(value), sys.getprofile()
    sys.setprofile(scalars.on_event)
    try:
        step()
    finally:
        sys.setprofile(profiler)
    return [function for call in scalars.calls for function in _functions_of(*call)]


def _functions_of(code: CodeType, module_names: dict[str, Any], first: Any) -> list[Callable[..., Any]]:
    """Return the functions with some code: the method of the first argument, that of its module, or all closures."""
    method, function = getattr(first, code.co_name, None), module_names.get(code.co_name)
    if isinstance(method, MethodType) and method.__func__.__code__ is code:
        return [method]
    if isinstance(function, FunctionType) and function.__code__ is code:
        return [function]
    return [item for item in gc.get_referrers(code) if isinstance(item, FunctionType) and item.__code__ is code]
