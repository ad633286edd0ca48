"""X1041: a layer is created with a number of groups that does not divide its channels."""

from __future__ import annotations

import ast

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.number_literals import find_number_literal
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import replace_node
from nbdebug.source.search import call_arguments

# Options of the layers of torch: the first must be a multiple of the second.
_MULTIPLES = (("num_channels", "num_groups"), ("in_channels", "groups"), ("out_channels", "groups"))


@crash_rule("X1041")
def indivisible_sizes(crash: Crash) -> CrashCause | None:
    """A layer is created with a number of groups that does not divide its channels.

    ## What it does
    Reads the options of the layer that could not be created, and looks for the nearest number that divides both.

    ## Why it matters
    The layer cannot be created.

    ## How it is measured
    Exactly, by the options.

    ## How to fix
    Choose a number of groups that divides the channels.

    ## When to ignore
    Never: the channels cannot be split evenly.

    ## References
    Documentation of torch.nn.GroupNorm and of torch.nn.Conv2d, groups.
    """
    frame = next((f for f in reversed(crash.torch_frames) if f.function == "__init__"), None)
    if frame is None or crash.own is None or crash.call is None:
        return None
    for whole_name, part_name in _MULTIPLES:
        whole, part = frame.variables.get(whole_name), frame.variables.get(part_name)
        if type(whole) is not int or type(part) is not int or part < 1 or whole % part == 0:
            continue
        name = type(frame.variables.get("self")).__name__
        message = f"{name} gets {whole_name}={whole} and {part_name}={part}; {part} does not divide {whole}."
        named = [keyword.value for keyword in crash.call.keywords if keyword.arg == part_name]
        nodes = [*named, *call_arguments(crash.call)]
        node = next((node for node in nodes if crash.value(node) == part), None)
        sizes = [v for k, v in frame.variables.items() if k.endswith("channels") and type(v) is int]
        fitting = max(number for number in range(1, part + 1) if all(size % number == 0 for size in sizes))
        cause = f"{fitting} divides {' and '.join(map(str, dict.fromkeys(sizes)))}."
        if node is None:
            return CrashCause(message, cause, f"{part_name}={fitting}")
        return CrashCause(message, cause, edits=(_edit(crash, node, part, fitting),))
    return None


def _edit(crash: Crash, node: ast.expr, old: int, new: int) -> Edit:
    """Return the edit of the number, where it is written if it serves this layer only, else in this call."""
    assert crash.own is not None
    is_literal = isinstance(node, ast.Constant)
    constant = None if is_literal else find_number_literal(crash, crash.own.file, node)
    is_shared = crash.own.function != "<module>"
    if constant is not None and constant[1].value == old and not is_shared:
        return replace_node(constant[0], constant[1], str(new))
    sizes = [crash.text(n) for n in _channel_nodes(crash) if n is not node]
    if is_shared and not is_literal and sizes:
        # The function makes layers of several sizes: the largest divisor of each.
        name, divides = crash.text(node), " and ".join(f"{size} % n == 0" for size in dict.fromkeys(sizes))
        return replace_node(crash.own.file, node, f"max(n for n in range(1, {name} + 1) if {divides})")
    return replace_node(crash.own.file, node, str(new))


def _channel_nodes(crash: Crash) -> list[ast.expr]:
    """Return the expressions of the numbers of channels in the call of a layer."""
    frame = next((f for f in reversed(crash.torch_frames) if f.function == "__init__"), None)
    if crash.call is None or frame is None:
        return []
    names = frame.code.co_varnames[1 : frame.code.co_argcount]
    nodes = [*zip(names, crash.call.args, strict=False), *((k.arg, k.value) for k in crash.call.keywords)]
    return [node for name, node in nodes if name is not None and name.endswith("channels")]


def bad() -> Setup:
    """A normalization of six channels in four groups."""
    return _setup_with_groups(4)


def good() -> Setup:
    """A normalization of six channels in three groups."""
    return _setup_with_groups(3)


def _setup_with_groups(groups: int) -> Setup:
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        nn.GroupNorm(groups, 6)
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step
    return setup if groups == 4 else classifier()
