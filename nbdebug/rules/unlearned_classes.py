"""The findings of L214 on tokens and classes that the model never learns, since the loss ignores their number."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from nbdebug.finding import Edit, Finding
from nbdebug.measurements.ignored_classes import PredictableClass
from nbdebug.measurements.unlearned_token import UnlearnedClass, UnlearnedToken
from nbdebug.rule_engine.expression_edits import expressions_at, remove_option
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import origin_line, written_line
from nbdebug.setup.losses import ignore_index
from nbdebug.setup.source_lines import argument_line
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.search import find_unique_line

CONSEQUENCES = (
    "M301",
    "G416",
    "M315",
    "L208",
    "T601",
    "T604",
    "T605",
    "T606",
    "T608",
    "T610",
    "E709",
    "E710:ignored labels",
)
FIX_OF_INDEX = "loss_fn = nn.CrossEntropyLoss()   # ignore_index only for a label that is no class, such as -100 or 255"


def unlearned_token_finding(setup: Setup, unlearned: UnlearnedToken) -> Finding:
    """Report a token that the model never learns to predict, since padding has the same number."""
    return Finding(
        message=f"The loss ignores all {unlearned.positions} positions of token {unlearned.token} in the first batch, "
        f"but the mask marks {unlearned.real} of them as real. The model never learns to predict this token.",
        where=get_location(
            written_line(setup, "padded targets", None, [ignore_index(setup.loss_fn)])
            or origin_line(setup, "padded targets")
        ),
        cause="Padding has the number of the token that ends a sequence, and the labels are ignored by that number.",
        fix="labels = ids.masked_fill(attention_mask == 0, -100)   # by the mask, not by the token",
        evidence={"token": unlearned.token, "positions": unlearned.positions, "real": unlearned.real},
        explains=CONSEQUENCES,
        severity="warning",
    )


def unlearned_class_finding(setup: Setup, unlearned: UnlearnedClass) -> Finding:
    """Report a class of the output that the model never learns, since it also labels padding."""
    line = unlearned.line or argument_line(setup, setup.loss_fn, "ignore_index") or origin_line(setup, "loss")
    return Finding(
        message=f"The loss ignores class {unlearned.label}. In the first batch, {unlearned.real} of the "
        f"{unlearned.positions} positions with this label are followed by other labels, so they are no padding. The "
        "model never learns this class.",
        where=get_location(line),
        cause="The labels of padding have the number of a class, and the loss ignores that number.",
        fix="labels = labels.masked_fill(padding, -100)   # and ignore_index=-100 in the loss",
        evidence={"class": unlearned.label, "positions": unlearned.positions, "real": unlearned.real},
        explains=(*CONSEQUENCES, "D101", "L215", "E702", "E703", "E706"),
        severity="warning",
    )


def predictable_class_findings(setup: Setup, ignored: PredictableClass) -> Iterator[Finding]:
    """Report a class of positions that the loss ignores by its ``ignore_index`` although the inputs predict it.

    A loss that leaves out positions otherwise, such as by a mask or a class weight, does so on purpose. It is a note,
    since a background may be left out on purpose too.
    """
    line, edits = ignored_index_edits(setup, ignored.label)
    is_option = hasattr(setup.loss_fn, "ignore_index")
    if getattr(setup.loss_fn, "ignore_index", ignored.label) != ignored.label or not (is_option or line):
        return
    yield Finding(
        message=f"The loss ignores class {ignored.label}, which has {ignored.share:.0%} of the {ignored.positions:,} "
        f"positions of the first batch. The inputs tell it from the other classes: the balanced accuracy of a kernel "
        f"ridge regression on {ignored.rows} positions is {ignored.accuracy:.0%}. The model never learns this class.",
        where=get_location(line or argument_line(setup, setup.loss_fn, "ignore_index") or origin_line(setup, "loss")),
        cause=f"The ignore_index of the loss is {ignored.label}, which is one of the classes. This is right if nobody "
        "needs its predictions.",
        fix=FIX_OF_INDEX,
        setup_fix="loss_fn.ignore_index = -100" if is_option else "",
        edits=edits,
        evidence={
            "class": ignored.label,
            "share": ignored.share,
            "places": ignored.positions,
            "accuracy": ignored.accuracy,
            "rows": ignored.rows,
        },
        severity="note",
    )


def ignored_index_edits(setup: Setup, label: float) -> tuple[SourceLine | None, tuple[Edit, ...]]:
    """Return the only line that passes a label as ``ignore_index``, and the edits that remove this argument."""
    ignores_label = partial(_ignores_label, label=f"{label:g}")
    line = find_unique_line(ignores_label, user_written_objects(setup))
    call = next(filter(ignores_label, expressions_at(line)), None)
    edits = remove_option(line.file, call, "ignore_index") if line and isinstance(call, ast.Call) else ()
    return line, edits


def _ignores_label(node: ast.AST, label: str) -> bool:
    """Match a call with ``ignore_index`` set to a label."""
    keywords = node.keywords if isinstance(node, ast.Call) else []
    return any(keyword.arg == "ignore_index" and ast.unparse(keyword.value) == label for keyword in keywords)
