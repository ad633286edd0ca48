"""The user's lines that create the objects of a setup, and set their options."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CyclicLR, OneCycleLR

from nbdebug.setup.setup import Setup, optimized_parameters
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.assignments import (
    last_assignment,
    next_assignment,
)
from nbdebug.source.creation import (
    Creation,
    candidate_creations,
    creation_scope,
    empty_group,
    find_creation,
    only_creation,
)
from nbdebug.source.element_order import order_maker
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import choice_line, part_producer
from nbdebug.source.references import find_names
from nbdebug.source.scopes import Expression
from nbdebug.source.search import (
    call_name,
    call_subject,
    expression_texts,
    find_option_line,
    find_setting_line,
    find_unique_line,
    is_literal,
    matches_option,
    matches_replacement,
    search_files,
)


def find_setup_creation(
    setup: Setup, created: object, *, is_excluded: Callable[[Creation], bool] = lambda _: False
) -> Creation | None:
    """Return the call that creates an object of the setup, in the files of its objects.

    Return None if there is no object, or if it is ambiguous also without the calls that ``is_excluded`` accepts. A
    function is defined and not created: a call of something named ``function`` does not make it.
    """
    if created is None or isinstance(created, (FunctionType, BuiltinFunctionType)):
        return None
    files, frame = search_files(user_written_objects(setup)), sys._getframe(1)
    is_impossible = _impossible_creations(setup, created)
    return find_creation(created, files, frame, is_excluded=lambda call: is_excluded(call) or is_impossible(call))


def _impossible_creations(setup: Setup, created: object) -> Callable[[Creation], bool]:
    """Return the check for calls that cannot have created an object of the setup: its optimizer lacks parameters."""
    if not isinstance(created, Optimizer):
        return lambda _: False
    lacks_model, lacks_loss = _lacks_parameters(setup, created), _lacks_loss_parameters(setup, created)
    return lambda creation: (
        (lacks_model and _passes_model(setup, created, creation))
        or (lacks_loss and _passes_loss(setup, created, creation))
    )


def _lacks_parameters(setup: Setup, optimizer: Optimizer) -> bool:
    """Check whether an optimizer has not all parameters of the model."""
    optimized = set(map(id, optimized_parameters(optimizer)))
    return any(id(parameter) not in optimized for parameter in setup.eager_model.parameters())


def _lacks_loss_parameters(setup: Setup, optimizer: Optimizer) -> bool:
    """Check whether the loss is a module with parameters, none of which an optimizer has."""
    optimized = set(map(id, optimized_parameters(optimizer)))
    parameters = [*setup.loss_fn.parameters()] if isinstance(setup.loss_fn, nn.Module) else []
    return bool(parameters) and not any(id(parameter) in optimized for parameter in parameters)


def _passes_loss(setup: Setup, optimizer: Optimizer, creation: Creation) -> bool:
    """Check whether a call passes parameters of the loss, as in ``[*net.parameters(), *loss_fn.parameters()]``.

    So does one with parameters of two variables, if the optimizer has those of the model.
    """
    argument, names = creation.argument(optimizer, "params"), find_names(setup.loss_fn, sys._getframe(1))
    parts = [*ast.walk(argument)] if argument is not None else []
    owners = {name for part in parts if call_name(part) == "parameters" and (name := _owner_name(part))}
    has_model = len(owners) > 1 and not _lacks_parameters(setup, optimizer)
    is_named = any(isinstance(part, (ast.Name, ast.Attribute)) and _last_name(part) in names for part in parts)
    return has_model or is_named


def _owner_name(call: ast.AST) -> str:
    """Return the variable of which a method is called, as in ``net.parameters()``; "" if it is none."""
    function = call.func if isinstance(call, ast.Call) else None
    return str(getattr(function.value, "id", "")) if isinstance(function, ast.Attribute) else ""


def _last_name(node: ast.expr) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


def _passes_model(setup: Setup, optimizer: Optimizer, creation: Creation) -> bool:
    """Check whether a call passes all parameters of the model, as in ``net.parameters()``."""
    argument = creation.argument(optimizer, "params")
    model = call_subject(argument) if isinstance(argument, ast.Call) and call_name(argument) == "parameters" else None
    name = getattr(model, "id", getattr(model, "attr", None))
    return name is not None and name in find_names(setup.eager_model, sys._getframe(1))


def record_creating_files(setup: Setup) -> None:
    """Add the files that create the loaders and optimizers, such as those of imported modules, to the user's files."""
    frame = sys._getframe(1)
    for created in (setup.train_loader, setup.val_loader, *setup.optimizers):
        if created is None:
            continue
        files, is_excluded = search_files(user_written_objects(setup)), _impossible_creations(setup, created)
        candidates, is_imported = candidate_creations(created, files, frame, is_excluded=is_excluded)
        is_known = {candidate.file for candidate in candidates} <= setup.files
        if not is_known and (creation := only_creation(created, candidates, is_imported, frame)):
            setup.files.add(creation.file)


