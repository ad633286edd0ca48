"""M302: requires_grad is off, for parameters that should learn or that are frozen on purpose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Severity
from nbdebug.formatting import join_names
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.conclusions import LEARNS_POORLY
from nbdebug.loop_monitor.parameter_updates import FrozenSteps
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.frozen_initialization import FrozenInitialization
from nbdebug.measurements.parameter_coverage import ParameterEntry, common_parent, format_names, largest_part
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.rules.gradient_attributes import gradient_attribute_finding
from nbdebug.setup import Setup
from nbdebug.setup.attribute_paths import member_code
from nbdebug.setup.freezing_lines import freezing_line
from nbdebug.setup.optimizer_code import optimizer_code
from nbdebug.setup.setup import optimized_parameters
from nbdebug.source.location import SourceLine, get_location

_POOR_LEARNING = ("T601", "T606", "T607", "T608", "T610", "M314", "G409", "G414", "O502", "T614")
_CONSEQUENCES = ("L212", "O503", *_POOR_LEARNING)
_INDEX = re.compile(r"\d+")


@rule("M302", "note", asked_again=True)
def frozen_parameter(
    setup: Setup,
    parameters: list[ParameterEntry] | NotChecked,
    first_pass: ForwardPass | NotChecked,
    frozen_initialization: FrozenInitialization | NotChecked | None,
    loop: LoopSummary | NotChecked,
) -> Iterator[Finding]:
    """Parameters have requires_grad off, so no step updates them.

    ## What it does
    Lists the frozen parameters, as a note. If all parameters that the optimizer holds are frozen, this is an error,
    since no step changes anything. It is also an error if a watched loop freezes all parameters of an optimizer, as
    while another network takes its turn, and that optimizer still steps. A warning is given if the output module is
    frozen and only vectors (normalization, biases) are trainable, and if one of several similar parts is frozen
    although those before and after it are not. The note names a frozen layer that is as random as a new one while other
    frozen layers were trained. A frozen random embedding is a warning if all other parameters are trainable.

    It is also a warning if ``requires_grad`` was assigned to a module, which changes none of its parameters.

    ## Why it matters
    A frozen head cannot fit the labels, whatever the layers below it do; a frozen layer that was never trained is a
    random projection. The loss changes a little, with the batch statistics, and stays near chance.

    ## How it is measured
    Exactly, by ``requires_grad``. A watched loop is asked at each step of each optimizer: it is an error if one has
    trained something and none of its parameters requires a gradient in its last ten steps or more. Otherwise,
    parameters that the loop has changed are not frozen, whatever their flag is at its end, as for two networks that
    take turns. An optimizer that also trains tensors of another module, such as a head that was replaced, is covered by
    O503 and O504. The output module is the last module with its own parameters that starts to run in the first forward
    pass. Similar parts are parameters with two or more axes whose names differ only in numbers; a frozen one is
    reported if similar ones before and after it are trainable and more of them are trainable than frozen. A frozen
    matrix is as random as a new one if its values are inside the range of eight new initializations of its layer, and
    the statistic of Kolmogorov and Smirnov is below 2.5 (trained layers have 5 and more); the output must depend on it,
    and a frozen matrix of a layer of the same type must differ from a new one. It is a warning if tables of embeddings
    are the only frozen parameters, are all as random as new ones, and are no copies of trainable ones: nothing was
    loaded before they were frozen. Other layers that are all random, as random features, are notes, as are frozen
    backbones under a trainable head and low-rank adapters (whose matrices are trainable). A frozen adapter is a warning
    if it adds nothing yet: one of two frozen matrices of a module, or of two layers beside each other, is zero, and
    they share an axis at most half as long as their others. The note becomes a warning if a watched run learns less
    than the data allow and nothing else explains it.

    An attribute ``requires_grad`` of a module is reported if all parameters of the module have the other value and a
    line of yours sets it. It is not reported if your code also reads it or switches these parameters correctly,
    perhaps later. If the attribute is False, and other code sets it to True, as for networks in turns, it is a note.

    ## How to fix
    Freeze first and add the head afterwards, or turn ``requires_grad`` on for the parts that should learn.

    ## When to ignore
    When the part is meant to stay fixed: then this is the list to check.

    ## References
    PyTorch notes on autograd mechanics: setting requires_grad. Frankle et al. 2021, arXiv:2003.00152: training only the
    normalization layers reaches far less than training the whole model.
    """
    if isinstance(loop, LoopSummary) and loop.frozen_steps:
        yield _frozen_in_loop_finding(setup, loop.frozen_steps)
        return
    changed = loop.changed if isinstance(loop, LoopSummary) else frozenset()
    if not isinstance(parameters, NotChecked) and (
        finding := gradient_attribute_finding(setup, parameters, changed, _CONSEQUENCES)
    ):
        yield finding
        return
    if isinstance(parameters, NotChecked) or isinstance(first_pass, NotChecked):
        raise parameters if isinstance(parameters, NotChecked) else NotChecked(str(first_pass))
    frozen = [entry for entry in parameters if not entry.parameter.requires_grad and entry.name not in changed]
    if not frozen:
        return
    trainable = [entry for entry in parameters if entry not in frozen]
    in_optimizer = [entry for entry in parameters if entry.groups]
    frozen_head = [entry for entry in frozen if entry.module == _last_module(setup.eager_model, first_pass)]
    between_trainable, untrained = _frozen_between_trainable(parameters), _untrained_adapters(frozen)
    severity: Severity = "note"
    entries, headline = frozen, f"{len(frozen)} of {len(parameters)} parameters are frozen"
    if in_optimizer and all(entry in frozen for entry in in_optimizer) and not _has_foreign_tensors(setup, parameters):
        entries, severity = in_optimizer, "error"
        headline = f"All {len(in_optimizer)} parameters in the optimizer are frozen"
    elif frozen_head and all(entry.parameter.dim() < 2 for entry in trainable):
        entries, severity = frozen_head, "warning"
        headline = "The output module is frozen, and no matrix is trainable"
    elif between_trainable:
        entries, severity = between_trainable, "warning"
        headline = "Similar parts before and after it are trainable, but this one is frozen"
    elif untrained:
        entries, severity = untrained, "warning"
        headline = "Low-rank adapters are frozen although they add nothing yet, since one of their factors is zero"
    elif initial := _initial_entries(frozen_initialization, frozen):
        entries, severity = initial, "note"
        headline = "Frozen layers have the random weights of a new layer, although other frozen layers were trained"
        if not _has_trained(frozen_initialization):
            severity, headline = (
                "warning",
                "A frozen embedding is as random as a new one, and all other parameters are trainable",
            )
    fix = _fix(setup, largest_part(entries[-1], entries, parameters), trainable)
    if entries is untrained:
        fix = "Freeze the model before the adapters are put into it, or turn `requires_grad` on for the adapters."
    line = freezing_line(setup, [entry.parameter for entry in entries])
    yield _finding(line, entries, headline, trainable, severity, fix)


def _untrained_adapters(frozen: list[ParameterEntry]) -> list[ParameterEntry]:
    """Return the frozen matrices that are zero, each with the frozen matrix whose low-rank product with it is zero."""
    matrices = [entry for entry in frozen if entry.parameter.dim() == 2]
    zeros = [entry for entry in matrices if entry.parameter.numel() and not bool(entry.parameter.any())]
    factors = {
        id(part)
        for zero in zeros
        for other in matrices
        if other not in zeros and _owner(other) == _owner(zero) and _are_factors(zero.parameter, other.parameter)
        for part in (other, zero)
    }
    return [entry for entry in matrices if id(entry) in factors]


def _owner(entry: ParameterEntry) -> str:
    """Return the module that holds a parameter, or the one around it if it is a layer of a single matrix."""
    return entry.module.rpartition(".")[0] if entry.name.endswith(".weight") else entry.module


def _are_factors(first: Tensor, second: Tensor) -> bool:
    """Return whether two matrices share an axis that is at most half as long as each of their other axes."""
    return any(
        first.shape[i] == second.shape[j] <= min(first.shape[1 - i], second.shape[1 - j]) / 2
        for i, j in product((0, 1), repeat=2)
    )


def _initial_entries(
    initialization: FrozenInitialization | NotChecked | None, frozen: list[ParameterEntry]
) -> list[ParameterEntry]:
    """Return the frozen parameters that were never trained, if others were."""
    if not isinstance(initialization, FrozenInitialization):
        return []
    return [entry for entry in initialization.initial if entry in frozen]


def _has_trained(initialization: FrozenInitialization | NotChecked | None) -> bool:
    """Return whether other frozen layers were trained."""
    return isinstance(initialization, FrozenInitialization) and bool(initialization.trained)


def _frozen_in_loop_finding(setup: Setup, frozen: FrozenSteps) -> Finding:
    """Report an optimizer whose parameters were frozen while the loop ran, and that steps on."""
    module = common_parent(name.rpartition(".")[0] for name in frozen.parameters)
    return Finding(
        message=f"In the last {frozen.count} of its {frozen.steps} steps, an optimizer changed nothing: all of its "
        f"{len(frozen.parameters)} parameters ({join_names(list(frozen.parameters), 3)}) are frozen.",
        where=get_location(freezing_line(setup), module or None),
        cause="requires_grad was turned off for them in the loop, and not turned on again before their own step.",
        fix=f"{member_code(module)}.requires_grad_(True)   # before the backward pass of its own loss",
        evidence={"parameters": list(frozen.parameters), "steps": frozen.count, "of": frozen.steps},
        explains=(*_CONSEQUENCES, "G412", "G415", "R904"),
        severity="error",
    )


def _has_foreign_tensors(setup: Setup, parameters: list[ParameterEntry]) -> bool:
    """Return whether an optimizer trains tensors that do not belong to the model."""
    model_parameters = {id(optimizer.parameter) for optimizer in parameters}
    optimized = optimized_parameters(*setup.optimizers)
    return any(p.requires_grad and id(p) not in model_parameters for p in optimized)


def _finding(
    line: SourceLine | None,
    entries: list[ParameterEntry],
    headline: str,
    trainable: list[ParameterEntry],
    severity: Severity,
    fix: str,
) -> Finding:
    last = entries[-1]
    values, trainable_values = (sum(entry.parameter.numel() for entry in group) for group in (entries, trainable))
    is_fault = severity != "note"
    return Finding(
        message=f"{headline}: {format_names(entries)} ({values:,} values; "
        f"{trainable_values:,} values of the model are trainable).",
        where=get_location(line, last.module or None, last.name),
        cause="requires_grad was turned off for them" + (" and not turned on again." if is_fault else "."),
        fix=fix,
        evidence={
            "parameters": [entry.name for entry in entries],
            "values": values,
            "trainable values": trainable_values,
        },
        explains=_CONSEQUENCES
        if is_fault
        else _POOR_LEARNING,  # a part meant to stay fixed has no place in an optimizer
        assumes=() if is_fault else (LEARNS_POORLY,),
        severity=severity,
    )


def _fix(setup: Setup, part: str, trainable: list[ParameterEntry]) -> str:
    """Return the fix: the frozen part, or everything if the only optimizer holds nothing that is trainable."""
    optimizer = setup.optimizers[0] if len(setup.optimizers) == 1 else None
    optimized = optimized_parameters(optimizer) if optimizer is not None else []
    if optimizer is not None and optimized and trainable and not any(p.requires_grad for p in optimized):
        return f"model.requires_grad_(True)\noptimizer = {optimizer_code(optimizer, 'model.parameters()')}"
    return f"model.get_submodule({part!r}).requires_grad_(True)  # then pass it to the optimizer"


def _last_module(model: nn.Module, first_pass: ForwardPass) -> str | None:
    """The path of the last module to run that has its own parameters."""
    with_parameters = {
        path for path, module in model.named_modules() if next(module.parameters(recurse=False), None) is not None
    }
    return next((path for _, path in reversed(first_pass.trace.spans) if path in with_parameters), None)


def _frozen_between_trainable(parameters: list[ParameterEntry]) -> list[ParameterEntry]:
    by_pattern: dict[str, list[ParameterEntry]] = {}
    for entry in parameters:
        if entry.parameter.dim() > 1 and _INDEX.search(entry.name):
            by_pattern.setdefault(_INDEX.sub("*", entry.name), []).append(entry)
    return [entry for similar in by_pattern.values() for entry in _frozen_between(similar)]


def _frozen_between(similar: list[ParameterEntry]) -> list[ParameterEntry]:
    """The frozen parameters among similar ones, if they are fewer than the trainable ones around them."""
    trainable = [i for i, entry in enumerate(similar) if entry.parameter.requires_grad]
    if 2 * len(trainable) <= len(similar):
        return []
    return [entry for i, entry in enumerate(similar) if trainable[0] < i < trainable[-1] and i not in trainable]


def bad() -> Setup:
    """A classifier whose head was frozen together with its body."""
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    for index in (0, 3):
        model[index].requires_grad_(False)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A classifier without frozen parameters."""
    return classifier()
