"""Variables of the user's code that a step can change although no object of the setup refers to them."""

from __future__ import annotations

import copy
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from types import CellType, CodeType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.preserve import Preserve
from nbdebug.preserve.process_snapshots import GENERATOR_TYPES, GeneratorSnapshot
from nbdebug.setup import Setup
from nbdebug.setup.callable_state import stateful_callable
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.location import is_user_code
from nbdebug.tensors.hashing import hash_value

_MAX_BYTES = 64 << 20  # of a tensor or an array; larger ones are data, which a step does not write
_MAX_ITEMS = 10_000  # of a container, for the same reason
_NO_STATE = (ModuleType, type, FunctionType, MethodType, Dataset, DataLoader)


@dataclass(frozen=True)
class Variable:
    """A global variable, an attribute of a class, or a variable of an enclosing function, and who refers to it."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    user: FunctionType

    @property
    def is_generator(self) -> bool:
        """True if it holds a random generator."""
        return isinstance(self.read(), GENERATOR_TYPES)

    @property
    def digest(self) -> int:
        """A hash of the value."""
        value = self.read()
        if isinstance(value, GENERATOR_TYPES):
            return hash_value(GeneratorSnapshot(value).state)
        if isinstance(value, nn.Module):
            return hash_value(dict(value.state_dict()))
        if isinstance(value, GeneratorType):
            frame = value.gi_frame
            return hash_value(None if frame is None else [frame.f_lasti, dict(frame.f_locals)])
        if callable(value):
            return hash_value(dict(vars(value)))
        return hash_value(repr(value) if _is_counter(value) else value)


def _is_counter(value: Any) -> bool:
    """Return whether a value is an iterator of itertools, which is copied to be restored."""
    return type(value).__module__ == "itertools" or isinstance(value, itertools.count)


class HiddenState:
    """The hidden variables of a setup."""

    def __init__(self, setup: Setup) -> None:
        known = {id(item) for item in _known_objects(setup)}
        self.functions = list(_user_functions(user_written_objects(setup)))
        variables = {}
        for function in self.functions:
            for key, variable in _variables(function):
                if key not in variables and id(variable.read()) not in known and _has_state(variable.read()):
                    variables[key] = variable
        self.variables: list[Variable] = list(variables.values())

    def digests(self) -> dict[Variable, int]:
        """Return a hash of each variable."""
        return {variable: variable.digest for variable in self.variables}

    @contextmanager
    def restored(self, variables: Sequence[Variable]) -> Iterator[None]:
        """Restore some variables at the end of the block, and what they contain."""
        values = [variable.read() for variable in variables]
        with ExitStack() as stack:
            for variable, value in zip(variables, values, strict=True):
                stack.callback(variable.write, value)
                if _is_counter(value):
                    variable.write(copy.copy(value))
            stack.enter_context(Preserve(*(value for value in values if not _is_counter(value))))
            yield


def can_restart(value: Any) -> bool:
    """Return whether a new generator like this one can be made: of a function without arguments and free variables."""
    if not isinstance(value, GeneratorType) or value.gi_frame is None:
        return False
    code = value.gi_code
    return not (code.co_argcount or code.co_kwonlyargcount or code.co_freevars)


@contextmanager
def restart_generator(variable: Variable) -> Iterator[None]:
    """Replace a generator in the block by a new one that starts at its beginning."""
    value: GeneratorType[Any, Any, Any] = variable.read()
    assert value.gi_frame is not None
    variable.write(FunctionType(value.gi_code, value.gi_frame.f_globals)())
    try:
        yield
    finally:
        variable.write(value)


def _known_objects(setup: Setup) -> Iterator[Any]:
    """Yield the objects that Preserve restores already."""
    yield from setup.mutable_objects
    yield from setup.eager_model.modules()
    yield from (setup.train_loader, setup.val_loader)
    for loader in (setup.train_loader, setup.val_loader):
        yield getattr(loader, "dataset", None)
    yield from setup.eager_model.parameters()
    yield from setup.eager_model.buffers()


def _has_state(value: Any) -> bool:
    """Return whether a value can hold state that is worth restoring: no code, no data set, not large."""
    if isinstance(value, _NO_STATE) or (callable(value) and stateful_callable(value) is None):
        return False
    if isinstance(value, (Tensor, np.ndarray)):
        return value.nbytes <= _MAX_BYTES
    return not (isinstance(value, (list, dict, set, tuple)) and len(value) > _MAX_ITEMS)


def _user_functions(objects: Iterable[Any]) -> Iterator[FunctionType]:
    """Yield the user's functions that some objects consist of, and those that they call by name."""
    queue, seen = list(objects), set[int]()
    while queue:
        item = queue.pop(0)
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, FunctionType):
            if is_user_code(item.__code__.co_filename):
                yield item
                queue += [variable.read() for _, variable in _variables(item)]
                queue += [cell.cell_contents for cell in item.__closure__ or () if _is_filled(cell)]
        elif isinstance(item, type):
            queue += _methods(item)
        elif isinstance(item, (MethodType, partial)):
            queue.append(getattr(item, "__func__", None) or getattr(item, "func", None))
        elif hasattr(item, "__wrapped__"):
            queue.append(item.__wrapped__)
        elif not isinstance(item, (str, ModuleType)):
            queue.append(type(item))
            queue += _inner_callables(item)


