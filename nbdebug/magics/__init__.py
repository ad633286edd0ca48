"""Registers the IPython magics."""

from __future__ import annotations

from typing import Any

from nbdebug.integrations.model_display import switch_in_ipython
from nbdebug.magics.arguments import OPTIONS as OPTIONS
from nbdebug.magics.arguments import complete
from nbdebug.magics.cell_magic import BlockTransformer, open_block
from nbdebug.magics.cell_magic import watching as watching
from nbdebug.magics.error_block import register_block, unregister_block
from nbdebug.magics.line_magics import MAGICS as MAGICS


def load_ipython_extension(ip: Any) -> None:
    """Register the magics and their completion, replacing those of an earlier load."""
    unload_ipython_extension(ip)
    for name, magic in MAGICS.items():
        ip.register_magic_function(magic, "cell" if name.startswith("%") else "line", name.lstrip("%"))
    ip.Completer.custom_matchers.append(complete)
    # Before the transform that turns the text of a cell into a string.
    ip.input_transformer_manager.line_transforms.insert(0, open_block)
    ip.ast_transformers.append(BlockTransformer())
    register_block(ip)


def unload_ipython_extension(ip: Any) -> None:
    """Remove everything that a load has registered."""
    unregister_block(ip)
    switch_in_ipython(ip, on=False)
    for name in MAGICS:
        magics = ip.magics_manager.magics["cell" if name.startswith("%") else "line"]
        if _is_nbdebug_object(magics.get(name.lstrip("%"))):
            del magics[name.lstrip("%")]
    for registry in (ip.input_transformer_manager.line_transforms, ip.ast_transformers, ip.Completer.custom_matchers):
        registry[:] = [item for item in registry if not _is_nbdebug_object(item)]


def _is_nbdebug_object(value: Any) -> bool:
    """Return whether a function or an object belongs to these magics, from any import of them."""
    return str(getattr(value, "__module__", "")).startswith(__name__)
