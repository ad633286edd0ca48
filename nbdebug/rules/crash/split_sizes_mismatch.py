"""X1049: the sizes of a split do not sum to what is split."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset, random_split

from nbdebug.crashes import Crash
from nbdebug.crashes.explanation import CrashCause
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import insert_before, replace_node


@crash_rule("X1049")
def split_sizes_mismatch(crash: Crash) -> CrashCause | None:
    """The sizes of the parts of a split do not sum to the number of samples, or of entries on an axis.

    ## What it does
    Sums the sizes that ``random_split`` or ``Tensor.split`` got, and compares the sum with what is split.

    ## Why it matters
    The split cannot be made. Sizes that are rounded down one by one, such as ``int(0.7 * n)``, miss some samples.

    ## How it is measured
    Exactly, by the sizes.

    ## How to fix
    Give the last part what the others leave, or pass fractions that sum to 1 to ``random_split``.

    ## When to ignore
    Never: the split cannot be made.

    ## References
    Documentation of torch.utils.data.random_split and of torch.split.
    """
    if crash.own is None or crash.own.statement is None or crash.call is None:
        return None
    if crash.has_torch_function("random_split"):
        sizes, whole = crash.local("lengths", function="random_split"), crash.local("dataset", function="random_split")
        if not isinstance(sizes, (list, tuple)) or not hasattr(whole, "__len__") or sum(sizes) == len(whole):
            return None
        node, source = crash.argument_node("lengths", 1), crash.argument_node("dataset", 0)
        count = f"len({crash.text(source)})" if source is not None else str(len(whole))
        return _explain(crash, "random_split", [*sizes], len(whole), node, count, "samples")
    axis_of_sizes = _tensor_split(crash)
    if axis_of_sizes is None:
        return None
    node, sizes, total, count, axis = axis_of_sizes
    return _explain(crash, "split", sizes, total, node, count, f"entries on axis {axis}")


def _tensor_split(crash: Crash) -> tuple[ast.expr, list[int], int, str, int] | None:
    """Return the sizes of a split of a tensor that do not sum to its axis, and the expression of its size."""
    call, tensors = crash.call, crash.tensors
    node = crash.argument_node("split_size_or_sections", 0) or crash.argument_node("split_size", 0)
    if call is not None and tensors and call.args and tensors[0][0] is call.args[0]:
        node = crash.argument_node("split_size_or_sections", 1)
    if crash.operation not in ("split", "split_with_sizes") or node is None or not tensors:
        return None
    sizes, axis_node = crash.value(node), crash.argument_node("dim", 2 if node in call.args[1:] else 1)  # type: ignore[union-attr]
    axis = crash.value(axis_node) if axis_node is not None else 0
    owner, tensor = tensors[0]
    if not isinstance(sizes, (list, tuple)) or type(axis) is not int or not -tensor.dim() <= axis < tensor.dim():
        return None
    total = tensor.shape[axis]
    if sum(sizes) == total:
        return None
    return node, [*sizes], total, f"{crash.text(owner)}.shape[{axis}]", axis


def _explain(
    crash: Crash, name: str, sizes: Sequence[float], total: int, node: ast.expr | None, count: str, what: str
) -> CrashCause:
    message = f"{name} gets sizes that sum to {sum(sizes)}, {sizes}; there are {total} {what}."
    difference = total - sum(sizes)
    place = "in no part" if difference > 0 else "too many"
    cause = f"{abs(difference)} {what} are {place}: give the last part what the others leave."
    edit = _edit(crash, node, count) if sum(sizes[:-1]) <= total else None
    fix = "" if edit else f"sizes[-1] = {count} - sum(sizes[:-1])"
    evidence = {"sizes": [*sizes], "sum": sum(sizes), "total": total}
    return CrashCause(message, cause, fix, (edit,) if edit else (), evidence=evidence)


def _edit(crash: Crash, node: ast.expr | None, count: str) -> Edit | None:
    """Return the edit that gives the last part of a split what the others leave."""
    assert crash.own is not None
    assert crash.own.statement is not None
    if isinstance(node, (ast.List, ast.Tuple)) and node.elts:
        others = "".join(f" - {crash.text(size)}" for size in node.elts[:-1])
        return replace_node(crash.own.file, node.elts[-1], f"{count}{others}")
    if isinstance(node, ast.Name):
        text = f"{node.id} = [*{node.id}[:-1], {count} - sum({node.id}[:-1])]"
        return insert_before(crash.own.file, crash.own.statement.lineno, text)
    return None


def bad() -> Setup:
    """A split that misses samples."""
    return _stepping([40, 20])


def good() -> Setup:
    """A step without a split."""
    return classifier()


def _stepping(sizes: list[int]) -> Setup:
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        random_split(TensorDataset(x, y), sizes, torch.Generator().manual_seed(0))
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step
    return setup
