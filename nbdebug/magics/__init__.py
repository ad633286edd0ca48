"""The magics of nbdebug, such as ``%checkup``, ``%lr_range`` and ``%%watch``, with their completion."""

from __future__ import annotations

from typing import Any

from nbdebug.magics.cell import Body, head
from nbdebug.magics.cell import watching as watching
from nbdebug.magics.completion import complete
from nbdebug.magics.lines import MAGICS as MAGICS
from nbdebug.magics.words import OPTIONS as OPTIONS


def load_ipython_extension(ip: Any) -> None:
    """Registers the magics and their completion, in place of those of an earlier load."""
    unload_ipython_extension(ip)
    for name, magic in MAGICS.items():
        ip.register_magic_function(magic, "cell" if name.startswith("%") else "line", name.lstrip("%"))
    ip.Completer.custom_matchers.append(complete)
    # Before the one that makes a string of the text of a cell.
    ip.input_transformer_manager.line_transforms.insert(0, head)
    ip.ast_transformers.append(Body())


def unload_ipython_extension(ip: Any) -> None:
    """Takes away all that a load has put there."""
    for name in MAGICS:
        magics = ip.magics_manager.magics["cell" if name.startswith("%") else "line"]
        if ours(magics.get(name.lstrip("%"))):
            del magics[name.lstrip("%")]
    for kept in (ip.input_transformer_manager.line_transforms, ip.ast_transformers, ip.Completer.custom_matchers):
        kept[:] = [one for one in kept if not ours(one)]


def ours(value: Any) -> bool:
    """Whether a function or an object is of these magics, of this import or of another one."""
    return str(getattr(value, "__module__", "")).startswith(__name__)
