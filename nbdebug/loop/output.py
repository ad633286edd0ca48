"""Which expressions of a function hold what the model gives, as it is."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass

from torch import Tensor

from nbdebug.loop.reading import Scope, called, spans, subject

# They leave the shape and which value is the largest as they are.
WRAPPERS = {"softmax", "log_softmax", "sigmoid", "detach", "cpu", "float", "contiguous", "exp"}
TORCHS = {"torch", "F", "np", "nn", "math"}


@dataclass(frozen=True)
class Output:
    """The output of the model in one function, which is called at some lines there."""

    scope: Scope
    lines: frozenset[int]

    def is_held_by(self, value: ast.AST) -> bool:
        """Whether an expression is the output, perhaps through calls that keep its shape and order."""
        while True:
            if isinstance(value, ast.Name):
                return value.id in self.names
            if isinstance(value, ast.Attribute) and value.attr in ("data", "logits"):
                value = value.value
            elif isinstance(value, ast.Call) and called(value) in WRAPPERS and (inner := subject(value)) is not None:
                value = inner
            else:
                return self.is_call(value)

    @property
    def names(self) -> set[str]:
        """The names that hold it and never anything else."""
        given = [node for node in ast.walk(self.scope) if isinstance(node, ast.Assign) and self.is_call(node.value)]
        here = [(target.id, node.lineno) for node in given for target in node.targets if isinstance(target, ast.Name)]
        stores = [n for n in ast.walk(self.scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        return {name for name, _ in here if all((name, n.lineno) in here for n in stores if n.id == name)}

    def is_call(self, value: ast.AST) -> bool:
        """Whether an expression is the call of the model: the innermost one at those lines that is the user's own."""
        inner = (one for one in ast.walk(value) if one is not value)
        return self.is_users(value) and not any(map(self.is_users, inner))

    def is_users(self, value: ast.AST) -> bool:
        """Whether an expression is a call at those lines of what neither torch nor Python brings along."""
        name = called(value)
        if not isinstance(value, ast.Call) or name in WRAPPERS or hasattr(Tensor, name) or hasattr(builtins, name):
            return False
        owner = value.func.value if isinstance(value.func, ast.Attribute) else None
        of_torch = isinstance(owner, ast.Name) and owner.id in TORCHS
        return not of_torch and any(spans(value, number) for number in self.lines)
