"""O503: no parameter group contains a trainable parameter."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TypeGuard

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding, RelatedLine, format_module
from nbdebug.formatting import join_names
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.conclusions import parameter_not_updated
from nbdebug.measurements.parameter_coverage import ParameterEntry, common_parent, format_names, largest_part
from nbdebug.measurements.replaced_parts import ReplacedPart, find_replaced_part
from nbdebug.rule_engine.loop_edits import name_at
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rule_engine.statement_edits import move_before_in_block
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.setup.attribute_paths import member_code
from nbdebug.setup.losses import own_parameters
from nbdebug.setup.module_lines import module_line
from nbdebug.setup.optimizer_code import optimizer_code
from nbdebug.setup.setup import optimized_parameters
from nbdebug.setup.source_lines import creation_line, find_setup_creation, only_optimizer_line, parameters_line
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.creation import Creation
from nbdebug.source.edits import node_text, replace_node
from nbdebug.source.location import SourceLine, get_location, get_related_lines
from nbdebug.source.search import (
    call_arguments,
    call_name,
    file_nodes,
    find_unique_line,
    matches_replacement,
    may_assign,
    search_files,
    syntax_tree,
)

_MAX_MODULES = 3
_CREATED = "the optimizer is created here"
_CONSEQUENCES = ("G409", "G414", "T601", "T606", "T607", "T608", "T610", "M314", "O502", "T614")
_ADD_MISSING = (
    "held = {id(p) for group in optimizer.param_groups for p in group['params']}\n"
    "optimizer.add_param_group({'params': [p for p in model.parameters() if p.requires_grad and id(p) not in held]})"
)
_LIST_OF_PARAMETERS = (
    "part = [p for p in part_of_the_model.parameters() if p.requires_grad]   # a list can be read twice"
)
_PARAMETRIZING_CALLS = {"weight_norm", "spectral_norm", "orthogonal", "register_parametrization"}  # replace weights


@rule("O503", "error", origin="parameters", asked_again=True)
def parameter_not_optimized(
    setup: Setup,
    parameters: list[ParameterEntry],
    optimizers: tuple[torch.optim.Optimizer, ...],
    loop: LoopSummary | NotChecked,
) -> Iterator[Finding]:
    """A trainable parameter is in no parameter group.

    ## What it does
    Compares, by identity, the parameters that require a gradient with those that the optimizers hold. Tied parameters
    count once; several optimizers count together. Parameters of the loss itself are checked in the same way. In your
    own loop, it finds parameters that had a gradient, did not change, and that no optimizer of the program holds, and
    those that were unfrozen or added to the model while it ran. It also finds tensors that the loss depends on and no
    module holds, such as learned weights of its terms. Tensors that the loop changes, or computes a gradient of by
    ``torch.autograd.grad``, are not reported.

    ## Why it matters
    Its gradient is computed at every step and never used: the layer keeps its initial weights, while the loss still
    decreases because the other layers learn.

    ## How it is measured
    Exactly: by the identity of the tensors.

    ## How to fix
    Pass all parameters of the model to the optimizer, after the last layer was added or replaced.

    ## When to ignore
    When a part is meant to stay fixed: set ``requires_grad_(False)``, which also saves computing its gradient.

    ## References
    Documentation of torch.optim: an optimizer updates the parameters of the groups it was created with.
    """
    missing = [entry for entry in parameters if entry.parameter.requires_grad and not entry.groups]
    loss_parameters = _unoptimized_loss_parameters(setup, optimizers)
    optimizer_count, tensors = len(optimizers), tuple[str, ...]()
    if isinstance(loop, LoopSummary) and loop.backward_passes:
        uncovered = loop.uncovered_parameters
        missing = [
            entry for entry in parameters if entry.parameter.requires_grad and entry.name in uncovered.never_held
        ]
        loss_parameters = [name for name in loss_parameters if name in uncovered.of_loss]
        optimizer_count, tensors = max(optimizer_count, uncovered.optimizers), uncovered.tensors_of_loss
        if uncovered.unfrozen:
            yield _unfrozen_finding(setup, uncovered.unfrozen, parameters)
        if uncovered.added:
            yield _added_finding(setup, uncovered.added)
    for module, entries in _by_module(missing, parameters):
        if (replaced := find_replaced_part(setup, module, entries)) is not None:
            yield _replaced_part_finding(setup, module, entries, replaced)
            continue
        values = sum(entry.parameter.numel() for entry in entries)
        line, related = _place(setup, module, entries[0])
        yield Finding(
            message=f"No parameter group contains {format_names(entries)} ({values:,} trainable values), "
            "so no step updates them.",
            where=get_location(line, module, entries[0].name),
            related=related,
            cause=_describe_cause(optimizers[0])
            if optimizer_count == 1 or _find_empty_group(optimizers[0]) is not None
            else "None of the optimizers was created from this part.",
            fix=_LIST_OF_PARAMETERS
            if _find_empty_group(optimizers[0]) is not None
            else f"{recreate_optimizer_fix(optimizers[0])}   # when the model is complete"
            if optimizer_count == 1
            else _further_optimizer(optimizers[0], module),
            setup_fix=_ADD_MISSING if len(optimizers) == 1 else "",
            edits=_all_parameters_edits(setup, [entry for entry in parameters if entry not in missing], missing),
            evidence={"parameters": [entry.name for entry in entries], "values": values},
            explains=_CONSEQUENCES,
            assumes=tuple(parameter_not_updated(entry.name) for entry in entries),
        )
    if loss_parameters:
        yield Finding(
            message=f"No parameter group contains {', '.join(loss_parameters)} of the loss, so no step updates them.",
            where=get_location(_last_parameters_line(setup, optimizers), None, loss_parameters[0]),
            related=get_related_lines((creation_line(setup, setup.loss_fn), "the loss is created here")),
            cause="The optimizer was created from the model, but the loss has its own parameters.",
            fix=f"optimizer = {optimizer_code(optimizers[0], '[*model.parameters(), *loss_fn.parameters()]')}",
            edits=_loss_parameters_edits(setup),
            evidence={"parameters": loss_parameters},
        )
    if tensors:
        yield _loss_tensors_finding(setup, optimizers, tensors)


def _loss_tensors_finding(
    setup: Setup, optimizers: tuple[torch.optim.Optimizer, ...], names: tuple[str, ...]
) -> Finding:
    """Report tensors of the user's own that the loss depends on, such as learned weights of its terms."""
    files = search_files(user_written_objects(setup))
    nodes = [(file, node) for file in files for node in file_nodes(syntax_tree(file))]
    assigned = {name: [(file, node) for file, node in nodes if _assigns(node, name)] for name in names}
    lines = {SourceLine(file, node.lineno) for file, node in assigned[names[0]]}
    are_variables = all(isinstance(node.targets[0], ast.Name) for places in assigned.values() for _, node in places)
    subject = "a tensor" if len(names) == 1 else "tensors"
    parameters = f"[*model.parameters(), {', '.join(names)}]"
    return Finding(
        message=f"No parameter group contains {join_names(names)}, {subject} that the loss depends on, so no step "
        f"updates {'it' if len(names) == 1 else 'them'}.",
        where=get_location(_last_parameters_line(setup, optimizers), None, names[0]),
        related=get_related_lines((lines.pop() if len(lines) == 1 else None, "the tensor is created here")),
        cause="The optimizer was created from the model, which does not hold this tensor.",
        fix=f"optimizer = {optimizer_code(optimizers[0], parameters)}"
        if are_variables and all(assigned.values())
        else f"# pass {join_names(names)} to the optimizer, too",
        evidence={"tensors": list(names)},
        aspect="tensors of the loss",
        severity="warning",
    )


