"""The names in the notebook that a setup was made from, and which of them now hold other objects."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
from torch import nn

from nbdebug.setup.attribute_paths import find_path, value_at
from nbdebug.source.references import user_frames

_MODELS = ("model", "module")
_LOADERS = ("train_loader", "val_loader", "train_dataloaders", "val_dataloaders")
_ROLES = (*_MODELS, "trainer", "optimizer", "loss_fn", *_LOADERS, "datamodule", "scheduler")
_SEVERAL = (list, tuple)


@dataclass(frozen=True)
class RebindingNotice:
    """The names that hold other objects now, by role; what that means, and what to do."""

    names: Mapping[str, str]
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem} {self.remedy}"


@dataclass
class NotebookNames:
    """The objects of a setup by role, each with the names that it had in the notebook; empty in a script.

    An object without a variable has its path, such as ``trainer.net`` or ``models["net"]``. Names that are neither are
    not followed, such as those in a function, and a name or an item that was deleted says nothing.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    classes: dict[str, tuple[str, str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, arguments: Mapping[str, Any], frame: FrameType | None) -> NotebookNames:
        """Return the names of the arguments of a Debugger that is made in ``frame``."""
        variables, used = user_variables(), _used_names(frame)
        owners = {name: value for name, value in variables.items() if name in used}
        names = {}
        for role, item in _objects(arguments):
            own_names = [name for name, value in variables.items() if value is item]
            if own_names:
                names[role] = tuple([name for name in own_names if name in used] or own_names)
            elif not role.endswith(".dataset") and (path := find_path(item, owners)):
                names[role] = (path,)
        self = cls(dict(arguments), names)
        self.classes = _user_classes(arguments[self._model_role]) if self._model_role in names else {}
        return self

    @property
    def _model_role(self) -> str:
        """The argument that is the model; a LightningModule is one of another name."""
        return next((role for role in _MODELS if role in self.names), "model")

    def current_objects(self) -> dict[str, tuple[str, Any]]:
        """Return the name and the present object of each role whose names all hold other objects."""
        variables, current = user_variables(), {}
        for role, item in _objects(self.arguments):
            paths = {path: value_at(path, variables, item) for path in self.names.get(role, ())}
            held = {path: value for path, value in paths.items() if value is not None}
            if held and all(value is not item and _replaces(role, value, item) for value in held.values()):
                current[role] = next(iter(held.items()))
        return current

    def refreshed_arguments(self) -> dict[str, Any]:
        """Return the arguments of the Debugger with the present objects; empty without names in a notebook."""
        arguments = dict(self.arguments) if self.names else {}
        for role, (_, value) in self.current_objects().items():
            argument, _, number = role.partition(" ")
            if number:
                arguments[argument] = [*arguments[argument]]
                arguments[argument][int(number)] = value
            elif "." not in role:
                arguments[role] = value
        return arguments

    def notice(self, owner: object) -> RebindingNotice | None:
        """Return what to say before a tool of ``owner``, a Debugger, runs; None if its objects are the present ones."""
        current = {role: (name, value) for role, (name, value) in self.current_objects().items()}
        current = {role: pair for role, pair in current.items() if not _belongs_to_other(owner, pair[1])}
        own_name = variable_name(owner) or "the Debugger"
        names = {role: name for role, (name, _) in current.items()}
        own = {role: name for role, name in names.items() if role.partition(" ")[0] in _ROLES}
        if own:
            texts = list(dict.fromkeys(own.values()))
            verb, noun = ("holds another object", "the one") if len(texts) == 1 else ("hold other objects", "those")
            return RebindingNotice(
                names,
                f"{_enumerate(texts)} now {verb} than {noun} that {own_name} was made from, so this is about the "
                f"earlier one{'s' * (len(texts) > 1)}.",
                f"Run {own_name}.refresh(), or the cell that makes {own_name}.",
            )
        if names:
            (role, name), *_ = names.items()
            loader = self.names.get(role.partition(".")[0], (role.partition(".")[0],))[0]
            return RebindingNotice(
                names,
                f"{name} now holds another dataset than that of {loader}, so this is about the earlier one.",
                f"Make {loader} again, then run {own_name}.refresh().",
            )
        return self._class_notice(own_name)

    def _class_notice(self, own_name: str) -> RebindingNotice | None:
        """Return a notice if a class of the model was defined again after the model was made."""
        model, variables = self.arguments.get(self._model_role), user_variables()
        for path, (class_name, file, initializer) in self.classes.items():
            try:
                kind = type(model.get_submodule(path) if isinstance(model, nn.Module) else None)
            except AttributeError:  # this part of the model was removed
                continue
            present = variables.get(class_name) if file == "__main__" else kind
            is_changed = isinstance(present, type) and _method_codes(present) != _method_codes(kind)
            if is_changed or _method_codes(kind).get("__init__") != initializer:  # autoreload changes a class in place
                name = self.names[self._model_role][0]
                return RebindingNotice(
                    {},
                    f"The class {class_name} was defined again after {name} was made, so {name} is of the earlier one.",
                    f"Make {name} again, then run {own_name}.refresh().",
                )
        return None


def _objects(arguments: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield the objects whose names are followed, with their roles."""
    for role in _ROLES:
        value = arguments.get(role)
        if isinstance(value, _SEVERAL):
            yield from ((f"{role} {number}", item) for number, item in enumerate(value))
        elif value is not None:
            yield role, value
        dataset = getattr(value, "dataset", None)
        if role in _LOADERS and dataset is not None:
            yield f"{role}.dataset", dataset


def _replaces(role: str, value: object, item: object) -> bool:
    """Return whether an object takes the place of an earlier one, rather than that its name serves another purpose."""
    if role in _MODELS:
        return isinstance(value, nn.Module)
    if role.startswith("optimizer"):
        return isinstance(value, torch.optim.Optimizer) or type(value) is type(item)
    if role == "loss_fn":
        return callable(value)
    if role.partition(" ")[0] in _LOADERS:
        return type(value) is type(item) and type(_dataset(value)) is type(_dataset(item))
    if role.endswith(".dataset"):
        return type(value) is type(item) and _length(value) == _length(item)
    return type(value) is type(item)


def _dataset(loader: object) -> object:
    return getattr(loader, "dataset", None)


def _length(value: Any) -> int:
    try:
        return len(value)
    except (TypeError, NotImplementedError):
        return -1


def _belongs_to_other(owner: object, value: object) -> bool:
    """Return whether another Debugger of the notebook was made from an object; ``owner`` is then kept on purpose."""
    others = [item for item in user_variables().values() if type(item) is type(owner) and item is not owner]
    return any(value is item for other in others for _, item in _objects(other.notebook_names.arguments))  # type: ignore[attr-defined]


def variable_name(value: object) -> str | None:
    """Return the first variable of the notebook that holds an object; None in a script."""
    return next((name for name, held in user_variables().items() if held is value), None)


def user_variables() -> dict[str, Any]:
    """Return the variables of the notebook without those of IPython; none in a script."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    hidden = getattr(shell, "user_ns_hidden", {})
    variables = dict(getattr(shell, "user_ns", {}))
    return {name: value for name, value in variables.items() if not name.startswith("_") and name not in hidden}


def _used_names(frame: FrameType | None) -> set[str]:
    """Return the global names in the cell that makes a Debugger."""
    return {name for user_frame in user_frames(frame) for name in user_frame.f_code.co_names}


def _user_classes(model: nn.Module) -> dict[str, tuple[str, str, Any]]:
    """Return the classes of the modules that are not part of PyTorch by path: name, module and initializer."""
    kinds = {path: type(module) for path, module in model.named_modules()}
    return {
        path: (kind.__name__, kind.__module__, _method_codes(kind).get("__init__"))
        for path, kind in kinds.items()
        if kind.__module__.split(".")[0] != "torch"
    }


def _method_codes(kind: type) -> dict[str, Any]:
    """Return what the methods of a class do, to compare it with another definition of the class."""
    return {name: _code_content(item.__code__) for name, item in vars(kind).items() if isinstance(item, FunctionType)}


def _code_content(code: CodeType) -> tuple[Any, ...]:
    """Return the instructions, names and constants of a function, without its place in a file."""
    constants = (_code_content(item) if isinstance(item, CodeType) else repr(item) for item in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, tuple(constants)


def _enumerate(texts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))