def _inner_callables(item: Any) -> list[Any]:
    """Return the callable attributes of an object, and those in a list of transforms."""
    attributes = list(vars(item).values()) if hasattr(item, "__dict__") else []
    lists = [attribute for attribute in attributes if isinstance(attribute, (list, tuple)) and len(attribute) < 100]
    return [value for value in [*attributes, *(part for parts in lists for part in parts)] if callable(value)]


def _methods(owner: type) -> list[Any]:
    """Return the functions of a class and its bases."""
    values = [value for base in owner.__mro__ if base.__module__ != "builtins" for value in vars(base).values()]
    unwrapped = (inspect.unwrap(getattr(value, "__func__", getattr(value, "fget", value) or value)) for value in values)
    return [
        value for value in unwrapped if isinstance(value, FunctionType) and is_user_code(value.__code__.co_filename)
    ]


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _variables(function: FunctionType) -> Iterator[tuple[Any, Variable]]:
    """Yield the variables that a function refers to, with the identity of each."""
    if not is_user_code(function.__code__.co_filename):
        return
    namespace, names = function.__globals__, _names(function.__code__)
    for name in names:
        if name in namespace:
            value = namespace[name]
            yield (id(namespace), name), _item_variable(name, namespace, function)
            if isinstance(value, ModuleType) and _is_user_module(value):
                inner = vars(value)
                for attribute in names:
                    if attribute in inner:
                        label = f"{name}.{attribute}"
                        yield (id(inner), attribute), _item_variable(label, inner, function, attribute)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if _is_filled(cell) and name != "__class__":
            yield id(cell), Variable(name, partial(getattr, cell, "cell_contents"),
                                     partial(setattr, cell, "cell_contents"), function)  # fmt: skip
    for number, value in enumerate(function.__defaults__ or ()):
        if isinstance(value, (list, dict, set, *GENERATOR_TYPES)):
            name = inspect.getfullargspec(function).args[-len(function.__defaults__ or ()) :][number]
            yield id(value), Variable(name, partial(_same, value), _ignore, function)
    yield from _class_variables(function)


def _is_user_module(module: ModuleType) -> bool:
    return module.__name__ not in sys.builtin_module_names and is_user_code(getattr(module, "__file__", None) or "/")


def _class_variables(function: FunctionType) -> Iterator[tuple[Any, Variable]]:
    """Yield the attributes of the class that a method belongs to."""
    owner: Any = function.__globals__.get(function.__qualname__.partition(".")[0])
    for part in function.__qualname__.split(".")[1:-1]:
        owner = getattr(owner, part, None)
    if not isinstance(owner, type) or "." not in function.__qualname__:
        return
    for name, value in list(vars(owner).items()):
        if not name.startswith("__") and not callable(value) and not hasattr(value, "__get__"):
            yield (id(owner), name), Variable(f"{owner.__name__}.{name}", partial(vars(owner).get, name),
                                              partial(setattr, owner, name), function)  # fmt: skip


def _item_variable(label: str, namespace: dict[str, Any], user: FunctionType, key: str = "") -> Variable:
    key = key or label
    return Variable(label, partial(namespace.get, key), partial(namespace.__setitem__, key), user)


def _same(value: Any) -> Any:
    return value


def _ignore(_: Any) -> None:
    """Ignore a new value of what cannot be bound again, such as a default argument."""


def _names(code: CodeType) -> list[str]:
    """Return the global names and the attributes that a code object and those inside it refer to."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return list(dict.fromkeys([*code.co_names, *(name for part in inner for name in _names(part))]))