def _assigns(node: ast.AST, name: str) -> TypeGuard[ast.Assign]:
    return isinstance(node, ast.Assign) and any(getattr(t, "id", getattr(t, "attr", "")) == name for t in node.targets)


def _last_parameters_line(setup: Setup, optimizers: tuple[torch.optim.Optimizer, ...]) -> SourceLine | None:
    """Return the line that makes the parameters of the last optimizer of which it is known."""
    lines = (parameters_line(setup, optimizer) for optimizer in reversed(optimizers))
    return next(filter(None, lines), None)


def _replaced_part_finding(setup: Setup, module: str, entries: list[ParameterEntry], replaced: ReplacedPart) -> Finding:
    """Report a part of the model that replaced the one which the optimizer still holds."""
    line, related = replaced.creation, get_related_lines((replaced.replacement, f"{module} is replaced here"))
    if line is None:
        line, related = _place(setup, module, entries[0])
    after = f"line {replaced.replacement.present.number}" if replaced.replacement else "the line that replaces it"
    shapes = ", ".join(str(tuple(tensor.shape)) for tensor in replaced.tensors[:4])
    held = f"{len(replaced.tensors)} tensors that are" if len(replaced.tensors) > 1 else "a tensor that is"
    pronoun = "them" if len(entries) > 1 else "it"
    return Finding(
        message=f"No parameter group contains {_with_shapes(entries)}, so no step updates {pronoun}. The optimizer "
        f"holds {held} in no module any more, with shape{'s' * (len(replaced.tensors) > 1)} {shapes}.",
        where=get_location(line, module, entries[0].name),
        related=related,
        cause=f"{module} was replaced after the optimizer was created, which still holds the parameters of the old "
        "one.",
        fix=f"# create the optimizer after {after}",
        edits=move_before_in_block(replaced.replacement, replaced.creation),
        setup_fix=_ADD_MISSING if len(setup.optimizers) == 1 else "",
        evidence={
            "parameters": [entry.name for entry in entries],
            "in no module": [tuple(tensor.shape) for tensor in replaced.tensors[:8]],
        },
        explains=(*_CONSEQUENCES, "O504:foreign tensors"),
        assumes=tuple(parameter_not_updated(entry.name) for entry in entries),
    )