def call_argument(creation: Creation, created: object, argument: ast.expr) -> Expression:
    """Return an argument of the call that creates an object, in the scope of that call."""
    return Expression(creation_scope(creation, created, sys._getframe(1)), argument)


def creation_line(setup: Setup, created: object) -> SourceLine | None:
    """Return the line that creates an object of the setup; None if it is ambiguous."""
    creation = find_setup_creation(setup, created)
    return creation.line if creation else None


def only_optimizer_line(setup: Setup) -> SourceLine | None:
    """Return the line that creates the optimizer; None if there are several."""
    return creation_line(setup, setup.optimizers[0]) if len(setup.optimizers) == 1 else None


def argument_line(setup: Setup, owner: object, option: str) -> SourceLine | None:
    """Return the line of an argument in the call that creates an object, or that chooses or computes its variable."""
    argument = passed_argument(setup, owner, option)
    return (choice_line(argument) or _computing_line(argument) or argument.line) if argument else None


def passed_argument(setup: Setup, owner: object, option: str) -> Expression | None:
    """Return the argument for an option in the call that creates an object; None if the call is not known."""
    creation = find_setup_creation(setup, owner)
    argument = creation.argument(owner, option) if creation is not None else None
    return call_argument(creation, owner, argument) if creation is not None and argument is not None else None


def _computing_line(argument: Expression) -> SourceLine | None:
    """Return the line that computes what a variable holds, also in a function of the user that returns it.

    None for other arguments, and for constants: these are passed as they are.
    """
    made = part_producer(argument, None, passes_conversions=True) if isinstance(argument.node, ast.Name) else argument
    is_computed = made is not argument and isinstance(made.node, (ast.BinOp, ast.Call))
    return made.line if is_computed and not _is_number(made.node) else None


def _is_number(node: ast.expr) -> bool:
    """Check whether an expression has no variables, as ``2**-10`` or ``math.log(10.0)``: it is a constant."""
    return not any(isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) for part in ast.walk(node))


def argument_producer_line(
    setup: Setup, owner: object, option: str, may_make: Callable[[Expression], bool]
) -> SourceLine | None:
    """Return the line that makes the value of such an argument, also in a function of the user that returns it.

    Of several choices, it is that of which ``may_make`` is true.
    """
    argument = passed_argument(setup, owner, option)
    return part_producer(argument, None, may_make=may_make, passes_conversions=True).line if argument else None


def argument_order_line(setup: Setup, owner: object, option: str) -> SourceLine | None:
    """Return the line that gives the elements of such an argument their order, of several choices an unsorted one."""
    argument = passed_argument(setup, owner, option)
    return order_maker(argument).line if argument else None


def option_line(setup: Setup, owner: object, option: str, value: Any) -> SourceLine | None:
    """Return the line that sets an option of an optimizer or a scheduler to a value.

    That is its parameter group, or the only one that computes the option, the argument of the call that creates it or
    the statement that computes its variable or assigns it a constant, the entry of a dictionary that the call unpacks,
    or the call itself if it has none.
    """
    context = user_written_objects(setup)
    matches = matches_option(option, value)
    group_line = find_unique_line(lambda node: isinstance(node, ast.Dict) and matches(node), context)
    if group_line is None and len(getattr(owner, "param_groups", ())) > 1:
        group_line = find_unique_line(lambda node: {"params", option} <= _dictionary_keys(node), context)
    if group_line or (creation := find_setup_creation(setup, owner)) is None:
        return group_line or find_option_line(option, value, [owner], context)
    if argument := creation.argument(owner, option):
        expression = call_argument(creation, owner, argument)
        has_value = partial(_has_value, value)
        producer = part_producer(expression, None, enters=lambda _: False, may_make=has_value)
        if has_value(producer):
            return producer.line
        setting = getattr(argument, "attr", getattr(getattr(argument, "slice", None), "value", ""))
        setting_line = find_setting_line(setting, value, context) if isinstance(setting, str) else None
        return setting_line or _computing_line(expression) or SourceLine(creation.file, argument.lineno)
    entry_line = find_setting_line(option, value, context) if creation.unpacks_arguments else None
    return entry_line or creation.line


