"""O504: the optimizer holds tensors that the model no longer has."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.conclusions import parameter_not_updated
from nbdebug.measurements.parameter_coverage import ParameterEntry, format_names
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.rules.optim.parameter_not_optimized import recreate_optimizer_fix
from nbdebug.setup import Setup
from nbdebug.setup.setup import optimized_parameters
from nbdebug.setup.source_lines import only_optimizer_line, replacement_line
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.location import SourceLine, get_location, get_related_lines
from nbdebug.source.search import call_name, find_unique_line, matches_replacement

_CONSEQUENCES = (
    "O503",
    "G409",
    "G414",
    "O506:no step",
    "R904",
    "T601",
    "T606",
    "T607",
    "T608",
    "T610",
    "M314",
    "O502",
    "T614",
)

_ASSIGNED = "load_state_dict(assign=True) replaced the parameters, and the optimizer still holds the earlier ones."
_MIN_TWIN_STEPS = 5  # of an optimizer of other tensors


@rule("O504", "error", origin="parameters")
def stale_optimizer(
    setup: Setup,
    parameters: list[ParameterEntry],
    optimizers: tuple[torch.optim.Optimizer, ...],
    loop: LoopSummary | NotChecked,
) -> Iterator[Finding]:
    """The optimizer holds tensors that the model no longer has.

    ## What it does
    Finds, by identity, tensors in the parameter groups that belong neither to the model nor to the loss. If they have
    the shapes of the parameters that the optimizer lacks, or if it holds no parameters of the model, it was created
    from an earlier model. In your own loop, it finds parameters that came into the model while it ran, such as those of
    a new head or of a state that was loaded with ``assign=True``, and that no optimizer holds; and steps of an
    optimizer that holds only other tensors of the same shapes, while the backward passes reach the model.

    ## Why it matters
    Every step updates weights that are not used: the loss stays at its initial value, and no error is raised. This
    happens in notebooks when the cell that builds the model is run again but the cell that builds the optimizer is not.

    ## How it is measured
    Exactly: by the identity of the tensors.

    ## How to fix
    Create the optimizer again, after the model.

    ## When to ignore
    Only a note is given if the foreign tensors may belong to another module that is trained together with the model.

    ## References
    Documentation of torch.optim: construct the optimizer after the model is on its final device.
    """
    uncovered_names = None
    if isinstance(loop, LoopSummary):
        if replaced := loop.uncovered_parameters.replaced:
            lines = loop.state_dict_loads.assign_line, loop.uncovered_parameters.registration_line
            yield _replaced_finding(setup, replaced, optimizers, *lines)
            return
        if _steps_twin(loop):
            yield _twin_finding(loop, parameters)
            return
        uncovered_names = {*loop.uncovered_parameters.never_held}
    known_ids = {id(entry.parameter) for entry in parameters} | {id(p) for p in _loss_parameters(setup)}
    optimized = optimized_parameters(*optimizers)
    foreign = [p for p in optimized if id(p) not in known_ids]
    missing = [entry for entry in parameters if entry.parameter.requires_grad and not entry.groups]
    if uncovered_names is not None:
        missing = [entry for entry in missing if entry.name in uncovered_names]
    if not foreign or (uncovered_names is not None and not missing):
        return
    is_stale = bool(missing) and (
        len(foreign) == len(optimized) or _have_shapes_of(foreign, [entry.parameter for entry in missing])
    )
    yield (
        _stale_optimizer_finding(setup, optimizers, foreign, missing) if is_stale else _foreign_tensors_finding(foreign)
    )


def _stale_optimizer_finding(
    setup: Setup,
    optimizers: tuple[torch.optim.Optimizer, ...],
    foreign: list[Tensor],
    missing: list[ParameterEntry],
) -> Finding:
    assigned = find_unique_line(_assigns_state, user_written_objects(setup)) if foreign else None
    line = assigned or replacement_line(setup, optimizers[0], missing[0].module, missing[0].name)
    is_partial = len(foreign) < sum(len(group["params"]) for item in optimizers for group in item.param_groups)
    return Finding(
        message=f"The optimizer holds {len(foreign)} tensors that do not belong to the model, "
        f"and lacks {len(missing)} that do: its steps have no effect on "
        f"{format_names(missing) if is_partial else 'the model'}.",
        where=get_location(line, missing[0].module, missing[0].name),
        related=get_related_lines((only_optimizer_line(setup) if line else None, "the optimizer is created here")),
        cause=_ASSIGNED
        if assigned
        else "Parameters of the model were replaced after the optimizer was created."
        if is_partial
        else "The model was built again after the optimizer was created."
        if line
        else "Either the model was built again after the optimizer was created, or the optimizer was created from "
        "another model, such as a copy.",
        fix=recreate_optimizer_fix(optimizers[0]) + ("   # after this line" if line else ""),
        evidence={"foreign": [tuple(p.shape) for p in foreign[:8]], "missing": [entry.name for entry in missing[:8]]},
        assumes=tuple(parameter_not_updated(entry.name) for entry in missing),
        explains=_CONSEQUENCES,
    )


def _assigns_state(node: ast.AST) -> bool:
    """Check whether a call loads a state whose tensors may take the place of the parameters."""
    keywords = node.keywords if isinstance(node, ast.Call) and call_name(node) == "load_state_dict" else []
    return any(keyword.arg == "assign" and getattr(keyword.value, "value", None) is not False for keyword in keywords)


def _steps_twin(loop: LoopSummary) -> bool:
    """Check whether only an optimizer of other tensors steps, although the backward passes reach the model."""
    is_trained = loop.steps or loop.changed or not loop.reaches_model
    return not is_trained and loop.twin_steps >= max(_MIN_TWIN_STEPS, loop.backward_passes / 2)


def _twin_finding(loop: LoopSummary, parameters: list[ParameterEntry]) -> Finding:
    """Report an optimizer that was created from another model of the same shapes."""
    trainable = [entry.name for entry in parameters if entry.parameter.requires_grad]
    return Finding(
        message=f"The optimizer that made {loop.twin_steps} steps after {loop.backward_passes} backward passes holds "
        f"no parameter of the model, but {len(trainable)} other tensors of the same shapes, so it does not train it.",
        where=get_location(loop.lines.get("backward"), None, trainable[0]),
        cause="The optimizer was created from another object of the same class: an earlier model, or a copy.",
        fix="Create the optimizer from the parameters of the model that is trained, after that model.",
        evidence={"steps": loop.twin_steps, "backward passes": loop.backward_passes},
        assumes=tuple(parameter_not_updated(name) for name in trainable),
        explains=_CONSEQUENCES,
    )


def _replaced_finding(
    setup: Setup,
    names: tuple[str, ...],
    optimizers: tuple[torch.optim.Optimizer, ...],
    assign_line: SourceLine | None,
    registration_line: SourceLine | None,
) -> Finding:
    """Report parameters that a loop replaced while the optimizer stayed the same."""
    module = names[0].rpartition(".")[0]
    line = assign_line or registration_line
    line = line or find_unique_line(matches_replacement(module.rpartition(".")[2]), user_written_objects(setup))
    return Finding(
        message=f"{len(names)} parameters ({', '.join(names[:4])}{', …' * (len(names) > 4)}) came into the model while "
        "your loop ran and have a gradient, but no optimizer holds them, so no step updates them.",
        where=get_location(line, module, names[0]),
        related=get_related_lines((only_optimizer_line(setup) if line else None, "the optimizer is created here")),
        cause=_ASSIGNED
        if assign_line
        else "A part of the model was replaced, and the optimizer still holds the parameters of the earlier part.",
        fix=recreate_optimizer_fix(optimizers[0]) + "   # after the replacement",
        evidence={"parameters": names[:8]},
        explains=_CONSEQUENCES,
    )


def _foreign_tensors_finding(foreign: list[Tensor]) -> Finding:
    return Finding(
        message=f"The optimizer also holds {len(foreign)} tensors that do not belong to the model.",
        cause="They may belong to another module that is trained together with the model.",
        evidence={"foreign": [tuple(p.shape) for p in foreign[:8]]},
        aspect="foreign tensors",
        severity="note",
    )


def _loss_parameters(setup: Setup) -> list[Tensor]:
    return list(setup.loss_fn.parameters()) if isinstance(setup.loss_fn, nn.Module) else []


def _have_shapes_of(foreign: list[Tensor], missing: list[nn.Parameter]) -> bool:
    return not Counter(tuple(p.shape) for p in missing) - Counter(tuple(p.shape) for p in foreign)


def bad() -> Setup:
    """An optimizer created from an earlier model of the same shape."""
    optimizer = torch.optim.SGD(network(3).parameters(), lr=0.1)
    return minimal_setup(network(3), *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))


def good() -> Setup:
    """An optimizer created from the model that is trained."""
    return classifier()
