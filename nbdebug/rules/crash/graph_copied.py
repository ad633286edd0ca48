"""X1048: an object that holds a tensor with a graph is copied."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.explanation import CrashCause
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import insert_before, wrap_node
from nbdebug.source.search import call_name

_MAX_DEPTH = 4


@crash_rule("X1048")
def graph_copied(crash: Crash) -> CrashCause | None:
    """An object is copied that holds a tensor with a graph, such as the features of the last forward pass.

    ## What it does
    Finds the tensor in the object that ``copy.deepcopy`` got, and names the attribute that holds it.

    ## Why it matters
    The graph behind a computed tensor belongs to the pass that made it, and cannot be copied.

    ## How it is measured
    Exactly: the tensor that raised is looked up in the attributes of the object and its parts.

    ## How to fix
    Set the attribute to None before the copy, keep ``detach()``-ed values, or copy the state dict.

    ## When to ignore
    Never: the copy cannot be made.

    ## References
    Documentation of torch.Tensor.__deepcopy__: only leaves can be copied.
    """
    tensor = crash.local("self", function="__deepcopy__")
    if not isinstance(tensor, Tensor) or tensor.is_leaf or crash.own is None:
        return None
    call = _copy_call(crash)
    source = call.args[0] if call is not None and call.args else None
    copied = crash.value(source) if source is not None else None
    path = next(iter(_paths(copied, tensor, 0)), None)
    text = crash.text(source) if source is not None else "The object"
    message = f"{text} cannot be copied: it holds a tensor with a graph, {describe_tensor(tensor)}"
    message += f", in {text}{path}." if path is not None else "."
    if source is None or path is None or crash.own.statement is None:
        return CrashCause(
            message, "A computed tensor cannot be copied.", "Keep values with detach(), without their graph."
        )
    cause = f"{text}{path} is kept from the last pass. Set it to None before the copy, which does not need it, or keep "
    cause += "values without their graph (detach())."
    edits: tuple[Edit, ...]
    if path == "":
        edits = (wrap_node(crash.own.file, source, "{}.detach()"),)
    else:
        edits = (insert_before(crash.own.file, crash.own.statement.lineno, f"{text}{path} = None"),)
    return CrashCause(message, cause, edits=edits)


def _copy_call(crash: Crash) -> ast.Call | None:
    nodes = ast.walk(crash.own.statement) if crash.own is not None and crash.own.statement is not None else ()
    return next((n for n in nodes if isinstance(n, ast.Call) and call_name(n) in ("deepcopy", "copy")), None)


def _paths(value: Any, tensor: Tensor, depth: int) -> Iterator[str]:
    """Yield the attributes and keys that lead from an object to a tensor."""
    if value is tensor:
        yield ""
        return
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, nn.Module):
        for path, module in value.named_modules():
            prefix = "".join(f"[{name}]" if name.isdigit() else f".{name}" for name in path.split(".") if name)
            for name, part in vars(module).items():
                if not name.startswith("_"):
                    yield from (f"{prefix}.{name}{rest}" for rest in _paths(part, tensor, depth + 1))
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from (f"[{key!r}]{rest}" for rest in _paths(part, tensor, depth + 1))
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from (f"[{index}]{rest}" for rest in _paths(part, tensor, depth + 1))
    elif type(value).__module__.split(".")[0] not in ("torch", "builtins"):
        for name, part in getattr(value, "__dict__", {}).items():
            yield from (f".{name}{rest}" for rest in _paths(part, tensor, depth + 1))


class _Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.last = self.layer(x)
        out: Tensor = self.last
        return out


def bad() -> Setup:
    """A copy of a module that keeps its last output."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())
    head = _Remembering()

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        scores = head(batch[0])
        copy.deepcopy(head)
        return nn.functional.cross_entropy(setup.model(batch[0]) + scores, batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that copies nothing."""
    return classifier()
