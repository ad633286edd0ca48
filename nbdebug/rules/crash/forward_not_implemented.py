"""X1028: a module without a forward is called."""

from __future__ import annotations

import ast
from difflib import get_close_matches

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.creations import crash_files, find_layer_creation
from nbdebug.crashes.explanation import CrashCause
from nbdebug.finding import Edit, format_module
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.assignments import find_function
from nbdebug.source.edits import node_text, replace_node, wrap_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import syntax_tree


@crash_rule("X1028")
def forward_not_implemented(crash: Crash) -> CrashCause | None:
    """A module that has no ``forward`` is called: a list of modules, or a class whose method is misspelled.

    ## What it does
    Reads the class of the module that raised, and its methods.

    ## Why it matters
    The forward pass cannot run.

    ## How it is measured
    Exactly, by the class.

    ## How to fix
    Call the parts of a ``ModuleList`` one by one, or make a ``Sequential``; name the method ``forward``.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.nn.ModuleList.
    """
    layer = crash.layer if crash.layer is not None else next(reversed(crash.modules), None)
    if crash.kind == "NotImplementedError" and layer is None:
        return _dataset(crash)
    if crash.kind != "NotImplementedError" or layer is None or not _has_no_forward(layer):
        return None
    path = crash.path(layer)
    name = type(layer).__name__
    shown = f"{format_module(path)} ({name})" if path else name
    message = f"The module {shown} has no forward, so it cannot be called."
    if isinstance(layer, (nn.ModuleList, nn.ModuleDict)):
        cause = f"A {name} only holds modules: call each in a loop, or make a Sequential of them."
        creation = find_layer_creation(crash, layer)
        edits: tuple[Edit, ...] = ()
        if creation is not None and isinstance(layer, nn.ModuleList) and len(creation.call.args) <= 1:
            function = node_text(creation.file, creation.call.func).replace("ModuleList", "Sequential")
            edits = (
                replace_node(creation.file, creation.call.func, function),
                *(wrap_node(creation.file, argument, "*{}") for argument in creation.call.args),
            )
        return CrashCause(
            message, cause, "" if edits else "for block in self.blocks:\n    x = block(x)", edits, module=path
        )
    return _misspelled(crash, layer, message, path)


def _has_no_forward(layer: nn.Module) -> bool:
    return type(layer).forward is nn.Module.forward


def _dataset(crash: Crash) -> CrashCause | None:
    """Explain a dataset, or another class of torch, whose method the user has not defined under its name."""
    owner, method = crash.inner.variables.get("self"), crash.inner.function
    kind = type(owner)
    if owner is None or not crash.inner.is_torch or method in vars(kind) or kind.__module__.startswith("torch."):
        return None
    message = f"The class {kind.__name__} has no {method}, which is called here."
    near = get_close_matches(method, [name for name in vars(kind) if name != "__init__"], n=1, cutoff=0.6)
    code = getattr(vars(kind).get(near[0]), "__code__", None) if near else None
    function = find_function(code) if code is not None else None
    if code is None or not isinstance(function, ast.FunctionDef):
        return CrashCause(message, f"torch calls {method}.", f"Define {method} in the class.")
    column = function.col_offset + len("def ")
    edit = Edit(code.co_filename, function.lineno, column, function.lineno, column + len(function.name), method)
    return CrashCause(message, f"It defines {function.name}; torch calls {method}.", edits=(edit,))


def _misspelled(crash: Crash, layer: nn.Module, message: str, path: str | None) -> CrashCause:
    own = [k for k, v in vars(type(layer)).items() if callable(v) and not k.startswith("__")]
    near = [
        k for k in own if k.lower().startswith(("forwar", "foward", "fwd", "call", "__call")) or "forward" in k.lower()
    ]
    chosen = near[0] if near else own[0] if len(own) == 1 else None
    for file in sorted(crash_files(crash)):
        for node in ast.walk(syntax_tree(file) or ast.Module([], [])):
            if not isinstance(node, ast.ClassDef) or node.name != type(layer).__name__:
                continue
            functions = [n for n in node.body if isinstance(n, ast.FunctionDef)]
            method = next((n for n in functions if n.name == chosen), None)
            nested = [
                n for f in functions for n in ast.walk(f) if isinstance(n, ast.FunctionDef) and n.name == "forward"
            ]
            if nested:
                line = SourceLine(file, nested[0].lineno)
                cause = "forward is defined inside another method: its indentation is too deep."
                return CrashCause(
                    message, cause, "# move def forward to the level of def __init__", line=line, module=path
                )
            if method is not None:
                offset = 4 if not isinstance(method, ast.AsyncFunctionDef) else 10
                column = method.col_offset + offset
                edit = Edit(file, method.lineno, column, method.lineno, column + len(method.name), "forward")
                cause = f"The class {node.name} defines {chosen}; a module runs its method forward."
                return CrashCause(message, cause, edits=(edit,), module=path)
            line = SourceLine(file, node.lineno)
            return CrashCause(
                message,
                "The class defines no forward.",
                "Define forward(self, x) in the class.",
                line=line,
                module=path,
            )
    return CrashCause(
        message, "The class defines no method forward.", "Define forward(self, x) in the class.", module=path
    )


class _Blocks(nn.Module):
    def __init__(self, is_list: bool) -> None:
        super().__init__()
        blocks = [nn.Linear(4, 4), nn.Linear(4, 3)]
        self.blocks: nn.Module = nn.Sequential(*blocks)
        if is_list:
            self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.blocks(x)
        return out


def bad() -> Setup:
    """A list of modules that is called."""
    return minimal_setup(_Blocks(True), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A sequence of modules."""
    x, y = points()
    return minimal_setup(network(3), x, y, nn.CrossEntropyLoss())
