"""X1024: a normalization in training mode gets one value per channel."""

from __future__ import annotations

import ast

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.creations import crash_files, find_layer_creation
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.frames import CrashFrame
from nbdebug.crashes.last_batches import drop_last_batch, loader_calls
from nbdebug.finding import Edit, format_module
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import insert_before, replace_node
from nbdebug.source.search import call_name, enclosing_loops, enclosing_scope, read_names, syntax_tree


@crash_rule("X1024")
def single_value_normalization(crash: Crash) -> CrashCause | None:
    """A normalization that needs the statistics of its input gets a single value per channel.

    ## What it does
    Reads the input of the normalization that raised: its number of samples, and the size of its maps.

    ## Why it matters
    The variance of one value is undefined, so the layer cannot run in training mode.

    ## How it is measured
    Exactly, by the shape of the input and the mode of the layer.

    ## How to fix
    Use batches of two samples or more, ``drop_last=True``, or ``model.eval()`` for predictions.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.nn.BatchNorm1d.
    """
    layer, input = crash.layer, crash.layer_input
    if not isinstance(input, Tensor):
        input = crash.local("input")
    if "value per channel" not in crash.message and "spatial element" not in crash.message:
        return None
    if not isinstance(input, Tensor):
        return None
    path = crash.path(layer)
    name = f"The normalization {format_module(path)}" if path else "The normalization"
    name += f" ({type(layer).__name__})" if layer is not None else ""
    message = f"{name} gets one value per channel: its input is {describe_tensor(input)}."
    if "spatial" in crash.message:
        cause = "Its maps have one pixel (1 × 1 spatial size), so there is nothing to normalize over: leave this "
        cause += "normalization out, or keep larger maps before it."
        creation = find_layer_creation(crash, layer)
        edits: tuple[Edit, ...] = ()
        if creation is not None:
            edits = (replace_node(creation.file, creation.call, "nn.Identity()"),)
        modules = {layer: nn.Identity()} if layer is not None and edits else {}
        fix = "" if edits else "Put nn.Identity() in the place of the normalization."
        return CrashCause(message, cause, fix, edits, modules, module=path)
    edits, cause, fix = _repair(crash, input)
    return CrashCause(message, cause, "" if edits else fix, edits, module=path)


def _repair(crash: Crash, input: Tensor) -> tuple[tuple[Edit, ...], str, str]:
    frame = next(
        iter([f for f in crash.user_frames() if not isinstance(f.variables.get("self"), nn.Module)]), crash.own
    )
    if frame is None:
        return (), "A batch of one sample has no variance.", "Create the loader with drop_last=True."
    scope = enclosing_scope(frame.line)
    loops = enclosing_loops(scope, frame.number) if scope is not None else []
    trains = any(call_name(n) == "backward" for loop in loops for n in ast.walk(loop)) or any(
        call_name(n) == "backward" for n in (ast.walk(scope) if isinstance(scope, ast.FunctionDef) else ())
    )
    if not trains and isinstance(frame.statement, ast.stmt):
        model = next((k for k, v in frame.variables.items() if isinstance(v, nn.Module) and v is crash.root), "model")
        cause = "This is no training step, and the model is in training mode: call eval() before predictions."
        return (insert_before(frame.file, frame.statement.lineno, f"{model}.eval()"),), cause, ""
    loaders = loader_calls(crash)
    if [_batch_size(node) for _, node in loaders] != [1] and (edits := drop_last_batch(crash)):
        return edits, "The last batch of the epoch has one sample: drop it.", ""
    if not loaders and loops and input.dim() == 2 and (name := _batch_name(frame)) is not None:
        cause = "The last batch has one sample: leave it out."
        text = f"if len({name}) < 2:\n    continue"
        return (insert_before(frame.file, frame.statement.lineno, text),), cause, ""  # type: ignore[union-attr]
    for file in sorted(crash_files(crash)):
        for node in ast.walk(syntax_tree(file) or ast.Module([], [])):
            value = getattr(node, "value", None)
            if isinstance(value, ast.Constant) and value.value == 1 and isinstance(node, (ast.Assign, ast.keyword)):
                name = node.arg if isinstance(node, ast.keyword) else ast.unparse(node.targets[0])
                if name in ("batch_size", "bs", "BATCH_SIZE"):
                    cause = "Batches have one sample (batch_size=1); its statistics need two or more."
                    return (replace_node(file, value, "2"),), cause, ""
    return (
        (),
        "A batch of one sample has no variance.",
        "Create the loader with batch_size=2 or more and drop_last=True.",
    )


def _batch_name(frame: CrashFrame) -> str | None:
    """Return the variable that the statement reads and that holds a batch of one sample."""
    statement = frame.statement
    names = read_names(statement) if isinstance(statement, (ast.Assign, ast.Expr, ast.AugAssign)) else set()
    values = {name: frame.variables.get(name) for name in sorted(names)}
    return next((n for n, v in values.items() if isinstance(v, Tensor) and v.dim() > 0 and len(v) == 1), None)


def _batch_size(call: ast.Call) -> object:
    argument = next((k.value for k in call.keywords if k.arg == "batch_size"), None)
    return getattr(argument if argument is not None else (call.args[1] if len(call.args) > 1 else None), "value", None)


def _batches(size: int) -> Setup:
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())
    with torch.random.fork_rng(devices=[]):
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    other = minimal_setup(model, x, y, nn.CrossEntropyLoss())
    other.train_loader = torch.utils.data.DataLoader(setup.train_loader.dataset, batch_size=size)
    return other


def bad() -> Setup:
    """Batches of one sample."""
    return _batches(1)


def good() -> Setup:
    """Batches of sixteen samples."""
    return _batches(16)
