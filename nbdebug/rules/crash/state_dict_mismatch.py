"""X1026: the keys or sizes of a state dict do not fit the model."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.explanation import CrashCause
from nbdebug.finding import Edit
from nbdebug.formatting import join_names
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import append_argument, replace_node, wrap_node


@crash_rule("X1026")
def state_dict_mismatch(crash: Crash) -> CrashCause | None:
    """A state dict has other keys or sizes than the model that loads it.

    ## What it does
    Compares the keys and shapes of both, and looks for the mapping that fits: a prefix, a renamed layer, or a part.

    ## Why it matters
    The weights are not loaded.

    ## How it is measured
    Exactly, by keys and shapes.

    ## How to fix
    Rename the keys, pass the part that holds the weights, or create the model with the sizes of the checkpoint.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.nn.Module.load_state_dict.
    """
    if crash.phase != "load_state_dict" or crash.own is None:
        return None
    frame = next(f for f in crash.torch_frames if f.function == "load_state_dict")
    model, state = frame.variables.get("self"), frame.variables.get("state_dict")
    if not isinstance(model, nn.Module):
        return _optimizer(state, model, crash)
    if not isinstance(state, Mapping):
        message = f"load_state_dict takes a dictionary of tensors; it got {type(state).__name__}."
        return CrashCause(message, "The file holds something else.", "model.load_state_dict(torch.load(path))")
    own, given = model.state_dict(), dict(state)
    node = crash.input_node
    missing, extra = sorted(set(own) - set(given)), sorted(set(given) - set(own))
    inner = [key for key, value in given.items() if isinstance(value, Mapping) and set(own) & set(value)]
    if inner:
        text = f"The dictionary holds {', '.join(map(repr, list(given)[:5]))}; the weights are under {inner[0]!r}."
        edits = (wrap_node(crash.own.file, node, f'{{}}["{inner[0]}"]'),) if node is not None else ()
        return CrashCause(text, "It is a whole checkpoint: model, optimizer and epoch.", edits=edits)
    if part := _part(model, given):
        message = f"The {len(given)} entries of the checkpoint are those of {part}, a part of the model."
        owner = crash.call.func.value if crash.call is not None and isinstance(crash.call.func, ast.Attribute) else None
        name = "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in part.split("."))
        edits = (wrap_node(crash.own.file, owner, f"{{}}{name}"),) if owner is not None else ()
        return CrashCause(message, f"Load them into {part}.", edits=edits)
    for cause, template in _mappings(own, given, missing, extra):
        message = f"The checkpoint has {', '.join(extra[:3])}; the model has {', '.join(missing[:3])}."
        edits = (wrap_node(crash.own.file, node, template),) if node is not None else ()
        return CrashCause(message, cause, edits=edits)
    sizes = [k for k in own if k in given and getattr(given[k], "shape", None) != own[k].shape]
    if sizes:
        shapes = "; ".join(
            f"{k}: {[*given[k].shape]} in the checkpoint, {[*own[k].shape]} in the model" for k in sizes[:3]
        )
        cause = f"The sizes of {join_names(sizes, 3)} differ: the model was created with other arguments."
        cause += " Leave these out, or create the model with the sizes of the checkpoint."
        return CrashCause(f"{shapes}.", cause, edits=_fitting_part(crash, node))
    message = f"Missing in the checkpoint: {', '.join(missing[:4]) or 'nothing'}; unknown to the model: "
    message += f"{', '.join(extra[:4]) or 'nothing'}."
    cause = "The checkpoint is of another model; what both have can be loaded."
    return CrashCause(message, cause, edits=_fitting_part(crash, node))


def _part(model: nn.Module, given: Mapping[str, Any]) -> str:
    """Return the path of the part of a model whose keys and sizes a state dict has; "" if there is none."""
    for path, part in model.named_modules():
        own = part.state_dict()
        if path and own.keys() == given.keys() and all(own[k].shape == getattr(given[k], "shape", None) for k in own):
            return str(path)
    return ""


def _fitting_part(crash: Crash, node: ast.expr | None) -> tuple[Edit, ...]:
    """Return the edits of a call that load the entries of a state dict that have the sizes of the model."""
    call = crash.call
    if call is None or node is None or crash.own is None or not isinstance(call.func, ast.Attribute):
        return ()
    model, state = crash.text(call.func.value), crash.text(node)
    shapes = f"{{key: value.shape for key, value in {model}.state_dict().items()}}"
    text = f"{{key: value for key, value in {state}.items() if value.shape == {shapes}.get(key)}}"
    edit = replace_node(crash.own.file, node, text)
    if any(keyword.arg == "strict" for keyword in call.keywords):
        return (edit,)
    return edit, append_argument(crash.own.file, call, "strict=False")


def _mappings(own: Any, given: Any, missing: list[str], extra: list[str]) -> list[tuple[str, str]]:
    """Return the mapping of keys that fits, with its cause."""
    found = []
    for prefix in {key.split(".")[0] + "." for key in extra}:
        if {key.removeprefix(prefix) for key in given} == set(own):
            why = "DataParallel adds it" if prefix == "module." else "a wrapper adds it"
            template = f'{{{{key.removeprefix("{prefix}"): value for key, value in {{}}.items()}}}}'
            found.append((f"All keys have the prefix {prefix!r}; {why}.", template))
    for prefix in {key.split(".")[0] + "." for key in missing}:
        if {prefix + key for key in given} == set(own):
            template = f'{{{{"{prefix}" + key: value for key, value in {{}}.items()}}}}'
            found.append(
                (f"The keys of the model have the prefix {prefix!r}, and those of the checkpoint do not.", template)
            )
    olds, news = _layers(extra), _layers(missing)
    if not found and len(olds) == len(news) == 1:
        (old,), (new,) = olds, news
        renamed = {key.replace(f"{old}.", f"{new}.", 1) if key.startswith(f"{old}.") else key for key in given}
        if renamed == set(own):
            template = f'{{{{key.replace("{old}.", "{new}."): value for key, value in {{}}.items()}}}}'
            found.append((f"The layer {old} of the checkpoint is called {new} in the model.", template))
    return found


def _layers(keys: list[str]) -> list[str]:
    return sorted({key.rpartition(".")[0] for key in keys})


def _optimizer(state: Any, optimizer: Any, crash: Crash) -> CrashCause | None:
    """Explain a state of another optimizer."""
    groups = getattr(optimizer, "param_groups", None)
    saved = state.get("param_groups") if isinstance(state, Mapping) else None
    if groups is None or saved is None:
        return None
    counts = [sum(len(group["params"]) for group in own) for own in (saved, groups)]
    message = f"The state of the optimizer holds {counts[0]} parameters in {len(saved)} groups; "
    message += f"this optimizer has {counts[1]} in {len(groups)} groups."
    cause = "It was saved with another model, or with another part of its parameters."
    cause += " Create the optimizer of the same parameters, or start with a new state."
    statement = crash.own.statement if crash.own is not None else None
    if not isinstance(statement, ast.Expr) or crash.own is None:
        return CrashCause(message, cause, "Create the optimizer of the same parameters.")
    return CrashCause(message, cause, edits=(replace_node(crash.own.file, statement, "pass"),))


def bad() -> Setup:
    """A state dict with a prefix."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        network(3).load_state_dict({f"module.{key}": value for key, value in setup.model.state_dict().items()})
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that runs."""
    return classifier()
