"""``%%watch``: the user's own training cell, run inside a watch.

The cell becomes ``with … as run:`` around its own statements, put there after they were parsed. So they run where they
would run without the magic: with the lines and tracebacks of the cell, its names, its ``await`` and its last value.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from nbdebug.magics.words import parsed, shell

MAGIC = re.compile(r"%%watch(?:\s+(?P<options>.*))?$")
OPENING = '__import__("nbdebug.magics").magics.watching'


def watch(line: str, cell: str) -> None:
    """Watches the training loop in this cell; its result is drawn below while it runs.

    %%watch [dbg] [--every N] [--budget 0.01] [--match "conv*"] [--stop-on error|warning]

    dbg        a nbdebug.Debugger; the only one there is, if left out
    --every    measure every so many steps
    --budget   the share of the time that watching may cost; of short steps only the loss is kept then
    --match    only the modules and parameters whose names fit
    --stop-on  end the loop at the first error, or at the first warning too

    The watch is named run, in the cell and after it: run.log(accuracy=0.9), run.result.
    """
    ip = shell()
    text = ip.transform_cell("".join(head([f"%%watch {line}\n", *cell.splitlines(keepends=True)])))
    name = ip.compile.cache(text, len(ip.user_ns["In"]) - 1)
    exec(ip.compile(ip.transform_ast(ip.compile.ast_parse(text, filename=name)), name, "exec"), ip.user_ns)


def watching(line: str) -> Any:
    """The watch that the line of a cell asks for."""
    debugger, options = parsed("%watch", shell().var_expand(line))
    return debugger.watch(**options)


def head(lines: list[str]) -> list[str]:
    """The lines of a cell, with the opening of a block in place of ``%%watch``; other cells as they are."""
    found = MAGIC.match(lines[0].rstrip()) if lines else None
    if found is None:
        return lines
    from IPython.core.inputtransformer2 import cell_magic

    return [f"with {OPENING}({found['options'] or ''!r}) as run: ...\n", *cell_magic(lines[1:])]  # type: ignore[no-untyped-call]


class Body:
    """Moves the statements of a watched cell into its block; the last value is shown, as without the block."""

    def visit(self, tree: Any) -> Any:
        """The tree of a cell, changed in place."""
        if isinstance(tree, ast.Module) and tree.body[1:] and opens(tree.body[0]):
            block, *body = tree.body
            if isinstance(body[-1], ast.Expr) and shell().ast_node_interactivity != "none":
                body[-1].value = shown(body[-1].value)
            block.body, tree.body = body, [block]  # type: ignore[attr-defined]
        return tree


def opens(node: ast.stmt) -> bool:
    """Whether a statement is the opening of a watched cell."""
    if not isinstance(node, ast.With):
        return False
    call = node.items[0].context_expr
    return isinstance(call, ast.Call) and ast.dump(call.func) == ast.dump(ast.parse(OPENING, mode="eval").body)


def shown(value: ast.expr) -> ast.expr:
    """The call that shows a value under its cell and keeps it in ``_``."""
    show = ast.parse('__import__("sys").displayhook', mode="eval").body
    return ast.copy_location(ast.Call(show, [value], []), value)
