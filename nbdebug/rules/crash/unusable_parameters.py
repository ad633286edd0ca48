"""X1029: an optimizer gets no parameters, or what is no parameter."""

from __future__ import annotations

import ast
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.freezing import unfreeze
from nbdebug.crashes.inputs import assigned_value
from nbdebug.finding import Edit
from nbdebug.formatting import join_names
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.assignments import covering_statement, find_assignments
from nbdebug.source.edits import node_text, replace_node, wrap_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import enclosing_scope


@crash_rule("X1029")
def unusable_parameters(crash: Crash) -> CrashCause | None:
    """An optimizer is created with nothing to train.

    ## What it does
    Reads what the optimizer was given: an empty list, a tensor, a module, or tensors that are no leaves.

    ## Why it matters
    The optimizer cannot be created.

    ## How it is measured
    Exactly, by the type of the argument, and by ``requires_grad`` of the parameters in the user's frames.

    ## How to fix
    Pass ``model.parameters()``, register layers as attributes or in a ModuleList, and leave something to train.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.optim, section Constructing it.
    """
    if not any(f.is_in("optim/") and f.function == "__init__" for f in crash.torch_frames) or crash.own is None:
        return None
    given, node = crash.local("params"), crash.input_node
    text = crash.text(node) if node is not None else "the argument"
    if isinstance(given, (Tensor, nn.Module)):
        template = "{}.parameters()" if isinstance(given, nn.Module) else "[{}]"
        kind = "a module" if isinstance(given, nn.Module) else "a tensor"
        message = f"The optimizer takes an iterable of parameters, such as model.parameters(); {text} is {kind}."
        own_edits = (wrap_node(crash.own.file, node, template),) if node is not None else ()
        return CrashCause(message, f"Pass {template.format(text)}, a list or an iterable.", edits=own_edits)
    if "non-leaf" in crash.message:
        message = f"The optimizer takes leaves; a tensor of {text} was computed from others (it has a grad_fn)."
        cause = (
            "Moving or computing with a tensor that requires a gradient gives a new one: call requires_grad_() last."
        )
        line, edits = _computed_leaf(crash, node)
        fix = "" if edits else "w = torch.randn(3).mul(0.1).requires_grad_()"
        return CrashCause(message, cause, fix, edits, line=line)
    if "more than one parameter group" in crash.message:
        return _twice(crash)
    if "empty parameter list" not in crash.message:
        return None
    models = [model for model in crash.models if any(True for _ in model.parameters())]
    frozen = [model for model in models if not any(p.requires_grad for p in model.parameters())]
    message = f"{text} holds no parameters, so the optimizer has nothing to train."
    if frozen:
        line, edits = unfreeze(crash)
        cause = (
            f"All parameters of {type(frozen[0]).__name__} are frozen (requires_grad=False), the new layers as well."
        )
        return CrashCause(message, cause, "" if edits else "head.requires_grad_(True)", edits, line=line)
    held = next((m for model in crash.models for m in model.modules() if _hidden(m)), None)
    if held is not None:
        name = _hidden(held)[0]
        is_mapping = isinstance(getattr(held, name), dict)
        kind, container = ("dictionary", "nn.ModuleDict") if is_mapping else ("list", "nn.ModuleList")
        cause = f"self.{name} of {type(held).__name__} is a plain {kind}, so its layers are not registered: use "
        line, edits = _register_layers(held, name)
        fix = "" if edits else f"self.{name} = {container}(self.{name})"
        return CrashCause(message, f"{cause}{container}.", fix, edits, line=line)
    cause = "The model has no registered layers, or the iterator of its parameters was used up before."
    return CrashCause(message, cause, "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)")


def _twice(crash: Crash) -> CrashCause | None:
    """Explain parameters that two groups of an optimizer hold."""
    group, groups = crash.local("param_group"), getattr(crash.local("self"), "param_groups", [])
    if not isinstance(group, dict):
        return None
    earlier = {id(parameter) for other in groups for parameter in other["params"]}
    names = {id(p): name for model in reversed(crash.models) for name, p in model.named_parameters()}
    twice = [names.get(id(p), "a tensor") for p in group["params"] if id(p) in earlier]
    message = f"{len(twice)} of {len(group['params'])} parameters of group {len(groups)} are in a group before it."
    cause = f"In two groups: {join_names(twice)}."
    prefixes = {name.partition(".")[0] for name in twice}
    fix = f"Leave the parameters of {prefixes.pop()} out of one of the two groups."
    fix = fix if not prefixes else "Leave out of one group what the other one holds."
    edits = _leave_out(crash, group, groups)
    return CrashCause(message, cause, "" if edits else fix, edits)


def _leave_out(crash: Crash, group: dict[str, Any], groups: list[dict[str, Any]]) -> tuple[Edit, ...]:
    """Return the edit of the larger of two groups that leaves out what the smaller one holds."""
    own = {id(parameter) for parameter in group["params"]}
    first = next((i for i, other in enumerate(groups) if own & {id(p) for p in other["params"]}), None)
    scope = enclosing_scope(crash.own.line) if crash.own is not None else None
    if first is None or scope is None or crash.own is None:
        return ()
    entries = [
        value
        for node in ast.walk(scope)
        if isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) > len(groups)
        for part in node.elts
        if isinstance(part, ast.Dict)
        for key, value in zip(part.keys, part.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == "params"
    ]
    if len(entries) <= len(groups):
        return ()
    pair = [(entries[first], groups[first]["params"]), (entries[len(groups)], group["params"])]
    (large, _), (small, _) = sorted(pair, key=lambda item: -len(item[1]))
    file = crash.own.file
    text = f"[p for p in {node_text(file, large)} if all(p is not other for other in {node_text(file, small)})]"
    return (replace_node(file, large, text),)


def _computed_leaf(crash: Crash, node: ast.expr | None) -> tuple[SourceLine | None, tuple[Edit, ...]]:
    """Return the assignment of a tensor that was computed from a leaf, and the edit that makes a leaf of its result."""
    parts = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]
    for part in parts:
        value = crash.value(part)
        made = assigned_value(crash, part)
        if isinstance(value, Tensor) and not value.is_leaf and made is not None and crash.own is not None:
            line = SourceLine(crash.own.file, made.lineno)
            return line, (wrap_node(crash.own.file, made, "({}).detach().requires_grad_()"),)
    return None, ()


def _register_layers(model: nn.Module, name: str) -> tuple[SourceLine | None, tuple[Edit, ...]]:
    """Return the line that assigns a plain list or dictionary of layers, and the edit that registers them."""
    for line in find_assignments(model, name):
        statement = covering_statement(line)
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            kind = "ModuleDict" if isinstance(getattr(model, name), dict) else "ModuleList"
            return line, (wrap_node(line.file, statement.value, f"nn.{kind}({{}})"),)
    return None, ()


def _hidden(model: nn.Module) -> list[str]:
    """Return the attributes of a module that hold modules in plain lists or dictionaries."""
    found = []
    for name, value in vars(model).items():
        items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        if not name.startswith("_") and any(isinstance(item, nn.Module) for item in items):
            found.append(name)
    return found


def bad() -> Setup:
    """An optimizer of no parameters."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        torch.optim.SGD([], lr=0.1)
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that runs."""
    return classifier()
