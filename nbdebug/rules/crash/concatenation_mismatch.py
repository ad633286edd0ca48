"""X1005: tensors that are concatenated or stacked have unlike shapes."""

from __future__ import annotations

import ast
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.branches import find_layer_change
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import Change
from nbdebug.crashes.repairs import runs
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.edits import replace_node, wrap_node

_FUNCTIONS = {"cat": torch.cat, "concat": torch.cat, "concatenate": torch.cat, "stack": torch.stack}


@crash_rule("X1005")
def concatenation_mismatch(crash: Crash) -> CrashCause | None:
    """Tensors that are concatenated differ on another axis, or in their number of axes.

    ## What it does
    Reads the tensors in the user's code, names the one that differs and its axis, and looks for the change with which
    the concatenation runs.

    ## Why it matters
    The operation cannot run.

    ## How it is measured
    Exactly, by the shapes. Another axis, another padding or stride of a layer in one branch, and another size of one of
    the maps are tried in this order on copies without values.

    ## How to fix
    Concatenate along the axis that differs, or give all parts the same size on the others.

    ## When to ignore
    Never: the operation is undefined.

    ## References
    Documentation of torch.cat. Ronneberger et al., U-Net (2015), which crops the maps of the encoder.
    """
    if explanation := _to_be_stacked(crash):
        return explanation
    function = _FUNCTIONS.get(crash.operation)
    call = crash.call
    if function is None or call is None or not call.args or crash.torch_frames:
        return None
    nodes, values = _parts(crash, call.args[0])
    tensors = [value for value in values if isinstance(value, Tensor)]
    if len(tensors) != len(values) or len(tensors) < 2:
        return None
    axis_node = crash.argument_node("dim", 1)
    axis = crash.value(axis_node) if axis_node is not None else 0
    axis = axis if isinstance(axis, int) else 0
    if runs(function, tensors, axis):
        return None
    position = next((i for i, t in enumerate(tensors) if not runs(function, [tensors[0], t], axis)), 1)
    names = [crash.text(node) for node in nodes] if nodes else [f"tensor {i}" for i in range(len(tensors))]
    shapes = ", ".join(f"{name}: {describe_tensor(t)}" for name, t in zip(names, tensors, strict=True))
    message = f"{crash.operation} along axis {axis} takes tensors of the same size on all other axes; it gets {shapes}."
    cause, change, fix = _repair(crash, function, nodes, tensors, axis, position, names)
    evidence = dict(zip(names, map(describe_tensor, tensors), strict=True))
    return CrashCause(message, cause, "" if change.edits else fix, change.edits, change.modules, evidence=evidence)


def _to_be_stacked(crash: Crash) -> CrashCause | None:
    """Explain tensors without axes that are concatenated, and a list of tensors that ``torch.tensor`` gets."""
    call, statement = crash.call, crash.own.statement if crash.own is not None else None
    if call is None or crash.own is None or not call.args or crash.torch_frames:
        return None
    text, arguments = crash.text(call.args[0]), ", ".join(crash.text(part) for part in (*call.args, *call.keywords))
    value = crash.value(call.args[0])
    tensors = [part for part in value if isinstance(part, Tensor)] if isinstance(value, (list, tuple)) else []
    stack = f"torch.stack({text})"
    if crash.operation in ("cat", "concat", "concatenate") and "zero-dimensional" in crash.message:
        shown = f" ({len(tensors)} numbers)" if tensors else ""
        message = f"{crash.operation}({arguments}) joins tensors along an axis; those of {text}{shown} have none."
        cause = "Tensors of one number, such as losses, have no axis: stack makes one."
        return CrashCause(message, cause, edits=(replace_node(crash.own.file, call, stack),))
    is_copy = crash.operation in ("tensor", "as_tensor", "asarray", "Tensor", "FloatTensor", "LongTensor")
    if not is_copy or statement is None or not tensors or len(tensors) != len(value):
        return None
    message = f"{crash.operation} makes a tensor of numbers; {text} is a list of {len(tensors)} tensors, the first "
    message += f"{describe_tensor(tensors[0])}."
    if len({tensor.shape for tensor in tensors}) > 1:
        return CrashCause(message, "Their shapes differ.", "torch.nn.utils.rnn.pad_sequence(…) gives them one length.")
    cause = "stack joins tensors along a new axis, and keeps their graph."
    return CrashCause(message, cause, edits=(replace_node(crash.own.file, call, stack),))


