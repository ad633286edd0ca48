"""X1011: an index is not in an embedding."""

from __future__ import annotations

import ast

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.creations import find_layer_creation, set_argument
from nbdebug.crashes.evaluation import UNKNOWN
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import wrap_at_source
from nbdebug.crashes.repairs import owner_of_parameter, resize_parameter
from nbdebug.finding import Edit, format_module
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.creation import Creation
from nbdebug.source.edits import node_text
from nbdebug.source.search import call_name

_EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)


@crash_rule("X1011")
def embedding_index_out_of_range(crash: Crash) -> CrashCause | None:
    """An embedding gets an index that it has no row for.

    ## What it does
    Reads the indices that met the embedding, and names the first one out of range with its sample.

    ## Why it matters
    The forward pass cannot run. On a GPU, a device-side assertion ends the process without naming the index.

    ## How it is measured
    Exactly, by the values of the indices and the number of rows.

    ## How to fix
    Give the embedding one row for each index, or renumber the indices from 0.

    ## When to ignore
    Never: there is no such row.

    ## References
    Documentation of torch.nn.Embedding: num_embeddings is the size of the dictionary.
    """
    indices, weight = crash.local("input", function="embedding"), crash.local("weight", function="embedding")
    if indices is UNKNOWN:
        indices, weight = (
            crash.local("input", function="embedding_bag"),
            crash.local("weight", function="embedding_bag"),
        )
    if not isinstance(indices, Tensor) or not isinstance(weight, Tensor) or indices.is_floating_point():
        return None
    rows = weight.shape[0]
    wrong = (indices < 0) | (indices >= rows)
    if indices.is_meta or not bool(wrong.any()):
        return None
    position = [int(number) for number in wrong.nonzero()[0].tolist()]
    value, low, high = int(indices[wrong][0]), int(indices.min()), int(indices.max())
    layer = crash.layer
    path = crash.path(layer)
    name = f"The embedding {format_module(path)}" if path else "The embedding"
    message = f"{name} has {rows} rows, 0…{rows - 1}; it got the index {value}, at position {position} of its input."
    cause = f"The indices run from {low} to {high}, so {high + 1} rows are needed (num_embeddings)."
    fix = f"num_embeddings={high + 1}"
    edits: tuple[Edit, ...] = ()
    modules: dict[nn.Module, nn.Module] = {}
    if low < 0:
        fix = "x = x.clamp(min=0)  # or give the missing entries an index of their own"
        cause = f"The indices run from {low} to {high}: negative ones mark nothing for an embedding."
        template = "{} + 1" if low == -1 and high + 1 < rows else "{}.clamp(min=0)"
        node = crash.input_node if isinstance(layer, nn.Module) else crash.argument_node("input", 0)
        edits = wrap_at_source(crash, node, template) if node is not None else ()
    elif isinstance(layer, _EMBEDDINGS) and (creation := find_layer_creation(crash, layer)) is not None:
        edits = (set_argument(creation, layer, "num_embeddings", _rows(creation, layer, rows, high + 1)),)
        modules = {layer: type(layer)(high + 1, layer.embedding_dim, padding_idx=layer.padding_idx, device="cpu")}
    elif owner_of_parameter(crash, weight) is not None and (edit := resize_parameter(crash, weight, rows, high + 1)):
        edits = (edit,)
    sample = position[0] if len(position) > 1 else None
    evidence = {"rows": rows, "valid": (0, rows - 1), "index": value, "position": position, "indices": (low, high)}
    return CrashCause(
        message, cause, "" if edits else fix, edits, modules, module=path, sample=sample, evidence=evidence
    )


def _rows(creation: Creation, layer: nn.Module, rows: int, needed: int) -> str:
    """Return the number of rows: counted from the user's expression, such as the length of a vocabulary, if any."""
    argument = creation.argument(layer, "num_embeddings")
    is_counted = isinstance(argument, ast.Call) and call_name(argument) == "len"
    return f"{node_text(creation.file, argument)} + {needed - rows}" if is_counted and argument else str(needed)


class _Bag(nn.Module):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(rows, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.embedding(x).mean(1))
        return out


def _tokens(rows: int) -> Setup:
    x, y = points()
    return minimal_setup(_Bag(rows), (x * 10).long().abs() % 20, y, nn.CrossEntropyLoss())


def bad() -> Setup:
    """Tokens up to 19 for an embedding of eight rows."""
    return _tokens(8)


def good() -> Setup:
    """Tokens up to 19 for an embedding of twenty rows."""
    return _tokens(20)