def _with_shapes(entries: list[ParameterEntry], limit: int = 4) -> str:
    listed = ", ".join(f"{entry.name} {tuple(entry.parameter.shape)}" for entry in entries[:limit])
    return listed + (", …" if len(entries) > limit else "")


def _unfrozen_finding(setup: Setup, names: tuple[str, ...], parameters: list[ParameterEntry]) -> Finding:
    """Report parameters that were unfrozen in a loop whose optimizer was created without them."""
    group = [entry for entry in parameters if entry.name in names]
    module = largest_part(group[0], group, parameters) if group else names[0].rpartition(".")[0]
    line = find_unique_line(_unfreezes, user_written_objects(setup))
    others = [entry for entry in parameters if entry.name not in names]
    return Finding(
        message=f"{len(names)} parameters ({join_names(names, 4)}) were unfrozen while your loop ran and have a "
        "gradient, but no parameter group contains them, so no step updates them.",
        where=get_location(line, module, names[0]),
        related=get_related_lines((only_optimizer_line(setup), _CREATED)),
        cause="The optimizer was created from the parameters that were trainable at that time.",
        fix=f"optimizer.add_param_group({{'params': list(model.get_submodule({module!r}).parameters())}})"
        "   # after unfreezing it",
        edits=_all_parameters_edits(setup, others, group),
        evidence={"parameters": names[:8]},
        explains=("G409", "G414", "T601", "T606", "T607", "T608", "T610", "M314"),
    )


def _added_finding(setup: Setup, names: tuple[str, ...]) -> Finding:
    """Report parameters that were added to the model in a loop whose optimizer was created before."""
    module = common_parent(name.rpartition(".")[0] for name in names) or names[0].rpartition(".")[0]
    attribute = next((part for part in reversed(module.split(".")) if not part.isdigit()), "")
    line = find_unique_line(_adds_to(attribute), user_written_objects(setup))
    return Finding(
        message=f"{len(names)} parameters ({join_names(names, 4)}) were added to the model while your loop ran and "
        "have a gradient, but no parameter group contains them, so no step updates them.",
        where=get_location(line, module, names[0]),
        related=get_related_lines((only_optimizer_line(setup), _CREATED)),
        cause="The optimizer was created before these layers were.",
        fix=f"optimizer.add_param_group({{'params': list(model.get_submodule({module!r}).parameters())}})"
        "   # after adding it",
        evidence={"parameters": names[:8]},
        explains=("G409", "G414", "R904", "T601", "T606", "T607", "T608", "T610", "M314", "O502", "T614"),
    )


