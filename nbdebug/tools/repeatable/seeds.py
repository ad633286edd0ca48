"""Whether a generator was seeded: by its own record, or by the user's source."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from nbdebug.setup import Setup
from nbdebug.source.notebook_cells import current_cells
from nbdebug.source.search import call_name, syntax_tree

GLOBAL_GENERATORS = ("random", "numpy.random", "torch")
_LONGEST_SEED = 2**32  # seeds set by hand are shorter; those from the operating system have 64 or 128 bits


def is_unseeded(generator: Any) -> bool | None:
    """Return whether a generator took its seed from the operating system; None if it does not tell.

    NumPy records the seed of each generator, except those seeded in the old way, and torch does too.
    """
    if isinstance(generator, torch.Generator):
        return generator.initial_seed() >= _LONGEST_SEED and generator.initial_seed() != _DEFAULT_SEED
    if isinstance(generator, random.SystemRandom):
        return True
    if isinstance(generator, random.Random):
        return None
    bits = getattr(generator, "bit_generator", None) or getattr(generator, "_bit_generator", generator)
    sequence = getattr(bits, "seed_seq", None)
    if sequence is None:
        return False
    entropy = getattr(sequence, "entropy", None)
    return isinstance(entropy, int) and entropy >= _LONGEST_SEED


_DEFAULT_SEED = 67280421310721  # of torch.Generator(), in each process


def is_unseeded_global(name: str, files: Iterable[str]) -> bool:
    """Return whether a global generator was never seeded.

    Python's own does not tell; it counts as unseeded if the user's files contain no call that may seed it.
    """
    if name == "torch":
        return torch.initial_seed() >= _LONGEST_SEED
    if name == "numpy.random":
        return bool(is_unseeded(np.random.mtrand._rand))
    trees = [tree for file in files if (tree := syntax_tree(file)) is not None]
    return bool(trees) and not any(_may_seed_python(node) for tree in trees for node in ast.walk(tree))


def _may_seed_python(node: ast.AST) -> bool:
    """Return whether a call may seed Python's global generator: ``random.seed`` or a function of such a name."""
    name = call_name(node).lower()
    if "seed" not in name and name != "setstate":
        return False
    owner = ast.unparse(node.func).rpartition(".")[0] if isinstance(node, ast.Call) else ""
    return owner.partition(".")[0] not in ("torch", "np", "numpy") and name != "manual_seed"


def source_files(setup: Setup) -> list[str]:
    """Return the files and the cells of the user's program."""
    return [*dict.fromkeys([*setup.files, *current_cells()])]


def creates_unseeded(files: Iterable[str]) -> bool:
    """Return whether the user's files create a ``random.Random()`` without a seed."""
    trees = [tree for file in files if (tree := syntax_tree(file)) is not None]
    return any(
        isinstance(node, ast.Call) and call_name(node) == "Random" and not node.args and not node.keywords
        for tree in trees
        for node in ast.walk(tree)
    )
