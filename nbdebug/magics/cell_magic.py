"""The cell magic %%watch."""

from __future__ import annotations

import ast
import re
from typing import Any

from nbdebug.magics.arguments import current_shell, parse_line

_WATCH_LINE = re.compile(r"%%watch(?:\s+(?P<options>.*))?$")
_BLOCK_OPENING = '__import__("nbdebug.magics").magics.watching'


def watch(line: str, cell: str) -> None:
    """Watch the training loop in this cell; the view below it is live while it runs.

    %%watch [dbg] [--every N] [--budget 0.01] [--match "conv*"] [--stop-on error|warning]

    dbg        a nbdebug.Debugger; may be omitted if there is only one
    --every    take a snapshot of every layer every N steps
    --budget   share of the time that watching may cost; when exceeded, steps record only their loss
    --match    only the modules and parameters whose names match
    --stop-on  end the loop at the first error, or also at the first warning

    The watch is named run, in the cell and after it: run.log(accuracy=0.9), run.result.
    """
    ip = current_shell()
    text = ip.transform_cell("".join(open_block([f"%%watch {line}\n", *cell.splitlines(keepends=True)])))
    name = ip.compile.cache(text, len(ip.user_ns["In"]) - 1)
    exec(ip.compile(ip.transform_ast(ip.compile.ast_parse(text, filename=name)), name, "exec"), ip.user_ns)


def watching(line: str) -> Any:
    """Create the watch for the options of a cell."""
    debugger, options = parse_line("%watch", current_shell().var_expand(line))
    return debugger.watch(**options)


def open_block(lines: list[str]) -> list[str]:
    """Replace the ``%%watch`` line of a cell by the opening of a block; other cells are unchanged."""
    match = _WATCH_LINE.match(lines[0].rstrip()) if lines else None
    if match is None:
        return lines
    from IPython.core.inputtransformer2 import cell_magic

    return [f"with {_BLOCK_OPENING}({match['options'] or ''!r}) as run: ...\n", *cell_magic(lines[1:])]  # type: ignore[no-untyped-call]


class BlockTransformer:
    """Moves the statements of a watched cell into its block; the last value is displayed as without the block."""

    def visit(self, tree: Any) -> Any:
        """Change the syntax tree of a cell in place."""
        if isinstance(tree, ast.Module) and tree.body[1:] and _opens_block(tree.body[0]):
            block, *body = tree.body
            if isinstance(body[-1], ast.Expr) and current_shell().ast_node_interactivity != "none":
                body[-1].value = _display_call(body[-1].value)
            block.body, tree.body = body, [block]  # type: ignore[attr-defined]
        return tree


def _opens_block(node: ast.stmt) -> bool:
    """Return whether a statement opens a watched cell."""
    if not isinstance(node, ast.With):
        return False
    call = node.items[0].context_expr
    return isinstance(call, ast.Call) and ast.dump(call.func) == ast.dump(ast.parse(_BLOCK_OPENING, mode="eval").body)


def _display_call(value: ast.expr) -> ast.expr:
    """Return a call that displays a value under its cell and stores it in ``_``."""
    show = ast.parse('__import__("sys").displayhook', mode="eval").body
    return ast.copy_location(ast.Call(show, [value], []), value)
