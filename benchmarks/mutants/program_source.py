"""A program's text together with the record of its run: the parts of a training program by role."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from benchmarks.mutants.source import Edit, Located, Mutation, SourceText

_Node = TypeVar("_Node", bound=ast.AST)
_KINDS = {
    "cross_entropy": "cross-entropy",
    "nll_loss": "nll",
    "binary_cross_entropy": "bce",
    "binary_cross_entropy_with_logits": "bce-logits",
    **dict.fromkeys(("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"), "regression"),
}


class Update(NamedTuple):
    """The statements of one update of the weights that stand in one block."""

    zero_grad: ast.stmt | None
    backward: ast.stmt
    step: ast.stmt


@dataclass
class ProgramSource(SourceText):
    """A program and its call sites. Nodes on lines that never run are not part of it."""

    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Index expressions by their end."""
        super().__post_init__()
        self._run_lines = set(self.record["lines"])
        self._by_end: dict[tuple[int, int], list[ast.expr]] = {}
        for node in self.nodes(ast.expr):
            if node.end_lineno is not None and node.end_col_offset is not None:
                self._by_end.setdefault((node.end_lineno, node.end_col_offset), []).append(node)

    # Roles

    def role(self, *names: str) -> list[ast.expr]:
        """Return the expressions that had one of these roles, calls before other expressions, in textual order."""
        positions = {tuple(position) for name in names for position in self.record["roles"].get(name, ())}
        nodes = [node for position in positions if (node := self._expression(position)) is not None]
        return sorted(nodes, key=lambda node: (node.lineno, node.col_offset))

    def calls(self, *names: str) -> list[ast.Call]:
        """Return the calls that had one of these roles."""
        return [node for node in self.role(*names) if isinstance(node, ast.Call)]

    def _expression(self, position: Any) -> ast.expr | None:
        nodes = self._by_end.get((position[0], position[1]), [])
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        return (calls or nodes or [None])[0]

    def statements(self, *roles: str) -> list[ast.stmt]:
        """Return the expression statements that consist of a call of one of these roles."""
        return [
            parent
            for call in self.calls(*roles)
            if isinstance(parent := self.parents[call], ast.Expr) and not isinstance(parent, ast.Lambda)
        ]

    def owners(self, node: Located, table: str = "made") -> list[str]:
        """Return the names of the submodules that a node makes, or with ``table="called"`` calls."""
        return list(self.record[table].get(f"{node.end_lineno}:{node.end_col_offset}", ()))

    def owners_within(self, node: ast.AST, table: str = "called") -> list[str]:
        """Return the names of all submodules that the calls in a node call or make."""
        calls = self.nodes(ast.Call, within=node)
        return [name for call in calls for name in self.owners(call, table) if name]

    def made_by(self, *classes: str) -> list[ast.Call]:
        """Return the constructor calls of submodules whose class has one of these names."""
        return [call for call in self.nodes(ast.Call) if callee(call) in classes and any(self.owners(call))]

    def runs(self, node: Located) -> bool:
        """Check whether the first line of a node runs."""
        return node.lineno in self._run_lines

    def run_nodes(self, kind: type[_Node], within: ast.AST | None = None) -> Iterator[_Node]:
        """Yield the nodes of a kind on lines that run."""
        for node in self.nodes(kind, within):
            if isinstance(node, (ast.expr, ast.stmt)) and self.runs(node):
                yield node

    # Parts of a training program

    def has_local_mask(self) -> bool:
        """Check whether a mask hides positions on both sides of each one, so that none of its sides is the future."""
        return any(
            {"triu", "tril"} <= {callee(call) for call in self.nodes(ast.Call, within=statement)}
            for statement in self.run_nodes(ast.stmt)
            if not isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.For, ast.While, ast.If, ast.With))
        )

    def root(self) -> ast.Call | None:
        """Return the constructor call of the whole model."""
        calls = [call for call in self.nodes(ast.Call) if "" in self.owners(call)]
        return calls[0] if calls else None

    def loaders(self, split: str) -> list[ast.Call]:
        """Return the constructor call of the loader of a split, if its statement makes only that loader."""
        calls = [call for call in self.calls("loader") if split in self.owners(call)]
        return [call for call in calls if self.argument(call, "dataset", 0) is not None]

    def optimizers(self) -> list[ast.Call]:
        """Return the constructor calls of optimizers."""
        return [call for call in self.calls("optimizer") if call.args or call.keywords]

    def loss_kind(self) -> str | None:
        """Return the kind of the only loss function: cross-entropy, nll, bce, bce-logits or regression."""
        kinds = {_KINDS.get(name, name) for name in self.record["losses"]}
        return kinds.pop() if len(kinds) == 1 else None

    def losses(self) -> list[ast.Call]:
        """Return the calls of the training loss with an output and a target."""
        return [call for call in self.calls("loss") if len(call.args) >= 2 and not has_starred(call)]

    def model_calls(self) -> list[ast.Call]:
        """Return the calls of the whole model in training."""
        calls = [call for call in self.calls("forward") if "" in self.owners(call, "called")]
        return [call for call in calls if call.args]

    def updates(self) -> Iterator[Update]:
        """Yield each optimizer step with the backward pass before it in the same block."""
        for step in self.statements("step"):
            block = self.block(step)
            earlier = block[: block.index(step)]
            backward = next((s for s in reversed(self.statements("backward")) if s in earlier), None)
            zero_grad = next((s for s in self.statements("zero_grad") if s in block), None)
            if backward is not None:
                yield Update(zero_grad, backward, step)

    def training_loops(self) -> list[ast.For | ast.While]:
        """Return the innermost loops around backward passes."""
        loops = [self.loop_around(call) for call in self.role("backward")]
        return [loop for loop in dict.fromkeys(loops) if loop is not None]

    def loop_around(self, node: ast.AST) -> ast.For | ast.While | None:
        """Return the innermost loop around a node."""
        parent = self.above(node, ast.For, ast.While)
        return parent if isinstance(parent, (ast.For, ast.While)) else None

    def iterations(self, split: str) -> list[ast.expr]:
        """Return the expressions that are iterated over and read the loader of a split, without enumerate and alike."""
        nodes = []
        for node in self.role("iteration"):
            while isinstance(node, ast.Call) and node.args and not isinstance(node.args[0], ast.Starred):
                node = node.args[0]
            if split in self._splits_read(node):
                nodes.append(node)
        return nodes

    def _splits_read(self, node: ast.expr) -> list[str]:
        parent: ast.AST = node
        while isinstance(parent, ast.expr):
            if names := self.owners(parent, "called"):
                return names
            parent = self.parents[parent]
        return []

    def forwards(self) -> list[ast.FunctionDef]:
        """Return the forward methods that run."""
        functions = self.nodes(ast.FunctionDef)
        return [f for f in functions if f.name == "forward" and any(map(self.runs, f.body))]

    def output_expressions(self) -> list[tuple[ast.expr, list[str]]]:
        """Return the expression that gives the output of the model, with the name of its module if it is a layer."""
        root = self.root()
        if root is None:
            return []
        if callee(root) == "Sequential" and root.args and not has_starred(root):
            return [(root.args[-1], [str(len(root.args) - 1)])]
        for node in self.nodes(ast.ClassDef):
            if node.name == callee(root):
                forward = next((f for f in self.forwards() if f in node.body), None)
                returns = self.run_nodes(ast.Return, within=forward) if forward is not None else ()
                return [(r.value, []) for r in returns if r.value is not None and not isinstance(r.value, ast.Tuple)]
        return []


def callee(call: ast.Call) -> str | None:
    """Return the last part of the name of the called function."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else None


def receiver(statement: ast.stmt) -> ast.expr | None:
    """Return the object whose method a statement calls."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    return function.value if isinstance(function, ast.Attribute) else None


def has_starred(call: ast.Call) -> bool:
    """Check whether a call passes ``*args`` or ``**kwargs``."""
    return any(isinstance(argument, ast.Starred) for argument in call.args) or any(k.arg is None for k in call.keywords)


def mutate(*edits: Edit | None, blamed: Sequence[Located | None] = (), modules: Sequence[str | None] = ()) -> Mutation:
    """Return a mutation; absent edits, nodes and names are left out."""
    return Mutation(
        [edit for edit in edits if edit is not None],
        [node for node in blamed if node is not None],
        [name for name in modules if name],
    )
