"""R905: a saved copy shares memory with the live model, or lacks its buffers."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

import torch
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding, Location
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.replaced_weights import ReplacedWeights
from nbdebug.loop_monitor.restored_weights import UndoneTraining
from nbdebug.loop_monitor.weight_aliases import MIN_AVERAGED_STEPS, MIN_COLLECTED_SETS, WeightAlias
from nbdebug.loop_monitor.weight_copies import StateDictLoads, WeightCopy
from nbdebug.measurements.weight_copies import StateCopy
from nbdebug.rule_engine.expression_edits import expressions_at
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.rules.undone_updates import undone_updates_finding
from nbdebug.setup import Setup
from nbdebug.setup.notebook_names import user_variables
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import describe_edits, insert_after_statement, replace_node, wrap_node
from nbdebug.source.imports import imported_function, insert_import
from nbdebug.source.location import SourceLine, get_location, get_related_lines
from nbdebug.source.search import call_name, choice_branches, enclosing_scope, innermost_loop, syntax_tree
from nbdebug.source.stored_weights import live_tensors

_ROUNDS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_CLONES = "{{name: tensor.clone() for name, tensor in {}.items()}}"


@rule("R905", "error")
def aliased_state(state_copies: list[StateCopy] | NotChecked, loop: LoopSummary | NotChecked) -> Iterator[Finding]:
    """A saved copy of the weights is not a copy: it shares memory with the live model.

    ## What it does
    Looks for states and modules with the names of all parameters of the model: in ``extra_state``, in attributes of the
    model, and among the variables of the notebook. Compares the memory addresses of their tensors. In a loop that is
    watched, it also checks each state that is loaded into the model or a part of it, copies of the model among the
    local variables of the functions that run the loop, parts of the model that are copies of other parts, copies of a
    parameter into itself, and what the loop does between steps with tensors that share memory with all parameters.

    ## Why it matters
    ``model.state_dict()`` returns the live tensors themselves. Saved as the best weights, or as the start of each fold,
    they change with every step, and restoring them has no effect. An average or a target network that shares memory
    never differs from the model.

    ## How it is measured
    Exactly: by memory address. A variable of the notebook may serve for inspection only, so it is a note; so is a copy
    that contains all parameters but not the running statistics. A copy whose weights change without gradients while its
    running statistics are constant and those of the model are not is a warning, except for torch's own
    ``AveragedModel`` and if ``update_bn`` is called.

    So is an average of the weights that two or more evaluations leave in the model: of up to 128 compared weights,
    nearly all differ from those after the last step and lie in the range of their earlier values. They are not those
    of an earlier evaluation, and the next training pass uses them. In the first 40 steps, nothing else may change the
    weights between two steps.

    An average that the loop writes to the model after each step is a warning if less than 5% of each update remains
    in the compared weights at the next pass, with a cosine above 0.8, in all compared steps: the second to the
    41st, and at least five.

    A state that is loaded after the last step is a warning if it undoes the training: of the change of up to 512
    compared weights since the first step, less than 5% remains in it. That is so for weights from before the first
    step, and for an average that is too slow for the number of steps. It is not reported for weights that were
    evaluated, after less than two epochs, if several optimizers trained the model, and if the rate rises to the end.
    The first weights are not reported either if the loop took the state of the trained ones after the last step, or
    if it loaded the first ones after an earlier step, too: then it compares several trainings.

    Weights that the loop collects are no copies if three or more tensors come to share the memory of each parameter
    at once. A loop averages the weights with themselves if, between two steps, it reads the parameters and the tensors
    that share memory with all of them, writes to that memory, and leaves the direction of the weights as it is.
    Differences and distances are searched in the first traced step, and in what the loop does between steps: one of a
    parameter and a tensor from before that step which shares its memory is always zero.

    ## How to fix
    Copy the tensors when you save them.

    ## When to ignore
    When the state is only inspected, or is written to a file immediately; when training goes on from an average on
    purpose.

    ## References
    PyTorch tutorial on saving and loading models: state_dict() returns references, so the best state must be copied.
    """
    weight_copies = loop.weight_copies if isinstance(loop, LoopSummary) else ()
    replaced_weights = loop.replaced_weights if isinstance(loop, LoopSummary) else None
    yield from map(_stale_average_finding, weight_copies)
    undone_training = loop.undone_training if isinstance(loop, LoopSummary) else None
    if replaced_weights is not None:
        yield _replaced_finding(replaced_weights)
    if isinstance(loop, LoopSummary) and loop.undone_updates is not None:
        yield undone_updates_finding(loop.undone_updates)
    if undone_training is not None:
        yield _undone_finding(undone_training)
    if isinstance(loop, LoopSummary) and loop.state_dict_loads.live_tensor_loads:
        yield _reloaded_finding(loop.state_dict_loads)
    elif isinstance(loop, LoopSummary) and _uses_alias(loop.weight_alias):
        yield _used_alias_finding(loop.weight_alias)
    elif isinstance(loop, LoopSummary) and _collects_aliases(loop.weight_alias):
        yield _collected_finding(loop.weight_alias)
    elif not (weight_copies or replaced_weights or undone_training) and isinstance(state_copies, NotChecked):
        raise state_copies
    for state in [] if isinstance(state_copies, NotChecked) else state_copies:
        if state.shared:
            yield _alias_finding(state)
        elif state.missing:
            yield _partial_copy_finding(state)


def _reloaded_finding(reloads: StateDictLoads) -> Finding:
    """Report states that are loaded into the tensors they consist of, at the line that stores them."""
    store = _find_store(reloads.line) if reloads.line else None
    related = get_related_lines((reloads.load_line, "the state is loaded here")) if reloads.alias_line else ()
    tensors = live_tensors(reloads.line) if not reloads.alias_line else []
    clones = tuple(_clone_edit(reloads.line.file, tensor) for tensor in tensors) if reloads.line else ()
    return Finding(
        message=f"{reloads.live_tensor_loads} of {reloads.count} calls to load_state_dict received tensors that the "
        "network already holds, so nothing changed.",
        where=get_location(reloads.alias_line or _store_line(reloads.line, store), None, reloads.first_parameter),
        related=related,
        cause="The copy of the network is shallow: it holds the same parameters."
        if _shallow_copies(reloads.alias_line)
        else "Both names refer to one network: to(), an assignment and a returned argument make no copy."
        if reloads.alias_line
        else "detach(), data and state_dict() return tensors that share memory with the parameters, not copies."
        if clones
        else "state_dict() returns the tensors themselves, not copies; or the copied network is the same object.",
        fix="target = copy.deepcopy(network)"
        if reloads.alias_line
        else describe_edits(clones)
        or "best = copy.deepcopy(model.state_dict())   # or target = copy.deepcopy(network)",
        evidence={"loaded": reloads.count, "own": reloads.live_tensor_loads},
        explains=("R904", "T601", "T604", "T609"),
        edits=_copy_assigned(reloads.alias_line) or clones or _copy_edits(reloads.line, store),
    )


def _clone_edit(file: str, value: ast.expr) -> Edit:
    """Return the change of a tensor, or of a whole state, into a copy of it without gradient."""
    if call_name(value) == "state_dict":
        return _copy_edit(file, value)
    is_detached = call_name(value) == "detach" or (isinstance(value, ast.Attribute) and value.attr == "data")
    return wrap_node(file, value, f"{{}}{'' if is_detached else '.detach()'}.clone()")


def _shallow_copies(line: SourceLine | None) -> list[ast.Call]:
    """Return the calls on a line that copy a network without its parameters."""
    nodes = [node for node in expressions_at(line) if isinstance(node, ast.Call) and node.args]
    return [node for node in nodes if call_name(node) in ("copy", "Sequential")]


def _find_store(line: SourceLine) -> ast.Assign | None:
    """Return the only assignment that stores the state which a line loads; the line itself may be that one."""
    statement, tree = covering_statement(line), syntax_tree(line.file)
    if isinstance(statement, ast.Assign) and call_name(statement.value) == "state_dict":
        return statement
    loads = [node for node in ast.walk(statement) if call_name(node) == "load_state_dict"] if statement else []
    if tree is None or len(loads) != 1 or not isinstance(loads[0], ast.Call) or not loads[0].args:
        return None
    name = ast.unparse(loads[0].args[0])
    stores = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and call_name(node.value) == "state_dict"]
    stores = [node for node in stores if ast.unparse(node.targets[0]) == name]
    return stores[0] if len(stores) == 1 else None


def _store_line(line: SourceLine | None, store: ast.Assign | None) -> SourceLine | None:
    return SourceLine(line.file, store.lineno) if line and store else line


def _copy_edits(line: SourceLine | None, store: ast.Assign | None) -> tuple[Edit, ...]:
    """Return the change of what stores a state, or of the only assignment or function that keeps one.

    If the line that loads takes the state of another network, that network is the same object: it becomes a copy.
    """
    tree = syntax_tree(line.file) if line else None
    if line is None or tree is None:
        return ()
    if store is not None:
        return (_copy_edit(line.file, store.value),)
    if network := _loaded_network(line):
        return _copy_network(line.file, tree, network)
    stores = [node for node in ast.walk(tree) if isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return))]
    values = [part for node in stores for part in _stored_parts(node.value)]
    states = [value for value in values if call_name(value) == "state_dict"]
    return (_copy_edit(line.file, states[0]),) if len(states) == 1 else ()


def _loaded_network(line: SourceLine) -> str:
    """Return the attribute path of the network into which a line loads the state of another one; "" if it does not."""
    statement = covering_statement(line)
    loads = [node for node in ast.walk(statement) if call_name(node) == "load_state_dict"] if statement else []
    load = loads[0] if len(loads) == 1 else None
    if not isinstance(load, ast.Call) or not load.args or call_name(load.args[0]) != "state_dict":
        return ""
    return ast.unparse(load.func.value) if isinstance(load.func, ast.Attribute) else ""


def _copy_network(file: str, tree: ast.AST, path: str) -> tuple[Edit, ...]:
    """Return the change of the only statement that assigns a network into one that assigns a copy of it."""
    stores = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == path]
    is_copied = len(stores) != 1 or call_name(stores[0].value) == "deepcopy"
    return () if is_copied else _copy_assigned(SourceLine(file, stores[0].lineno))


def _copy_assigned(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of the assignment on a line into one that assigns a copy."""
    statement = covering_statement(line) if line else None
    shallow = [call.func for call in _shallow_copies(line)]
    if line is not None and len(shallow) == 1 and ast.unparse(shallow[0]) == "copy.copy":
        return (replace_node(line.file, shallow[0], "copy.deepcopy"),)
    if line is None or shallow or not isinstance(statement, ast.Assign):
        return ()
    value = statement.value
    shared = [branch for branch in choice_branches(value) if call_name(branch) not in ("deepcopy", "clone")]
    copied, place = shared[0] if len(shared) == 1 else value, SourceLine(line.file, statement.lineno)
    if function := _deepcopy_at(place):
        return (wrap_node(line.file, copied, f"{function}({{}})"),)
    imports = insert_import(place, "copy")
    return (*imports, wrap_node(line.file, copied, "copy.deepcopy({})")) if imports else ()