def _has_value(value: Any, expression: Expression) -> bool:
    return is_literal(expression.node, value)


def _dictionary_keys(node: ast.AST) -> set[Any]:
    """Return the constant keys of a dictionary in the source; empty for other nodes."""
    keys = node.keys if isinstance(node, ast.Dict) else []
    return {key.value for key in keys if isinstance(key, ast.Constant)}


def parameters_line(setup: Setup, optimizer: object) -> SourceLine | None:
    """Return the line that makes the parameters of an optimizer: variables and functions of the user are followed.

    If one of its groups is empty, that is the line that makes the parameters of this group.
    """
    creation = find_setup_creation(setup, optimizer)
    argument = creation.argument(optimizer, "params") if creation else None
    if creation is None or argument is None:
        return creation.line if creation else None
    argument = empty_group(argument, optimizer) or argument
    producer = part_producer(call_argument(creation, optimizer, argument), None)
    name = producer.node.id if isinstance(producer.node, ast.Name) else ""
    return last_assignment(producer.line, name, changes=False) or producer.line


def replacement_line(setup: Setup, optimizer: Any, module: str, parameter: str) -> SourceLine | None:
    """Return the line that replaced the model, or a part of it, after the optimizer had been created.

    That is the only assignment from outside to an attribute with the name of the module or of the parameter, else the
    next one to the variable whose parameters the optimizer was created with.
    """
    context = user_written_objects(setup)
    for attribute in (module.rpartition(".")[2], parameter.rpartition(".")[2]):
        if line := find_unique_line(matches_replacement(attribute), context):
            return line
    creation = find_setup_creation(setup, optimizer)
    argument = creation.argument(optimizer, "params") if creation else None
    return next_assignment(creation.line, expression_texts(argument)) if creation and argument else None


def learning_rate_line(setup: Setup, rate: float) -> SourceLine | None:
    """Return the line that sets the highest learning rate: that of the optimizer, or of a scheduler with its own."""
    if isinstance(setup.scheduler, (OneCycleLR, CyclicLR)):
        return option_line(setup, setup.scheduler, "max_lr", rate)
    if not setup.optimizers:
        return None
    return changed_rate_line(setup, rate) or option_line(setup, setup.optimizers[0], "lr", rate)


def changed_rate_line(setup: Setup, rate: float) -> SourceLine | None:
    """Return the line that gave an existing optimizer its rate: it loads a state, or sets ``group["lr"]``.

    None if the optimizer was created with this rate, or a scheduler sets it. ``defaults`` of an optimizer keeps the
    rate of its constructor, also when a state is loaded.
    """
    created = [float(optimizer.defaults.get("lr", rate)) for optimizer in setup.optimizers]
    if setup.schedulers or any(math.isclose(rate, value, rel_tol=0.01) for value in created):
        return None
    return state_loading_line(setup, setup.optimizers[0]) or rate_write_line(setup)


def rate_write_line(setup: Setup) -> SourceLine | None:
    """Return the only line that sets ``group["lr"]``."""
    return find_unique_line(_writes_rate, user_written_objects(setup))


def state_loading_line(setup: Setup, loaded: object) -> SourceLine | None:
    """Return the only line that loads the state of an optimizer or a scheduler, or may do so: its owner is no variable.

    The owner is a variable or attribute with one of the names of ``loaded``.
    """
    creation = find_setup_creation(setup, loaded)
    names = (creation.names if creation else frozenset()) | find_names(loaded, sys._getframe(1))

    def loads_state(node: ast.AST) -> bool:
        owner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        is_owner = getattr(owner, "attr", getattr(owner, "id", "")) in names
        return is_owner and call_name(node) == "load_state_dict"

    def may_load_state(node: ast.AST) -> bool:
        is_item = isinstance(node, ast.Call) and isinstance(
            getattr(node.func, "value", None), (ast.Subscript, ast.Call)
        )
        return is_item and call_name(node) == "load_state_dict"

    context = user_written_objects(setup)
    return find_unique_line(loads_state, context) or find_unique_line(may_load_state, context)


def _writes_rate(node: ast.AST) -> bool:
    is_store = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    return is_store and isinstance(node, ast.Subscript) and getattr(node.slice, "value", None) == "lr"
