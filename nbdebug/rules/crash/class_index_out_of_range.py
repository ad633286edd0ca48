"""X1012: a class index is not among the outputs."""

from __future__ import annotations

import ast

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.creations import find_layer_creation, set_argument
from nbdebug.crashes.evaluation import UNKNOWN
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import outermost_place, wrap_at_source
from nbdebug.crashes.number_literals import find_number_literal
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import append_argument, replace_node, wrap_node


@crash_rule("X1012")
def class_index_out_of_range(crash: Crash) -> CrashCause | None:
    """A target of the loss is a class that the output does not have.

    ## What it does
    Reads output and target of the loss, and names the first class out of range with its sample.

    ## Why it matters
    The loss is undefined. On a GPU, a device-side assertion ends the process without naming the label.

    ## How it is measured
    Exactly, by the values. Labels from 1 to the number of classes start at 1; a single negative value is a mark of
    ignored entries; a larger value needs a larger head.

    ## How to fix
    Subtract 1, pass ``ignore_index``, or give the head one output for each class.

    ## When to ignore
    Never: the loss is undefined.

    ## References
    Documentation of torch.nn.CrossEntropyLoss: class indices lie in the range [0, C).
    """
    output, target, ignored = _operands(crash)
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or target.is_floating_point():
        return None
    if output.dim() < 1 or not target.numel() or target.is_meta or target.dim() >= max(output.dim(), 1) > 1:
        return None
    if output.dim() > 1 and len(output) != len(target):
        return None
    classes = output.shape[1 if output.dim() > 1 else 0]
    wrong = ((target < 0) | (target >= classes)) & (target != ignored)
    if not bool(wrong.any()):
        return None
    value, low, high = int(target[wrong][0]), int(target.min()), int(target.max())
    position = wrong.nonzero()[0].tolist()
    message = f"The target {value} of sample {position[0] if position else 0} is no class: the output has {classes} "
    message += f"classes, 0…{classes - 1}, and the targets run from {low} to {high}."
    cause, fix, edits = _repair(crash, classes, low, high, target[wrong])
    evidence = {"classes": classes, "smallest target": low, "largest target": high, "sample": position}
    return CrashCause(message, cause, fix if not edits else "", edits, sample=None, evidence=evidence)


def _operands(crash: Crash) -> tuple[object, object, int]:
    for function in ("cross_entropy", "nll_loss"):
        target = crash.local("target", function=function)
        if target is not UNKNOWN:
            return crash.local("input", function=function), target, crash.local("ignore_index", function=function)
    if crash.setup is not None and crash.batch is not None and "out of bounds" in crash.message:
        frames = [frame for frame in crash.frames if frame.function == "_check_class_indices"]
        if frames:
            return frames[-1].variables.get("logits"), crash.batch.target, -100
    return UNKNOWN, UNKNOWN, -100


def _repair(crash: Crash, classes: int, low: int, high: int, wrong: Tensor) -> tuple[str, str, tuple[Edit, ...]]:
    node = crash.argument_node("target", 1)
    place = outermost_place(crash, node)
    values = set(wrong.tolist())
    if high == classes and low >= 1:
        edits = (wrap_node(place[0].file, place[1], "{} - 1"),) if place else ()
        return "The classes are numbered from 1, not from 0.", "y = y - 1", edits
    if len(values) == 1 and low < 0 and high < classes:
        return (
            f"{low} marks entries to skip; the loss skips -100 unless ignore_index={low} says so.",
            (f"nn.CrossEntropyLoss(ignore_index={low})"),
            _ignore_edit(crash, low),
        )
    if low < 0:
        shift = "{} + 1" if low == -1 and high + 2 <= classes else f"{{}} - ({low})"
        is_shift = high - low < classes
        template = shift if is_shift else "{}.clamp(min=0)"
        cause = (
            f"Negative targets are no class indices: they range from {low} to {high}"
            + ", and start below 0." * is_shift
        )
        return (
            cause.rstrip(".") + ".",
            template.format("y"),
            wrap_at_source(crash, node, template) if node is not None else (),
        )
    heads = [m for m in crash.root.modules() if isinstance(m, nn.Linear)] if crash.root is not None else []
    head = next((m for m in reversed(heads) if m.out_features == classes), None)
    creation = find_layer_creation(crash, head)
    cause = f"The head has {classes} outputs, and the targets need {high + 1}."
    if head is None or creation is None:
        return cause, f"# give the head {high + 1} outputs", ()
    argument = creation.argument(head, "out_features")
    constant = find_number_literal(crash, creation.file, argument) if argument is not None else None
    if constant is not None and constant[1].value == classes:
        return cause, "", (replace_node(constant[0], constant[1], str(high + 1)),)
    return cause, "", (set_argument(creation, head, "out_features", high + 1),)


def _ignore_edit(crash: Crash, value: int) -> tuple[Edit, ...]:
    """Return the edit of the loss: of the call that made it, or of the function call."""
    loss = crash.layer
    if isinstance(loss, nn.Module):
        creation = find_layer_creation(crash, loss)
        return (set_argument(creation, loss, "ignore_index", value),) if creation is not None else ()
    call = crash.call
    if crash.own is None or not isinstance(call, ast.Call) or not crash.has_torch_function("cross_entropy", "nll_loss"):
        return ()
    return (append_argument(crash.own.file, call, f"ignore_index={value}"),)


def bad() -> Setup:
    """Labels that start at 1."""
    x, y = points()
    return minimal_setup(network(3), x, y + 1, nn.CrossEntropyLoss())


def good() -> Setup:
    """Labels that start at 0."""
    return classifier()
