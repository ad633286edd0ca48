"""X1031: the tensors of an operation are on different devices."""

from __future__ import annotations

import ast
from collections import Counter

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.creations import find_layer_creation, set_argument
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.frames import CrashFrame
from nbdebug.crashes.inputs import assigned_value_in, outermost_place
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.assignments import covering_statement, find_assignments
from nbdebug.source.edits import append_argument, node_text, replace_node, wrap_node
from nbdebug.source.search import call_name, syntax_tree
from nbdebug.tensors.pytree import tree_tensors

_CREATING = {"zeros", "ones", "randn", "rand", "arange", "full", "eye", "linspace", "tensor", "randint", "empty"} | {
    *("randperm", "tril", "triu", "hann_window")
}


@crash_rule("X1031")
def devices_differ(crash: Crash) -> CrashCause | None:
    """An operation gets tensors of different devices.

    ## What it does
    Reads the devices of the operands and of the parameters of the layer, and names the tensor that was left behind.

    ## Why it matters
    The operation cannot run.

    ## How it is measured
    Exactly, by the devices.

    ## How to fix
    Move the tensor where it is made, or register it (a buffer, a ModuleList), so that ``model.to(device)`` moves it.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.nn.Module.to and register_buffer.
    """
    if "device" not in crash.message.lower() or crash.own is None:
        return None
    operands = _operands(crash)
    devices = Counter(value.device for _, value in operands)
    if len(devices) < 2:
        return None
    votes = _weigh_devices(crash)
    main = max(devices, key=lambda device: (votes[device], device.type != "cpu", devices[device]))
    name, stray = next((n, v) for n, v in operands if v.device != main)
    others = ", ".join(f"{n} on {v.device}" for n, v in operands if v.device == main)
    message = f"{name} is on {stray.device} ({describe_tensor(stray)}), and {others}."
    layer = crash.layer
    hidden = _unregistered(crash, layer)
    if hidden is not None:
        return _list_of_modules(crash, hidden, message)
    path = crash.path(layer)
    cause = f"{name} was left behind on {stray.device}: move it to the device of the others where it is made."
    edits = _move(crash, stray, main)
    fix = f"{name} = {name}.to({str(main)!r})"
    return CrashCause(message, cause, "" if edits else fix, edits, module=path)


def _weigh_devices(crash: Crash) -> Counter[torch.device]:
    """Return the weight of each device, by the tensors and parameters on it.

    A model that was moved to an accelerator counts more than the tensors of the frames, and these more than a model on
    the CPU, where every model is made.
    """
    tensors = {id(v): v for frame in crash.user_frames() for v in frame.variables.values() if isinstance(v, Tensor)}
    counts = Counter(value.device for value in tensors.values())
    votes = Counter({device: min(count, 2) for device, count in counts.items()})
    parameters = Counter(p.device for p in crash.root.parameters()) if crash.root is not None else Counter()
    for device, _ in parameters.most_common(1):
        votes[device] += 1 if device.type == "cpu" else 3
    return votes


def _operands(crash: Crash) -> list[tuple[str, Tensor]]:
    # What had to be computed is on the meta device, wherever the operands are.
    stored = [(n, v) for n, v in crash.tensors if isinstance(n, (ast.Name, ast.Attribute))]
    operands: list[tuple[str, Tensor]] = [(crash.text(n), v) for n, v in stored]
    operands += [(crash.text(n), torch.empty(0)) for n in _creations(crash)]
    containers = [(n, v) for n, v in crash.operands if isinstance(v, (list, tuple, dict))]
    operands += [(crash.text(n), part) for n, value in containers for part in tree_tensors(value)]
    layer = crash.layer
    if isinstance(layer, nn.Module):
        operands += [("the input", v) for v in tree_tensors(crash.layer_input)]
        path = crash.path(layer)
        operands += [(f"{path}.{n}" if path else n, v) for n, v in layer.named_parameters()]
    for name in ("input", "target", "weight"):
        value = crash.local(name)
        if isinstance(value, Tensor):
            operands.append((name, value))
    unique: dict[int, tuple[str, Tensor]] = {}
    for name, value in operands:
        unique.setdefault(id(value), (name, value))
    return list(unique.values())


def _creations(crash: Crash) -> list[ast.Call]:
    """Return the operands that create a tensor on the default device, the CPU."""
    calls = [node for node in crash.operand_nodes if isinstance(node, ast.Call) and call_name(node) in _CREATING]
    return [call for call in calls if not any(keyword.arg == "device" for keyword in call.keywords)]


def _unregistered(crash: Crash, layer: nn.Module | None) -> tuple[nn.Module, str] | None:
    """Return the module and the attribute that hold a layer in a plain list, where to() does not reach it."""
    for module in crash.modules:
        for name, value in vars(module).items():
            items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
            if not name.startswith("_") and layer is not None and any(item is layer for item in items):
                return module, name
    return None


def _list_of_modules(crash: Crash, hidden: tuple[nn.Module, str], message: str) -> CrashCause:
    module, name = hidden
    lines = find_assignments(module, name)
    cause = f"self.{name} is a plain list, so model.to(device) does not move its layers: use nn.ModuleList."
    for line in lines:
        tree = syntax_tree(line.file)
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Assign) and node.lineno == line.number:
                edit = wrap_node(line.file, node.value, "nn.ModuleList({})")
                return CrashCause(message, cause, edits=(edit,))
    return CrashCause(message, cause, f"self.{name} = nn.ModuleList(self.{name})")


