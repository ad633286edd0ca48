"""Changes of the options of the call that created an object of the setup."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from nbdebug.finding import Edit
from nbdebug.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.creation import Creation, find_creation
from nbdebug.source.edits import append_argument, replace_node
from nbdebug.source.search import call_name, search_files


def find_setup_creation(setup: Setup, created: object) -> Creation | None:
    """Return the only call in the user's files that can have created an object of the setup; None without one."""
    return find_creation(created, search_files(user_written_objects(setup))) if created is not None else None


def takes_options(creation: Creation) -> bool:
    """Return whether the options of a call can be changed there: it unpacks no arguments, and is no ``partial``."""
    return not creation.unpacks_arguments and call_name(creation.call) != "partial"


def change_options(creation: Creation, created: object, options: Mapping[str, str]) -> tuple[Edit, ...]:
    """Return the changes of some options of a call, given as code; those that it already has stay.

    An option whose value is computed or stored elsewhere, as in ``lr=config["lr"]``, gets its value in the call.
    """
    if not takes_options(creation):
        return ()
    edits = []
    for name, value in options.items():
        argument = creation.argument(created, name)
        if argument is None:
            edits.append(append_argument(creation.file, creation.call, f"{name}={value}"))
        elif ast.unparse(argument) != value:
            edits.append(replace_node(creation.file, argument, value))
    return tuple(edits)
