"""R906: a checkpoint was loaded, but none of its tensors reached the model."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.weight_copies import UnmatchedState
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, train
from nbdebug.setup import Setup
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import wrap_node
from nbdebug.source.location import get_location
from nbdebug.source.search import call_name


@rule("R906", "error")
def checkpoint_not_loaded(loop: LoopSummary) -> Iterator[Finding]:
    """A checkpoint was loaded, but none of its tensors reached the model.

    ## What it does
    Compares the names in each state that your loop loads into the model, or into a part of it, with those of the
    module.

    ## Why it matters
    With ``strict=False``, ``load_state_dict`` ignores all names that it does not know and raises nothing. If every name
    has another prefix, as after ``DataParallel`` or ``torch.compile``, training begins from random weights.

    ## How it is measured
    Exactly: no name of the state is a name of the module. A state that shares some names, such as that of a backbone,
    is not reported. Loads before your loop are not seen.

    ## How to fix
    Remove or add the prefix, and look at the names that ``load_state_dict`` returns.

    ## When to ignore
    When the same state is also loaded in another way.

    ## References
    Documentation of torch.nn.Module.load_state_dict: it returns the missing and the unexpected keys.
    """
    if not loop.state_dict_loads.count:
        raise NotChecked("your loop loads no state into the model")
    if unmatched := loop.state_dict_loads.unmatched:
        yield _finding(unmatched)


def _finding(unmatched: UnmatchedState) -> Finding:
    names, stored_names, prefix = unmatched.names, unmatched.stored_names, unmatched.prefix
    if prefix:
        holder = "The names of the module" if unmatched.is_missing else "The names of the state"
        cause = f"{holder} begin with {prefix!r}, as those of a wrapped model do, and the others do not."
    else:
        cause = "The state belongs to another model, or is a part of a larger checkpoint."
    return Finding(
        message=f"load_state_dict loaded none of {len(names)} tensors: the state has {len(stored_names)} entries, such "
        f"as {stored_names[0]!r}, and no name of the module, such as {names[0]!r}.",
        where=get_location(unmatched.line, None, names[0]),
        cause=cause,
        fix=_fix(unmatched),
        edits=_rename_edits(unmatched),
        evidence={"tensors": len(names), "entries": len(stored_names), "prefix": prefix},
        explains=("T601", "T606", "T607", "T610", "L208", "O501", "E709"),
    )


def _fix(unmatched: UnmatchedState) -> str:
    prefix = unmatched.prefix
    if not prefix:
        return "model.load_state_dict(state)   # strict: raises an error that lists all names that differ"
    renamed = f"{prefix!r} + name" if unmatched.is_missing else f"name.removeprefix({prefix!r})"
    return f"state = {{{renamed}: tensor for name, tensor in state.items()}}\nmodel.load_state_dict(state)"


def _rename_edits(unmatched: UnmatchedState) -> tuple[Edit, ...]:
    """Return the change of the argument of ``load_state_dict`` to a state with the names of the module."""
    line, prefix = unmatched.line, unmatched.prefix
    statement = covering_statement(line) if line and prefix else None
    loads = [node for node in ast.walk(statement) if call_name(node) == "load_state_dict"] if statement else []
    if line is None or len(loads) != 1 or not isinstance(loads[0], ast.Call) or len(loads[0].args) != 1:
        return ()
    renamed = f"{prefix!r} + name" if unmatched.is_missing else f"name.removeprefix({prefix!r})"
    template = f"{{{{{renamed}: tensor for name, tensor in {{}}.items()}}}}"
    return (wrap_node(line.file, loads[0].args[0], template),)


def bad() -> Setup:
    """A classifier of three classes."""
    return classifier()


def bad_loop(setup: Setup) -> None:
    """Loads the state of a wrapped model."""
    state = {f"module.{name}": tensor.clone() for name, tensor in setup.model.state_dict().items()}
    setup.model.load_state_dict(state, strict=False)
    train(setup, 3)


def good() -> Setup:
    """The same classifier."""
    return classifier()


def good_loop(setup: Setup) -> None:
    """Loads the state of the model itself."""
    state = {name: tensor.clone() for name, tensor in setup.model.state_dict().items()}
    setup.model.load_state_dict(state, strict=False)
    train(setup, 3)