def _adds_to(attribute: str) -> Callable[[ast.AST], bool]:
    """Match an assignment to an attribute, and a call that appends to it."""

    def matches(node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            return node.attr == attribute
        return call_name(node) in ("append", "extend", "add_module", "register_module") and any(
            getattr(child, "attr", getattr(child, "value", "")) == attribute for child in ast.walk(node)
        )

    return matches


def _unfreezes(node: ast.AST) -> bool:
    """Match ``requires_grad_()``, and ``requires_grad`` that is set to anything but False."""
    if isinstance(node, ast.Call):
        values = call_arguments(node)
        return call_name(node) == "requires_grad_" and all(getattr(value, "value", None) is True for value in values)
    return isinstance(node, ast.Assign) and may_assign(node, "requires_grad", True)


def _find_empty_group(optimizer: torch.optim.Optimizer) -> int | None:
    """Return the number of the first parameter group without parameters; None if there is none."""
    return next((number for number, group in enumerate(optimizer.param_groups) if not group["params"]), None)


def _describe_cause(optimizer: torch.optim.Optimizer) -> str:
    if (empty := _find_empty_group(optimizer)) is not None:
        return f"Parameter group {empty} is empty: an iterator over its parameters was used up before."
    return "The optimizer was created from a part of the model, or before this part was added."


def _place(setup: Setup, module: str, first: ParameterEntry) -> tuple[SourceLine | None, tuple[RelatedLine, ...]]:
    """Return the line that assigned a module from outside the model, and the line that creates the only optimizer.

    Without the first, those that make the parameters of the optimizer and the module.
    """
    context = user_written_objects(setup)
    line = find_unique_line(matches_replacement(module.rpartition(".")[2]), context)
    if line is None and ".parametrizations." in f".{first.name}":
        line = find_unique_line(lambda node: call_name(node) in _PARAMETRIZING_CALLS, context)
    if line is not None:
        return line, get_related_lines((only_optimizer_line(setup), _CREATED))
    optimizer = setup.optimizers[0] if len(setup.optimizers) == 1 else None
    line = parameters_line(setup, optimizer) if optimizer is not None else None
    was_passed = optimizer is not None and _find_empty_group(optimizer) is not None  # by an iterator without parameters
    created = None if was_passed else module_line(setup, module)
    return line, get_related_lines((created, f"{format_module(module)} is created here"))


def _unoptimized_loss_parameters(setup: Setup, optimizers: tuple[torch.optim.Optimizer, ...]) -> list[str]:
    """The trainable parameters of the loss itself, not of networks inside it, that no optimizer holds."""
    optimized_ids = set(map(id, optimized_parameters(*optimizers)))
    return [name for name, p in own_parameters(setup.loss_fn) if p.requires_grad and id(p) not in optimized_ids]


def recreate_optimizer_fix(optimizer: torch.optim.Optimizer) -> str:
    """The line that creates an optimizer again, with the whole model."""
    return f"optimizer = {optimizer_code(optimizer, 'model.parameters()')}"


def _all_parameters_edits(
    setup: Setup, others: list[ParameterEntry], missing: list[ParameterEntry]
) -> tuple[Edit, ...]:
    """Return the change of the parameters that the only optimizer is created with into those of the whole model.

    Return () if that would change settings of groups, or train parameters that should be frozen.
    """
    creation = _creation_with_one_group(setup)
    is_whole = all(entry.groups or not entry.parameter.requires_grad for entry in others)
    if creation is None or not is_whole or not missing:
        return ()
    first = creation.call.args[0]
    name = name_at(setup, creation.line, setup.model)
    code = f"{name}.parameters()"
    return (replace_node(creation.file, first, code),) if name and ast.unparse(first) != code else ()


def _loss_parameters_edits(setup: Setup) -> tuple[Edit, ...]:
    """Return the addition of the parameters of the loss to those that the only optimizer is created with.

    Return () if the line of the optimizer cannot use the loss.
    """
    creation, loss_creation = _creation_with_one_group(setup), find_setup_creation(setup, setup.loss_fn)
    if creation is None or loss_creation is None or loss_creation.file != creation.file:
        return ()
    name = name_at(setup, creation.line, setup.loss_fn)
    if name is None or loss_creation.line.number >= creation.line.number:
        return ()
    first = creation.call.args[0]
    parameters = first.args[0] if call_name(first) == "list" and isinstance(first, ast.Call) and first.args else first
    text = f"[*{node_text(creation.file, parameters)}, *{name}.parameters()]"
    return (replace_node(creation.file, first, text),)


def _creation_with_one_group(setup: Setup) -> Creation | None:
    """Return the call that creates the only optimizer from the parameters of one group; None for any other."""
    optimizer = setup.optimizers[0] if len(setup.optimizers) == 1 else None
    creation = find_setup_creation(setup, optimizer)
    if optimizer is None or creation is None or len(optimizer.param_groups) > 1 or not creation.call.args:
        return None
    has_groups = any(isinstance(node, ast.Dict) for node in ast.walk(creation.call.args[0]))
    has_names = "param_names" in optimizer.param_groups[0]
    return None if has_groups or has_names else creation


def _further_optimizer(optimizer: torch.optim.Optimizer, module: str) -> str:
    """Say how to train a part of the model that none of several optimizers holds."""
    parameters = f"{member_code(module)}.parameters()"
    return (
        f"Add {parameters} to one of the optimizers, or create another one, for example "
        f"{optimizer_code(optimizer, parameters)}, and step it, too."
    )


def _by_module(
    entries: list[ParameterEntry], parameters: list[ParameterEntry]
) -> list[tuple[str, list[ParameterEntry]]]:
    """The entries by the largest submodule that has only such parameters; as one group if there are many."""
    groups: dict[str, list[ParameterEntry]] = {}
    for entry in entries:
        groups.setdefault(largest_part(entry, entries, parameters), []).append(entry)
    if len(groups) <= _MAX_MODULES:
        return list(groups.items())
    return [(common_parent(groups), entries)]


def bad() -> Setup:
    """An optimizer that holds only the head."""
    model = network(3)
    return minimal_setup(
        model, *points(), torch.nn.CrossEntropyLoss(), optimizers=(torch.optim.SGD(model[2].parameters(), lr=0.1),)
    )


def good() -> Setup:
    """An optimizer that holds the whole model."""
    return classifier()
