"""X1017: output and target of a loss have unlike shapes."""

from __future__ import annotations

import ast

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.creations import crash_files, set_layer_argument
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import assigned_value, outermost_place, wrap_at_source
from nbdebug.crashes.operand_statements import producing_statements
from nbdebug.crashes.repairs import apply_template
from nbdebug.finding import Edit
from nbdebug.formatting import join_names
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import node_text, replace_node, wrap_node
from nbdebug.source.search import assigned_names, call_name, enclosing_loops, enclosing_scope, syntax_tree

_CLASS_LOSSES = ("cross_entropy", "nll_loss")
_GROUP_LOSSES = (
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "margin_ranking_loss",
    "cosine_embedding_loss",
)
_EQUAL_LOSSES = (
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
    "gaussian_nll_loss",
    "poisson_nll_loss",
)


_MAX_STATEMENTS = 4


@crash_rule("X1017", explains=("L205",))
def target_shape_mismatch(crash: Crash) -> CrashCause | None:
    """Output and target of a loss have shapes that do not fit.

    ## What it does
    Reads output and target of the loss that raised, and looks for the change of one of them with which they fit.

    ## Why it matters
    The loss cannot run.

    ## How it is measured
    Exactly: cross-entropy takes the classes on axis 1 and the target without that axis; losses of differences take
    equal shapes.

    ## How to fix
    Squeeze or transpose the output or the target. If the numbers of samples differ, look for the reshape in the model.

    ## When to ignore
    Never: the operation is undefined.

    ## References
    Documentation of torch.nn.CrossEntropyLoss and torch.nn.BCEWithLogitsLoss, section Shape.
    """
    for function in (*_CLASS_LOSSES, *_EQUAL_LOSSES):
        output, target = crash.local("input", function=function), crash.local("target", function=function)
        if isinstance(output, Tensor) and isinstance(target, Tensor):
            is_class_loss = function in _CLASS_LOSSES
            return _explain(crash, function, output, target, is_class_loss)
    return _repeated_samples(crash)


def _explain(crash: Crash, function: str, output: Tensor, target: Tensor, is_class_loss: bool) -> CrashCause | None:
    if output.shape == target.shape or (is_class_loss and _fits_classes(output, target)):
        return None
    output_node, target_node = crash.argument_node("input", 0), crash.argument_node("target", 1)
    names = [crash.text(n) if n is not None else d for n, d in ((output_node, "output"), (target_node, "target"))]
    shapes = f"{names[0]} is {describe_tensor(output)}, and {names[1]} is {describe_tensor(target)}"
    expected = "classes on axis 1, and class indices without that axis" if is_class_loss else "equal shapes"
    message = f"The loss {function} takes {expected}; {shapes}."
    cause, fix, edits = _repair(crash, output, target, is_class_loss)
    evidence = {"output": describe_tensor(output), "target": describe_tensor(target)}
    return CrashCause(message, cause, "" if edits else fix, edits, evidence=evidence)


def _repeated_samples(crash: Crash) -> CrashCause | None:
    """Explain a loss of groups of samples, such as triplets, of which one holds several for each of another."""
    function = next((f for f in reversed(crash.torch_frames) if f.is_in("nn/functional")), None)
    if function is None or function.function not in _GROUP_LOSSES or crash.own is None:
        return None
    tensors = [(node, value) for node, value in crash.tensors if value.dim()]
    sizes = sorted({len(value) for _, value in tensors})
    if len(sizes) != 2 or sizes[1] % max(sizes[0], 1):
        return None
    few, many = ([(crash.text(n), n) for n, v in tensors if len(v) == size] for size in sizes)
    times = sizes[1] // sizes[0]
    shown = "; ".join(f"{crash.text(node)}: {describe_tensor(value)}" for node, value in tensors)
    message = f"The loss {function.function} takes equal numbers of samples; {shown}."
    cause = f"There are {times} of {join_names([name for name, _ in many])} for each of "
    cause += f"{join_names([name for name, _ in few])}: repeat each {times} times, or take one."
    edits = tuple(wrap_node(crash.own.file, node, f"{{}}.repeat_interleave({times}, dim=0)") for _, node in few)
    return CrashCause(message, cause, edits=edits)


