"""The summary of a model: one row a submodule, from one forward pass that leaves no trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from torch import nn

from nbdebug.finding import Finding
from nbdebug.portrait import Portrait, portrait
from nbdebug.report import Report
from nbdebug.setup import Setup
from nbdebug.tools.summary import rates
from nbdebug.tools.summary.passage import Passage, passage
from nbdebug.tools.summary.result import Row, Status, Summary
from nbdebug.tools.summary.tree import Place, first_holders, places, size

NO_FORWARD = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)


def summary(setup: Setup, said: Report | None = None) -> Summary:
    """What each submodule is given and gives, what it holds and what trains it; nothing of the user's is changed.

    ``said`` are the findings to show beside the submodules that they name. A model that raises is shown as far as it
    ran.
    """
    seen, found = passage(setup), places(setup.eager)
    names, held = first_holders(found), rates.groups(setup.optimizers)
    findings = by_path(said or (), {place.path for place in found})
    rows = tuple(row(place, seen, names, held, tuple(findings.get(place.path, ()))) for place in found)
    return Summary(
        rows=rows,
        batch=seen.batch,
        stopped=seen.stopped,
        optimizers=len(setup.optimizers),
        unplaced=tuple(findings.get(None, ())),
        checked=said is not None,
    )


def row(
    place: Place,
    seen: Passage,
    names: Mapping[nn.Parameter, str],
    held: dict[nn.Parameter, tuple[rates.Group, ...]],
    findings: tuple[Finding, ...],
) -> Row:
    """All that is known of one submodule."""
    module, inside = place.module, list(place.module.parameters())
    start = f"{place.path}." if place.path else ""
    own = [p for p in inside if place.same_as is None and names[p].startswith(start)]
    return Row(
        path=place.path,
        kind=place.kind,
        level=place.level,
        status=status(module, seen),
        calls=seen.calls[module],
        inputs=seen.inputs.get(module, ()),
        outputs=seen.outputs.get(module, ()),
        parameters=size(own),
        own=size(p for p in own if f"{start}{names[p].rpartition('.')[2]}" == names[p]),
        tied=size(inside) - size(own),
        trainable=size(p for p in inside if p.requires_grad),
        training=module.training,
        groups=rates.several(chain.from_iterable(held.get(p, ()) for p in inside)),
        loose=rates.loose(inside, held),
        weights=tuple(weights(place, names)),
        buffers=tuple((name, portrait(one)) for name, one in module.named_buffers(recurse=False)),
        same_as=place.same_as,
        findings=findings,
    )


def status(module: nn.Module, seen: Passage) -> Status:
    """How far the pass came in a submodule."""
    if module in seen.under_way:
        return "raised" if module is seen.under_way[-1] else "cut off"
    if module in seen.outputs:
        return "ran"
    if type(module) in NO_FORWARD:
        return "holds"
    return "not reached" if seen.stopped else "not called"


def weights(place: Place, names: Mapping[nn.Parameter, str]) -> Iterable[tuple[str, Portrait]]:
    """The parameters that a submodule holds itself; the name of a tied one tells where it comes first."""
    for name, parameter in place.module.named_parameters(recurse=False):
        first = names[parameter]
        here = f"{place.path}.{name}" if place.path else name
        yield name if first == here or place.same_as is not None else f"{name} = {first}", portrait(parameter)


def by_path(findings: Iterable[Finding], paths: set[str]) -> dict[str | None, list[Finding]]:
    """Findings by the path of the submodule that they name, or the closest one above; None where they name none."""
    found: dict[str | None, list[Finding]] = {}
    for one in findings:
        found.setdefault(named(one, paths), []).append(one)
    return found


def named(finding: Finding, paths: set[str]) -> str | None:
    """The path of the submodule that a finding names."""
    where = finding.where
    path = where.module if where.module is not None else (where.parameter or "").rpartition(".")[0] or None
    while path and path not in paths:
        path = path.rpartition(".")[0]
    return path