def _move(crash: Crash, stray: Tensor, device: torch.device) -> tuple[Edit, ...]:
    """Return the edit that moves a tensor where a variable gets it, or where it is passed."""
    text = _device_text(crash, device)
    if crash.own is not None and (made := _creations(crash)) and not stray.numel():
        others = [n for n, v in crash.tensors if v.device == device and isinstance(n, (ast.Name, ast.Attribute))]
        text = f"{crash.text(others[0])}.device" if others else text
        return (append_argument(crash.own.file, made[0], f"device={text}"),)
    creation = find_layer_creation(crash, crash.layer) if isinstance(stray, nn.Parameter) else None
    if creation is not None and any(keyword.arg == "device" for keyword in creation.call.keywords):
        return (set_argument(creation, crash.layer, "device", text),)
    if module := _module_left_behind(crash, stray):
        return (wrap_node(module[0].file, module[1], f"{{}}.to({text})"),)
    if held := _owner_of_attribute(crash, stray):
        return _register_buffer(*held)
    for frame in reversed(list(crash.user_frames())):
        for name, value in frame.variables.items():
            if value is stray and (assigned := assigned_value_in(frame, ast.Name(name, ast.Load()))) is not None:
                return (_with_device(frame.file, assigned, text),)
            is_container = isinstance(value, (list, tuple, dict)) and any(part is stray for part in tree_tensors(value))
            assigned = assigned_value_in(frame, ast.Name(name, ast.Load())) if is_container else None
            if assigned is not None and (edits := _created_on(crash, frame, assigned, device)):
                return edits
    node = next((n for n, v in crash.tensors if v is stray), crash.input_node)
    place = outermost_place(crash, node)
    return (wrap_node(place[0].file, place[1], f"{{}}.to({text})"),) if place is not None else ()


def _created_on(crash: Crash, frame: CrashFrame, value: ast.expr, device: torch.device) -> tuple[Edit, ...]:
    """Return the edits that create the tensors of an expression on the device of another tensor of the function."""
    names = [k for k, v in frame.variables.items() if isinstance(v, Tensor) and v.device == device]
    text = f"{names[0]}.device" if names else _device_text(crash, device)
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call) and call_name(node) in _CREATING]
    calls = [call for call in calls if not any(keyword.arg == "device" for keyword in call.keywords)]
    if not calls:
        return (wrap_node(frame.file, value, f"tuple(part.to({text}) for part in {{}})"),)
    return tuple(append_argument(frame.file, call, f"device={text}") for call in calls)


def _with_device(file: str, value: ast.expr, text: str) -> Edit:
    """Return the edit that makes a value on a device, instead of the one that it is moved to."""
    if isinstance(value, ast.Call) and call_name(value) == "to" and len(value.args) == 1:
        return replace_node(file, value.args[0], text)
    named = [k for k in value.keywords if k.arg == "device"] if isinstance(value, ast.Call) else []
    if named:
        return replace_node(file, named[0].value, text)
    return wrap_node(file, value, f"{{}}.to({text})")


def _module_left_behind(crash: Crash, stray: Tensor) -> tuple[CrashFrame, ast.expr] | None:
    """Return where a variable gets the module that holds a parameter, if all of it is on that device."""
    for frame in crash.user_frames():
        for name, value in frame.variables.items():
            if not isinstance(value, nn.Module) or not any(p is stray for p in value.parameters()):
                continue
            assigned = assigned_value_in(frame, ast.Name(name, ast.Load()))
            if assigned is not None and {p.device for p in value.parameters()} == {stray.device}:
                return frame, assigned
    return None


def _owner_of_attribute(crash: Crash, tensor: Tensor) -> tuple[nn.Module, str] | None:
    """Return the module that holds a tensor in a plain attribute, which is no parameter and no buffer."""
    modules = [module for model in [*crash.modules, *crash.models] for module in model.modules()]
    return next(((m, k) for m in modules for k, v in vars(m).items() if v is tensor), None)


def _register_buffer(module: nn.Module, name: str) -> tuple[Edit, ...]:
    """Return the edit that registers an attribute as a buffer, which moves with the module."""
    for line in find_assignments(module, name):
        statement = covering_statement(line)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute):
            text = f'self.register_buffer("{name}", {node_text(line.file, statement.value)})'
            return (replace_node(line.file, statement, text),)
    return ()


def _device_text(crash: Crash, device: torch.device) -> str:
    """Return the user's variable of a device, or the attribute of one, else its name."""
    for frame in crash.user_frames():
        for name, value in frame.variables.items():
            if isinstance(value, (torch.device, str)) and str(value) == str(device):
                return name
            for attribute, part in getattr(value, "__dict__", {}).items() if name.isidentifier() else ():
                if isinstance(part, (torch.device, str)) and str(part) == str(device) and name != "self":
                    return f"{name}.{attribute}"
    return repr(str(device))


class _OnTwoDevices(nn.Module):
    def __init__(self, device: str) -> None:
        super().__init__()
        self.head, self.offset = nn.Linear(4, 3), torch.zeros(3, device=device)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(x)
        out = torch.add(out, self.offset)
        return out


def bad() -> Setup:
    """Weights on another device than the input."""
    return minimal_setup(_OnTwoDevices("meta"), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """All on one device."""
    return classifier()
