"""X1040: a module gets parts before nn.Module.__init__ has run."""

from __future__ import annotations

import ast

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.explanation import CrashCause
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import insert_before
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, function_node


@crash_rule("X1040")
def module_not_initialized(crash: Crash) -> CrashCause | None:
    """A class sets layers or parameters, or is called, before ``super().__init__()`` has run.

    ## What it does
    Checks whether the module that raised has the registers of its layers and parameters.

    ## Why it matters
    A module keeps its layers and parameters in registers that ``nn.Module.__init__`` makes.

    ## How it is measured
    Exactly, by the attributes of the module.

    ## How to fix
    Call ``super().__init__()`` in the first line of ``__init__``.

    ## When to ignore
    Never: the module cannot be made.

    ## References
    Documentation of torch.nn.Module.
    """
    owners = [frame.variables.get("self") for frame in reversed(crash.frames)]
    module = next((owner for owner in owners if isinstance(owner, nn.Module) and "_modules" not in vars(owner)), None)
    if module is None:
        return None
    name = type(module).__name__
    message = f"{name} has no registers for layers and parameters: nn.Module.__init__ has not run."
    call, body = _init(type(module))
    if body is None:
        return CrashCause(message, f"The class {name} does not run it.", "Call super().__init__() first in __init__.")
    if call is None:
        cause = f"{name}.__init__ does not call super().__init__()."
        return CrashCause(message, cause, edits=(insert_before(body.file, body.number, "super().__init__()"),))
    cause = f"{name}.__init__ calls super().__init__() only in line {call.number}: call it first."
    end = Edit(call.file, call.number, 0, call.number + 1, 0, "")
    return CrashCause(message, cause, edits=(insert_before(body.file, body.number, call.text.strip()), end))


def _init(kind: type) -> tuple[SourceLine | None, SourceLine | None]:
    """Return the line that calls ``super().__init__()``, and the first line of ``__init__`` after its docstring."""
    constructor = vars(kind).get("__init__")
    definition = function_node(constructor)
    if definition is None or constructor is None:
        return None, None
    file = constructor.__code__.co_filename
    has_docstring = ast.get_docstring(definition) is not None and len(definition.body) > 1
    first = definition.body[1 if has_docstring else 0]
    calls = [node for node in definition.body if isinstance(node, ast.Expr) and call_name(node.value) == "__init__"]
    call = SourceLine(file, calls[0].lineno) if calls else None
    return call, SourceLine(file, first.lineno)


class _Forgetful(nn.Module):
    def __init__(self) -> None:
        self.layer = nn.Linear(2, 3)


def bad() -> Setup:
    """A step that makes a module whose class forgets super().__init__()."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        head = _Forgetful()
        return nn.functional.cross_entropy(setup.model(batch[0]) + head.layer(batch[0]), batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that makes no module."""
    return classifier()
