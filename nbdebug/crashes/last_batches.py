"""The loader of the user that gives a smaller last batch."""

from __future__ import annotations

import ast

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.creations import crash_files
from nbdebug.finding import Edit
from nbdebug.source.edits import append_argument
from nbdebug.source.search import call_name, syntax_tree


def loader_calls(crash: Crash) -> list[tuple[str, ast.Call]]:
    """Return the calls in the user's files that make a loader, with their files."""
    return [
        (file, node)
        for file in sorted(crash_files(crash))
        for node in ast.walk(syntax_tree(file) or ast.Module([], []))
        if isinstance(node, ast.Call) and call_name(node) == "DataLoader"
    ]


def drop_last_batch(crash: Crash) -> tuple[Edit, ...]:
    """Return the edit that leaves out the last batch of the only loader; empty if there are more, or it does so."""
    loaders = loader_calls(crash)
    options = [keyword.arg for _, call in loaders for keyword in call.keywords]  # None stands for **options
    if len(loaders) != 1 or {"drop_last", None} & {*options}:
        return ()
    file, call = loaders[0]
    return (append_argument(file, call, "drop_last=True"),)