def _stored_parts(value: ast.expr | None) -> list[ast.expr]:
    """Return what a tuple, a list or a dictionary stores, or the value itself."""
    if isinstance(value, (ast.Tuple, ast.List)):
        return [part for item in value.elts for part in _stored_parts(item)]
    if isinstance(value, ast.Dict):
        return [part for item in value.values for part in _stored_parts(item)]
    return [value] if value is not None else []


def _copy_edit(file: str, value: ast.expr) -> Edit:
    """Return the change of a stored state into a copy of it."""
    function = _deepcopy_at(SourceLine(file, value.lineno))
    return wrap_node(file, value, f"{function}({{}})" if function else _CLONES)


def _clone_edits(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of the only state, or of the tensor that each round of a comprehension takes, into copies."""
    nodes = expressions_at(line)
    values = [node.value if isinstance(node, ast.DictComp) else node.elt for node in nodes if isinstance(node, _ROUNDS)]
    if line is None or len(values) > 1:
        return ()
    if values:
        value = values[0]
        is_copy = call_name(value) in ("clone", "deepcopy", "copy")
        return () if is_copy else (_clone_edit(line.file, value),)
    states = [node for node in nodes if isinstance(node, ast.Call) and call_name(node) == "state_dict"]
    return (wrap_node(line.file, states[0], _CLONES),) if len(states) == 1 else ()


def _deepcopy_at(line: SourceLine) -> str | None:
    """Return how a line can call ``copy.deepcopy``; None if no import certainly ran before it."""
    modules = [name for name, value in user_variables().items() if value is copy]
    return imported_function(line, "copy", "deepcopy", modules)


def _uses_alias(alias: WeightAlias) -> bool:
    return alias.averaged_steps >= MIN_AVERAGED_STEPS or alias.restored > 0 or alias.subtracted > 0


def _used_alias_finding(alias: WeightAlias) -> Finding:
    """Report weights that are averaged with themselves, restored from themselves or subtracted from themselves."""
    edits = _clone_edits(alias.line)
    holder = f"the tensors of {alias.name}" if alias.name else "other tensors"
    message = (
        f"The loop averages the parameters in place with {holder}, which share memory with them: the average is the "
        "model itself."
        if alias.averaged_steps >= MIN_AVERAGED_STEPS
        else f"{alias.restored} parameters were restored from {holder}, which share memory with them, so that had no "
        "effect."
    )
    if alias.subtracted:
        message = (
            f"The program computes the difference of {alias.subtracted} parameters from {holder}, which share memory "
            "with them: it is always zero."
        )
    return Finding(
        message=message,
        where=get_location(alias.line, None, alias.first_parameter),
        cause="state_dict(), p.data, p.detach() and p.cpu() return tensors that share memory with p, not copies.",
        fix=describe_edits(edits) or "Store copies of the weights: clone() each tensor.",
        edits=edits,
        evidence={
            "averaged steps": alias.averaged_steps,
            "restored": alias.restored,
            "subtracted": alias.subtracted,
        },
        explains=("R904", "T609"),
    )


def _collects_aliases(alias: WeightAlias) -> bool:
    """Check whether a line of the user's collects aliases; a model that returns its weights makes others."""
    return alias.collected >= MIN_COLLECTED_SETS and alias.line is not None


def _collected_finding(alias: WeightAlias) -> Finding:
    """Report weights of several steps that are all the live ones."""
    holder = f"{alias.name} holds" if alias.name else "The program holds"
    return Finding(
        message=f"{holder} the weights {alias.collected} times, and all of them share memory with the live model: they "
        "are equal, whenever they were taken, and their average is the model itself.",
        where=get_location(alias.line, None, alias.first_parameter),
        cause="state_dict(), p.data and p.detach() return tensors that share memory with the model, not copies.",
        fix="copy.deepcopy(model.state_dict())   # at each time",
        evidence={"sets": alias.collected, "holder": alias.name},
        explains=("R904", "T609"),
    )


def _stale_average_finding(weight_copy: WeightCopy) -> Finding:
    """Report an average of the weights whose running statistics are never updated."""
    first, more = ", ".join(weight_copy.statistics[:3]), len(weight_copy.statistics) - 3
    names = f"{first} and {more} more" if more > 0 else first
    return Finding(
        message=f"The weights of {weight_copy.name}, a copy of the model, change from step to step, but its running "
        f"statistics ({names}) do not. In eval mode, the copy normalizes with statistics that do not belong to its "
        "weights.",
        where=get_location(weight_copy.line, weight_copy.module, weight_copy.statistics[0]),
        cause="The average iterates over parameters(), which does not include the buffers.",
        fix=f"for kept, live in zip({weight_copy.name}.buffers(), model.buffers()):\n"
        "    kept.copy_(live)   # after each update",
        evidence={"copy": weight_copy.name, "statistics": list(weight_copy.statistics[:8])},
        explains=("T613", "T609", "E702", "E703", "E706", "R904"),
        severity="warning",
        edits=_copy_buffers(weight_copy.line),
    )


def _replaced_finding(replaced: ReplacedWeights) -> Finding:
    """Report averages of the weights that stay in the model after they were evaluated."""
    return Finding(
        message=f"Training went on with other weights after {replaced.count} evaluations, the first one after step "
        f"{replaced.step}: the next step changed the weights of the evaluation, not those of the step before. They lie "
        "within the range of earlier weights, as an average does. At the last of these evaluations, the relative "
        f"difference from the weights before it was {replaced.distance:.2g}.",
        where=get_location(replaced.line),
        cause="The average is copied into the model for the evaluation, and the trained weights are not put back.",
        fix="weights = copy.deepcopy(model.state_dict())   # import copy; before the average is copied into the model\n"
        "model.load_state_dict(weights)   # after the evaluation; or evaluate a copy of the model",
        evidence={"evaluations": replaced.count, "step": replaced.step, "difference": replaced.distance},
        explains=("R904", "T601", "T604", "T605", "T606", "T609", "T610", "T612", "T614", "G409", "O502", "E709"),
        severity="warning",
    )


def _undone_finding(undone: UndoneTraining) -> Finding:
    """Report weights that are loaded at the end and are nearly those from before the training."""
    if undone.share:
        loaded = "The norm of the change since the first step is "
        loaded += f"{undone.share:.2g} times as large in the loaded weights as in the trained ones."
        cause = f"The loaded weights may be a moving average that changes too slowly for {undone.steps} steps."
        decay = max(0.0, 1 - 10 / undone.steps)
        fix = f"decay = {decay:.7g}   # of the average: its time constant is then a tenth of the {undone.steps} steps"
    else:
        loaded = "The loaded weights are those from before the first step."
        cause = "These weights were stored before the training."
        fix = "best = copy.deepcopy(model.state_dict())   # after the epoch with the lowest validation loss"
    return Finding(
        message=f"After the last of {undone.steps} steps, load_state_dict replaced the trained weights. {loaded} "
        "The model therefore loses what it has learned.",
        where=get_location(undone.line),
        cause=cause,
        fix=fix,
        evidence={"steps": undone.steps, "share": undone.share},
        explains=("R904", "E709"),
        severity="warning",
    )


def _copy_buffers(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the insertion of a loop over the buffers after the loop over the parameters of two networks on a line."""
    statement = covering_statement(line) if line else None
    scope = enclosing_scope(line) if line else None
    around = innermost_loop(scope, line.number) if scope is not None and line is not None else None
    loop = statement if isinstance(statement, ast.For) else around
    calls = loop.iter.args if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) else []
    owners = [call.func.value for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)]
    if line is None or not isinstance(loop, ast.For) or len(owners) != 2 or not isinstance(loop.target, ast.Tuple):
        return ()
    if {call_name(call) for call in calls} != {"parameters"}:
        return ()
    names = [ast.unparse(target) for target in loop.target.elts]
    buffers = ", ".join(f"{ast.unparse(owner)}.buffers()" for owner in owners)
    code = f"for {', '.join(names)} in zip({buffers}):\n    {names[0]}.copy_({names[1]})"
    return (insert_after_statement(line.file, loop, code),)


def _alias_finding(state: StateCopy) -> Finding:
    return Finding(
        message=f"{len(state.shared)} of {state.count} tensors of {state.name} share memory with the live model: every "
        "step changes them too.",
        where=Location(parameter=state.shared[0]),
        cause="state_dict() and named_parameters() return the tensors themselves, not copies.",
        fix="best = copy.deepcopy(model.state_dict())",
        evidence={"state": state.name, "shared": list(state.shared[:8])},
        explains=("R904",),
        severity=None if state.is_extra_state else "note",
    )


def _partial_copy_finding(state: StateCopy) -> Finding:
    return Finding(
        message=f"{state.name} contains all parameters but lacks {len(state.missing)} running statistics: in eval mode "
        "its weights are combined with the statistics of other weights.",
        where=Location(parameter=state.missing[0]),
        cause="It was created from named_parameters(), which does not include the buffers.",
        fix="best = copy.deepcopy(model.state_dict())   # parameters and buffers",
        evidence={"state": state.name, "missing": list(state.missing[:8])},
        severity="note",
    )


def _setup_with_saved_state(deep: bool) -> Setup:
    """A program that saves its initial weights, as a copy if ``deep``."""
    model: nn.Module = network(3)
    state = copy.deepcopy(model.state_dict()) if deep else model.state_dict()
    optimizers = (torch.optim.Adam(model.parameters(), lr=1e-2),)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers, extra_state=({"best": state},))


def bad() -> Setup:
    """The live state, saved as the best state."""
    return _setup_with_saved_state(deep=False)


def good() -> Setup:
    """A deep copy of the state."""
    return _setup_with_saved_state(deep=True)