def _fits_classes(output: Tensor, target: Tensor) -> bool:
    if output.dim() == 1:
        return target.dim() == 0
    return output.shape[:1] + output.shape[2:] == target.shape


def _repair(crash: Crash, output: Tensor, target: Tensor, is_class_loss: bool) -> tuple[str, str, tuple[Edit, ...]]:
    output_node, target_node = crash.argument_node("input", 0), crash.argument_node("target", 1)
    if is_class_loss:
        changes = [(1, "{}.squeeze(-1)"), (1, "{}.squeeze(1)"), (0, "{}.transpose(1, 2)"), (0, "{}.movedim(-1, 1)")]
        changes += [(1, "{}.argmax(1)"), (1, "{}.flatten()"), (0, "{}.squeeze(-1)")]
        if target.is_floating_point():
            changes = [change for change in changes if "argmax" not in change[1]]
    else:
        changes = [(0, "{}.squeeze(-1)"), (1, "{}.unsqueeze(1)"), (1, "{}.squeeze(-1)"), (0, "{}.unsqueeze(1)")]
    for position, template in changes:
        changed = apply_template(template, (output, target)[position])
        if changed is None:
            continue
        pair = (changed, target) if position == 0 else (output, changed)
        fits = _fits_classes(*pair) if is_class_loss else pair[0].shape == pair[1].shape
        if fits:
            node = (output_node, target_node)[position]
            name = ("output", "target")[position]
            place = outermost_place(crash, node) if position == 0 else None
            edits = wrap_at_source(crash, node, template) if node is not None else ()
            text = template.format(crash.text(node) if node is not None else name)
            verb = {".squeeze": "has an axis too many", ".unsqueeze": "lacks an axis"}
            what = next((v for key, v in verb.items() if f"{{}}{key}" in template), "has its axes in another order")
            return (
                f"The {name} {what}; {text} is {describe_tensor(changed)}, and fits.",
                text,
                edits if place or edits else (),
            )
    if not is_class_loss and output.dim() == 2 and target.dim() == 1 and target.numel() == len(output):
        return _classes_for_differences(crash, output, target)
    if output.dim() and target.dim() and len(output) < len(target) and (part := _part_of_target(crash, output, target)):
        cause = f"There are {len(output)} outputs for {len(target)} targets, which belong to more samples than this "
        return cause + "batch has: take those of the batch.", "", part
    if len(output) != len(target) and output.dim() and target.dim():
        cause = (
            f"There are {len(output)} outputs for {len(target)} targets: a reshape (view) in the model mixes samples."
        )
        return cause, "x = x.flatten(1)  # keeps the batch axis", _reshape_edits(crash, output, target)
    if not is_class_loss and (wider := _wider_model(crash, output, target)):
        return wider[0], "", wider[1]
    return "The shapes differ.", "# give both the same shape", ()


def _wider_model(crash: Crash, output: Tensor, target: Tensor) -> tuple[str, tuple[Edit, ...]] | None:
    """Explain a target that another model makes, with more entries on the last axis than the output has."""
    node = crash.argument_node("target", 1)
    made = assigned_value(crash, node) if isinstance(node, ast.Name) else node
    if made is None or crash.own is None or output.shape[:-1] != target.shape[:-1] or output.dim() < 2:
        return None
    count, wanted = target.shape[-1], output.shape[-1]
    for call in ast.walk(made):
        model = crash.value(call.func) if isinstance(call, ast.Call) else None
        if isinstance(call, ast.Call) and isinstance(model, nn.Module) and count > wanted:
            cause = (
                f"{crash.text(call.func)} has {count} outputs, and the other model {wanted}: take the {wanted} that "
            )
            cause += "both have, or give both the same number."
            return cause, (wrap_node(crash.own.file, call, f"{{}}[..., :{wanted}]"),)
    return None


