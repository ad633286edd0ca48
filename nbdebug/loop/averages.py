"""Metrics that a loop averages over batches, by what is written around its passes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from nbdebug.graph.source import Line
from nbdebug.loop.reading import Scope, called, loaded, loops_around, may_be_skipped, scope_of, subject, texts

WHOLE = re.compile(
    r"(binary_|multiclass_|multilabel_)?(f1|f1_score|fbeta_score|precision|precision_score|recall|recall_score|auc|"
    r"roc_auc_score|roc_auc|auroc|average_precision_score|average_precision|auprc|r2_score|explained_variance_score|"
    r"matthews_corrcoef|cohen_kappa_score|cohen_kappa|balanced_accuracy_score|root_mean_squared_error|pearsonr|"
    r"spearmanr|pearson_corrcoef|spearman_corrcoef|jaccard_score|corrcoef)"
)
MEAN = re.compile(r"mean|criterion|accuracy|accuracy_score|\w*loss\w*|cross_entropy|binary_cross_entropy\w*")
LOADERS = re.compile(r"load|batch|(?<![a-z])dl|dataiter", re.IGNORECASE)
MEANS = {"mean", "fmean", "average", "nanmean"}
WEIGHTS = {"weights", "weight"}
WRAPPERS = {"enumerate", "tqdm", "track", "islice", "iter"}
DEEP = 4

Kind = Literal["whole", "perplexity", "root", "means", "last"]


@dataclass(frozen=True)
class Averaged:
    """One such metric: where it is added up, what is added, and whether the whole differs from the mean by its nature.

    "whole" is of a metric that is none of single rows, such as F1; "perplexity" and "root" apply a bent function to
    each batch; "means" are of batches that count the same however large they are; "last" is left of the last one.
    """

    line: Line
    kind: Kind
    metric: str


def averaged(line: Line, known: bool = False) -> Iterator[Averaged]:
    """What the innermost loop around a pass averages; nothing of a loop that trains.

    Unless it is ``known`` to go through a loader, the loop must say so by the name of what it goes through.
    """
    scope = scope_of(line)
    loops = loops_around(scope, line.number) if scope is not None else []
    if scope is None or not loops or not (known or names_a_loader(loops[0])):
        return
    if any(called(node) == "backward" for node in ast.walk(loops[0])):
        return
    around = Around(scope, loops[0])
    for node, target, value in around.sums():
        parts = around.resolved(value)
        if kind := kind_of(parts, value, around, target):
            yield Averaged(Line(line.file, node.lineno), kind, metric_of(kind, parts))


@dataclass(frozen=True)
class Around:
    """A loop over batches and the function that it stands in."""

    scope: Scope
    loop: ast.For

    def sums(self) -> Iterator[tuple[ast.stmt | ast.expr, str, ast.expr]]:
        """What is added up or appended in the loop: the place, to what, and the value."""
        for node in ast.walk(self.loop):
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                yield node, ast.unparse(node.target), node.value
            elif isinstance(node, ast.Call) and called(node) == "append" and len(node.args) == 1:
                if isinstance(node.func, ast.Attribute):
                    yield node, ast.unparse(node.func.value), node.args[0]
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
                target, left = ast.unparse(node.targets[0]), ast.unparse(node.value.left)
                if isinstance(node.value.op, ast.Add) and target == left:
                    yield node, target, node.value.right

    def resolved(self, value: ast.expr) -> list[ast.AST]:
        """An expression with all that its names were given in the loop."""
        given: dict[str, list[ast.expr]] = {}
        for node in ast.walk(self.loop):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                given.setdefault(node.targets[0].id, []).append(node.value)
        found, todo, seen = list[ast.AST](), [value], set[str]()
        for _ in range(DEEP):
            parts = [part for one in todo for part in ast.walk(one)]
            found += parts
            names = {one.id for one in parts if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)} - seen
            seen |= names
            todo = [one for name in sorted(names) for one in given.get(name, ()) if not self.is_pass(one)]
        return found

    def is_pass(self, value: ast.expr) -> bool:
        """Whether an expression runs the model, whose inner life is not looked at."""
        return isinstance(value, ast.Call) and called(value) in ("model", "net", "forward")

    def divisors(self, target: str) -> Iterator[ast.expr]:
        """By what a sum is divided in the function."""
        for node in ast.walk(self.scope):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and self.is_divided(node, target):
                yield node.right
            is_division = isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div)
            if isinstance(node, ast.AugAssign) and is_division and ast.unparse(node.target) == target:
                yield node.value

    def is_divided(self, node: ast.BinOp, target: str) -> bool:
        """Whether a division is one of a sum, and surely made."""
        return mentions(node.left, target) and not may_be_skipped(self.scope, node, target, self.loop.lineno)

    def is_averaged(self, target: str) -> bool:
        """Whether a sum is divided by anything, or the mean of a list is taken."""
        return any(True for _ in self.divisors(target)) or self.has_mean(target)

    def has_mean(self, target: str, weighted: bool = True) -> bool:
        """Whether the mean of a list is taken; one with weights counts unless that is not meant."""
        calls = (node for node in ast.walk(self.scope) if called(node) in MEANS and isinstance(node, ast.Call))
        calls = (one for one in calls if weighted or not (WEIGHTS & {word.arg for word in one.keywords}))
        return any(
            (about := subject_of(one)) is not None
            and mentions(about, target)
            and not may_be_skipped(self.scope, one, target, self.loop.lineno)
            for one in calls
        )

    def counts_batches(self, target: str) -> bool:
        """Whether a sum is divided by the number of batches, or the mean over them is taken, whatever is chosen."""
        counters = {
            ast.unparse(node.target)
            for node in ast.walk(self.loop)
            if isinstance(node, ast.AugAssign) and isinstance(node.value, ast.Constant) and node.value.value == 1
        }
        source = ast.unparse(iterated(self.loop.iter))
        batches = {f"len({source})", f"len({target})", *counters}
        return any(batches & texts(one) for one in self.divisors(target)) or self.has_mean(target, weighted=False)


def kind_of(parts: list[ast.AST], value: ast.expr, around: Around, target: str) -> Kind | None:
    """How a value that is added up is no share of the whole, if it is not."""
    if not around.is_averaged(target):
        return None
    names = [called(node) for node in parts]
    if any(WHOLE.fullmatch(name) for name in names):
        return "whole"
    if bent(parts, "exp", ("cross_entropy", "loss", "criterion")):
        return "perplexity"
    if bent(parts, "sqrt", ("mse_loss", "criterion", "loss_fn", "mean")):
        return "root"
    return "means" if is_mean(parts, value) and around.counts_batches(target) else None


def bent(parts: list[ast.AST], function: str, inner: tuple[str, ...]) -> bool:
    """Whether ``exp`` or ``sqrt`` is taken of the mean over a batch."""
    for node in parts:
        if isinstance(node, ast.Call) and called(node) == function and (about := subject_of(node)) is not None:
            calls = [one for one in ast.walk(about) if isinstance(one, ast.Call)]
            named = {one.id for one in ast.walk(about) if isinstance(one, ast.Name)}
            means = [one for one in calls if called(one) in inner and not (called(one) == "mean" and one.args)]
            if means or (function == "exp" and any("loss" in name or name in ("ce", "nll") for name in named)):
                return True
    return False


def is_mean(parts: list[ast.AST], value: ast.expr) -> bool:
    """Whether a value is a mean over a batch that is not multiplied by its size."""
    if any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) for node in ast.walk(value)):
        return False
    if any(is_by_size(node, ast.Mult) for node in parts):
        return False
    names = {called(node) for node in parts}
    if names & {"sum", "tolist", "numpy", "cat"}:
        return any(is_by_size(node, ast.Div) for node in parts)
    return any(MEAN.fullmatch(name) for name in names)


def is_by_size(node: ast.AST, operation: type[ast.operator]) -> bool:
    """Whether something is divided or multiplied by the number of rows of a batch."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, operation):
        return False
    sides = (node.right, node.left) if operation is ast.Mult else (node.right,)
    inside = (one for side in sides for one in ast.walk(side))
    return any(called(one) in ("len", "size", "numel") or getattr(one, "attr", "") == "shape" for one in inside)


def metric_of(kind: Kind, parts: list[ast.AST]) -> str:
    """What the metric is called."""
    if kind == "whole":
        return next(called(node) for node in parts if WHOLE.fullmatch(called(node)))
    return {"perplexity": "the exponential of a loss", "root": "the root of a mean"}.get(kind, "a mean")


def names_a_loader(loop: ast.For) -> bool:
    """Whether a loop goes through something that is called a loader or batches."""
    return LOADERS.search(ast.unparse(iterated(loop.iter))) is not None


def iterated(value: ast.expr) -> ast.expr:
    """What a loop goes through, out of ``enumerate`` and progress bars."""
    while isinstance(value, ast.Call) and called(value) in WRAPPERS and value.args:
        value = value.args[0]
    return value


def subject_of(call: ast.Call) -> ast.expr | None:
    """What a function is about, also one of ``math`` and ``statistics``."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(owner, ast.Name) and owner.id in ("math", "statistics", "numpy"):
        return call.args[0] if call.args else None
    return subject(call)


def mentions(node: ast.AST, target: str) -> bool:
    """Whether an expression reads what a sum is kept in."""
    return target in texts(node) or target in loaded(node)