def _parts(crash: Crash, node: ast.expr) -> tuple[list[ast.expr], list[Any]]:
    if isinstance(node, (ast.List, ast.Tuple)):
        return node.elts, [crash.value(item) for item in node.elts]
    value = crash.value(node)
    return [], list(value) if isinstance(value, (list, tuple)) else [value]


def _repair(
    crash: Crash,
    function: Any,
    nodes: list[ast.expr],
    tensors: list[Tensor],
    axis: int,
    position: int,
    names: list[str],
) -> tuple[str, Change, str]:
    first, other = tensors[0], tensors[position]
    if crash.own is None or crash.call is None:
        return "", Change(), ""
    if first.dim() != other.dim():
        index = position if other.dim() < first.dim() else 0
        less, more = sorted((first, other), key=lambda tensor: tensor.dim())
        cause = f"{names[index]} has {less.dim()} axes, and the others {more.dim()}."
        for template in [f"{{}}.unsqueeze({a})" for a in (axis, 1, -1, 0, 2)]:
            changed = [*tensors]
            changed[index] = eval(template.format("t"), {"t": tensors[index].detach()})
            if nodes and runs(function, changed, axis):
                return cause, Change((wrap_node(crash.own.file, nodes[index], template),)), ""
        return cause, Change(), "# give all the same number of axes"
    differing = [a for a in range(first.dim()) if first.shape[a] != other.shape[a]]
    cause = (
        f"{names[position]} differs on axis {', '.join(map(str, differing))}: {[*other.shape]} and {[*first.shape]}."
    )
    others = [a for a in (1, -1, 0, 2) if -first.dim() <= a < first.dim() and runs(function, tensors, a)]
    if function is torch.cat and others:
        edit = _axis_edit(crash, others[0])
        return f"{cause} Along axis {others[0]} they fit.", Change((edit,)), f"dim={others[0]}"
    is_list = function is torch.stack and not nodes and axis == 0
    if is_list and len({t.shape[1:] for t in tensors}) == 1:
        text = f"torch.nn.utils.rnn.pad_sequence({crash.text(crash.call.args[0])}, batch_first=True)"
        sentence = "Padded to one length, they can be stacked."
        return f"{cause} {sentence}", Change((replace_node(crash.own.file, crash.call, text),)), ""
    if found := find_layer_change(crash):
        return f"{cause} {found[0]}", found[1], ""
    if first.dim() == 4 and all(a > 1 for a in differing) and nodes:
        small = position if other.shape[2] <= first.shape[2] else 0
        reference = 0 if small else position
        template = f"torch.nn.functional.interpolate({{}}, size={names[reference]}.shape[2:])"
        if isinstance(nodes[reference], (ast.Name, ast.Attribute, ast.Subscript)):
            return cause, Change((wrap_node(crash.own.file, nodes[small], template),)), ""
    return cause, Change(), "# give all parts the same size on the other axes"


def _axis_edit(crash: Crash, axis: int) -> Any:
    node = crash.argument_node("dim", 1)
    assert crash.own is not None
    assert crash.call is not None
    if node is not None:
        return replace_node(crash.own.file, node, str(axis))
    last = crash.call.args[0]
    return wrap_node(crash.own.file, last, f"{{}}, dim={axis}")


class _Joined(nn.Module):
    def __init__(self, axis: int) -> None:
        super().__init__()
        self.left, self.right, self.head = nn.Linear(4, 3), nn.Linear(4, 5), nn.Linear(8, 3)
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(torch.cat([self.left(x), self.right(x)], dim=self.axis))
        return out


def _joined(axis: int) -> Setup:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return minimal_setup(_Joined(axis), *points(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """Two branches of unlike width, concatenated along the batch."""
    return _joined(0)


def good() -> Setup:
    """Two branches, concatenated along their features."""
    return _joined(1)