def _part_of_target(crash: Crash, output: Tensor, target: Tensor) -> tuple[Edit, ...]:
    """Return the edits that take the targets of the batch, by the slice that made the inputs, or by their number."""
    output_node, target_node = crash.argument_node("input", 0), crash.argument_node("target", 1)
    statement = crash.own.statement if crash.own is not None else None
    if output_node is None or target_node is None or crash.own is None or statement is None:
        return ()
    if not isinstance(target_node, (ast.Name, ast.Attribute)) or not _is_made_before_loop(crash, target_node):
        return ()
    part = f"[: len({crash.text(output_node)})]"
    for file, maker in producing_statements(crash)[:_MAX_STATEMENTS]:
        for node in ast.walk(maker):
            is_part = isinstance(node, ast.Subscript) and isinstance(node.value, (ast.Name, ast.Attribute))
            whole = crash.value(node.value) if is_part and file == crash.own.file else None  # type: ignore[attr-defined]
            if isinstance(whole, Tensor) and len(whole) == len(target) and whole is not target:
                part = f"[{node_text(file, node.slice)}]"  # type: ignore[attr-defined]
    text = ast.unparse(target_node)
    nodes = [n for n in ast.walk(statement) if isinstance(n, (ast.Name, ast.Attribute)) and ast.unparse(n) == text]
    return tuple(wrap_node(crash.own.file, node, f"{{}}{part}") for node in nodes)


def _is_made_before_loop(crash: Crash, node: ast.expr) -> bool:
    """Return whether a target is an attribute, or a variable that no loop around the loss assigns."""
    scope = enclosing_scope(crash.own.line) if crash.own is not None else None
    loops = enclosing_loops(scope, crash.own.number) if scope is not None and crash.own is not None else []
    assigned = {name for loop in loops for name in assigned_names(loop)}
    return isinstance(node, ast.Attribute) or getattr(node, "id", "") not in assigned


def _reshape_edits(crash: Crash, output: Tensor, target: Tensor) -> tuple[Edit, ...]:
    """Return the edits of the only ``view(-1, size)`` of the model, and of the layer that takes its rows."""
    factor = len(output) / max(len(target), 1)
    found = []
    for file in sorted(crash_files(crash)):
        for node in ast.walk(syntax_tree(file) or ast.Module([], [])):
            if (
                not isinstance(node, ast.Call)
                or call_name(node) not in ("view", "reshape")
                or len(node.args) != 2
                or not isinstance(node.func, ast.Attribute)
            ):
                continue
            if ast.unparse(node.args[0]) == "-1":
                found.append((file, node, node_text(file, node.func.value)))
    if len(found) != 1 or crash.root is None or factor != int(factor):
        return ()
    file, node, owner = found[0]
    size = _constant(node.args[1])
    layer = next((m for m in crash.root.modules() if isinstance(m, nn.Linear) and m.in_features == size), None)
    edit = set_layer_argument(crash, layer, "in_features", size * int(factor)) if layer is not None and size else None
    return (replace_node(file, node, f"{owner}.flatten(1)"), *((edit,) if edit is not None else ()))


def _constant(node: ast.expr) -> int | None:
    """Return the value of a product of numbers."""
    if any(not isinstance(part, (ast.Constant, ast.BinOp, ast.operator)) for part in ast.walk(node)):
        return None
    value = eval(compile(ast.Expression(node), "<size>", "eval"))
    return value if isinstance(value, int) else None


def _classes_for_differences(crash: Crash, output: Tensor, target: Tensor) -> tuple[str, str, tuple[Edit, ...]]:
    """Explain a target of classes for a loss of differences with one output for each class."""
    cause = f"The output has {output.shape[1]} columns, and the target one class per sample: use one-hot targets."
    node = crash.argument_node("target", 1)
    text = f"torch.nn.functional.one_hot({{}}.long(), {output.shape[1]}).float()"
    if node is None or crash.own is None:
        return cause, text.format("y"), ()
    return cause, "", (replace_node(crash.own.file, node, text.format(crash.text(node))),)


def bad() -> Setup:
    """Labels in a column."""
    x, y = points()
    return minimal_setup(network(3), x, y.unsqueeze(1), nn.CrossEntropyLoss())


def good() -> Setup:
    """Labels in one axis."""
    x, y = points()
    return minimal_setup(network(3), x, y, nn.CrossEntropyLoss())
