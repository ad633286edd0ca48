"""G407: all units of a layer, or several layers, start equal, and stay equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd import Graph
from nbdebug.autograd.factors import first_factors
from nbdebug.autograd.graph import Node
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.formatting import join_names
from nbdebug.measurements.gradients import EARLY_STEPS, EarlyGradient
from nbdebug.measurements.parameter_coverage import ParameterEntry, common_parent, format_names
from nbdebug.measurements.symmetric_branches import SymmetricBranches
from nbdebug.rule_engine.initialization_edits import draw_initialization
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.setup.initialization import initialization_line
from nbdebug.source.location import SourceLine, get_location
from nbdebug.source.search import call_name, find_line_in_class

_COPYING_CALLS = {"deepcopy", "load_state_dict", "copy_", "clone"}
_CONSEQUENCES = ("G408", "G416", "G415", "M307", "L208", "M306", "T601", "T606", "T607", "T608", "T610", "M314")
_EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
_INDEXING_NODES = {"Embedding", "EmbeddingBag", "Index", "IndexSelect", "Gather"}
_RESIZING_NODES = {"View", "Reshape", "ReshapeAlias", "UnsafeView", "Permute", "Transpose", "T", "Unsqueeze", "Squeeze"}
_RESIZING_NODES |= {"Select", "Slice", "Clone", "ToCopy", "UpsampleLinear1D", "UpsampleBilinear2D", "UpsampleBicubic2D"}


@rule("G407", "error")
def symmetric_weights(
    setup: Setup,
    early_steps: list[EarlyGradient],
    graph: Graph,
    symmetric_branches: list[SymmetricBranches] | NotChecked,
) -> Iterator[Finding]:
    """All units of a layer, or several layers, start equal, get equal gradients and stay equal.

    ## What it does
    Finds weights whose rows, one per unit, are all the same, and stay the same in the first steps. Finds layers side by
    side, such as the pieces of a maxout or the members of an ensemble, whose weights and gradients are the same.

    ## Why it matters
    Equal units compute the same output and get the same gradient: a layer of a hundred units is worth one. Training
    cannot break the symmetry. Equal branches are worth one branch in the same way.

    ## How it is measured
    Rows are compared at the start, and again after four steps of gradient descent on a copy of the weights; units are
    equal if their rows differ by less than a thousandth of one step. At least half of the rows that the steps have
    changed must have an equal row (the gates of a recurrent layer differ from one another even if their units do not).
    A layer of zeros whose units differ after the steps (the last one of a residual branch, an adapter, a head) is not
    reported, and neither are rows that differ because of dropout. In a table that is read by index, or a matrix of your
    own module, or a stack of matrices, the columns are compared: they are reported if all were equal and still are, in
    every row that the steps have changed.
    Branches are reported if their weights are equal and not constant, and their gradients are equal within rounding
    (1e-5 of the largest) and not zero in each of three steps on a copy. Copies in series, or with other inputs,
    targets or dropout, get other gradients at the first step.

    Several matrices of one module that are zero and have a gradient of exactly zero in each step are the factors of a
    product, and so are those of two layers in one module, as in an adapter of low rank. The one that the
    forward pass applies to the inputs first must start at random. The other one may stay zero.

    ## How to fix
    Initialize the weights randomly; only biases and last layers may start at zero.

    ## When to ignore
    Never for a layer that should learn.

    ## References
    Goodfellow, Bengio and Courville 2016, Deep Learning, section 8.4: initial parameters need to break symmetry.
    """
    head = next(
        (name for name, module in reversed(list(setup.eager_model.named_modules())) if _has_weight_matrix(module)), None
    )
    factors = _find_zero_factors(setup.eager_model, early_steps)
    zero_names = {early.entry.name for group in factors for early in group}
    if factors:
        yield _zero_factors_finding(setup, graph, factors)
    others = [early for early in early_steps if early.entry.name not in zero_names]
    yield from _merge_equal_places(_weight_findings(setup, others, head, _find_tables(graph)))
    for branches in symmetric_branches if not isinstance(symmetric_branches, NotChecked) else ():
        yield _branches_finding(setup.eager_model, branches)


def _find_zero_factors(model: nn.Module, early_steps: list[EarlyGradient]) -> list[list[EarlyGradient]]:
    """Return the matrices of each module of the user that are zero and get no gradient, if it has several.

    They are the factors of a product. Of layers of torch, only two can be told from layers behind others of zeros.
    """
    own, of_layers = dict[str, list[EarlyGradient]](), dict[str, list[EarlyGradient]]()
    for early in early_steps:
        parameter, module = early.entry.parameter, early.entry.module
        if early.max_gradient or parameter.dim() < 2 or bool(parameter.any()):
            continue
        if _is_users(model.get_submodule(module)):
            own.setdefault(module, []).append(early)
        elif _is_users(model.get_submodule(parent := module.rpartition(".")[0])):
            of_layers.setdefault(parent, []).append(early)
    return [*(group for group in own.values() if len(group) > 1), *(g for g in of_layers.values() if len(g) == 2)]


def _zero_factors_finding(setup: Setup, graph: Graph, factors: list[list[EarlyGradient]]) -> Finding:
    """Report products of matrices that are all zero, at the first of them that the inputs meet."""
    starts = [[group[i] for i in first_factors(graph, _tensors(group))] or group[:1] for group in factors]
    first = starts[0][0].entry
    line = _initialization_line(setup, first)
    others = {_initialization_line(setup, early.entry) for early in factors[0] if early not in starts[0]}
    listed = [" and ".join(early.entry.name for early in group) for group in factors]
    text = f" The same holds for {join_names(listed[1:], 4)}." if listed[1:] else ""
    names = [early.entry.name for group in starts for early in group]
    return Finding(
        message=f"{listed[0]} start at 0, and the gradient of each is exactly 0 in the first {EARLY_STEPS} steps."
        f"{text}",
        where=get_location(line, first.module or None, first.name),
        cause="They are factors of one product, and the product of two zeros has no gradient for either.",
        fix="\n".join(f"torch.nn.init.kaiming_uniform_(model.get_parameter({name!r}))" for name in names)
        + "   # and leave the other factor at 0",
        edits=draw_initialization(setup, line, _deviation(starts[0][0])) if line not in others else (),
        evidence={"parameters": [early.entry.name for group in factors for early in group], "steps": EARLY_STEPS},
        explains=_CONSEQUENCES,
    )


def _tensors(group: list[EarlyGradient]) -> list[Tensor]:
    return [early.entry.parameter for early in group]


def _initialization_line(setup: Setup, entry: ParameterEntry) -> SourceLine | None:
    return initialization_line(setup, entry.module, entry.name.rpartition(".")[2])


def _find_tables(graph: Graph) -> set[int]:
    """Return the ids of the parameters that are only read by index, resized or not: biases of relative positions."""
    return {id(node.variable) for node in graph.get_nodes_by_name("AccumulateGrad") if _is_read_by_index(node)}


def _is_read_by_index(node: Node) -> bool:
    """Return whether all that uses a value takes rows of it by index."""
    return bool(node.users) and all(
        user.name in _INDEXING_NODES or (user.name in _RESIZING_NODES and _is_read_by_index(user))
        for user in node.users
    )


def _weight_findings(
    setup: Setup, early_steps: list[EarlyGradient], head: str | None, tables: set[int]
) -> Iterator[Finding]:
    """Yield a finding for each parameter whose units or columns stay equal; ``tables`` have rows, but no units."""
    for early in early_steps:
        module = setup.eager_model.get_submodule(early.entry.module)
        is_table = isinstance(module, _EMBEDDINGS) or id(early.entry.parameter) in tables
        if _has_equal_units(early) and not is_table:
            if early.entry.module != head or early.distinct_rows == 1:
                yield _finding(setup, early)
        elif early.tied_columns and _is_table(module):
            yield _columns_finding(setup, early)


def _merge_equal_places(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the first finding of each line that initializes parameters, with the names and the fixes of the others.

    Without a line, parameters of the same name in modules of the same name belong together.
    """
    groups: dict[Any, list[Finding]] = {}
    for finding in findings:
        where = finding.where
        names = str(where.parameter).split(".")[-2:]
        groups.setdefault((where.file, where.cell, where.line) if where.line else tuple(names), []).append(finding)
    for first, *others in groups.values():
        yield _with_others(first, others) if others else first


def _with_others(first: Finding, others: list[Finding]) -> Finding:
    """Return a finding that also names the parameters of others, and draws the values of all of them.

    To draw one of them alone may split nothing, as a bias whose units are equal in all other respects.
    """
    names = [str(other.where.parameter) for other in others]
    return replace(
        first,
        message=f"{first.message} The same holds for {join_names(names, 4)}.",
        fix="\n".join(finding.fix for finding in (first, *others)),
        evidence={**first.evidence, "others": names},
    )


def _has_equal_units(early: EarlyGradient) -> bool:
    """Check whether at least half of the rows have an equal row after the steps."""
    is_compared = early.compared_rows is not None and early.distinct_rows is not None
    return is_compared and 2 * (early.distinct_rows or 0) <= (early.compared_rows or 0)


def _is_table(module: nn.Module) -> bool:
    """Check whether a module is an embedding, or a user's own module with parameters; not a layer of torch."""
    return isinstance(module, _EMBEDDINGS) or _is_users(module)


def _is_users(module: nn.Module) -> bool:
    """Check whether the class of a module is not one of torch."""
    return not type(module).__module__.startswith("torch.")


def _columns_finding(setup: Setup, early: EarlyGradient) -> Finding:
    """Report a table whose columns stay equal, as of a recommender whose factors start with one value."""
    value = float(early.entry.parameter.detach().flatten()[0])
    line = _initialization_line(setup, early.entry)
    deviation = _deviation(early)
    return Finding(
        message=f"All {early.tied_columns} columns of {early.entry.name} start with the same values, and are still "
        f"equal after {EARLY_STEPS} steps.",
        where=get_location(line, early.entry.module or None, early.entry.name),
        cause=f"The columns were set to one value ({value:.3g}) and get equal gradients: they are worth one column.",
        fix=f"torch.nn.init.normal_(model.get_parameter({early.entry.name!r}), std={deviation:g})",
        edits=draw_initialization(setup, line, deviation),
        evidence={"columns": early.tied_columns, "value": value},
        explains=_CONSEQUENCES,
    )


def _deviation(early: EarlyGradient) -> float:
    """Return a standard deviation for the values of a matrix: that of torch's own layers for wide ones, at most 0.1."""
    return min(0.1, float(f"{early.entry.parameter.shape[-1] ** -0.5:.1g}"))


def _finding(setup: Setup, early: EarlyGradient) -> Finding:
    rows, distinct = early.compared_rows or 0, early.distinct_rows or 0
    values = early.entry.parameter.detach().flatten()
    value = float(values[0])
    line = _initialization_line(setup, early.entry)
    return Finding(
        message=f"All {len(early.entry.parameter)} units of {early.entry.name} start with the same weights. After "
        f"{EARLY_STEPS} steps, {rows} compared units have only {distinct} distinct weight "
        f"vector{'s' * (distinct > 1)}.",
        where=get_location(line, early.entry.module or None, early.entry.name),
        cause=f"The weights were set to one value ({value:.3g}) instead of random values."
        if bool((values == values[0]).all())
        else "All units were given the same weights instead of random ones of their own.",
        fix=f"torch.nn.init.kaiming_uniform_(model.get_parameter({early.entry.name!r}))",
        edits=draw_initialization(setup, line, _deviation(early)),
        evidence={"units": len(early.entry.parameter), "compared": rows, "distinct": distinct, "value": value},
        explains=_CONSEQUENCES,
    )


def _branches_finding(model: nn.Module, branches: SymmetricBranches) -> Finding:
    """Report layers that stay equal, at the module that contains them."""
    names = [entry.name for entry in branches.entries]
    parent = common_parent(name.rpartition(".")[0] for name in names)
    return Finding(
        message=f"The {len(names)} weights {format_names(list(branches.entries))} start with the same values and get "
        f"the same gradients in {branches.steps} of {branches.steps} steps, so they stay the same; expected branches "
        "that differ.",
        where=get_location(_copying_line(model, parent), parent or None, names[0]),
        cause="The layers are copies of one layer, and all of them contribute to the loss in the same way.",
        fix="nn.ModuleList(nn.Linear(n_in, n_out) for _ in range(n))   # create each one, copy none",
        evidence={"parameters": names, "steps": branches.steps},
        explains=("M308", "T601", "T606", "T607", "T608", "T610", "E709", "M314", "E706"),
    )


def _copying_line(model: nn.Module, path: str) -> SourceLine | None:
    """Return the line that copies layers in the class of a module or of one that contains it."""
    parts = path.split(".") if path else []
    for depth in range(len(parts), -1, -1):
        kind = type(model.get_submodule(".".join(parts[:depth])))
        if line := find_line_in_class(kind, lambda node: call_name(node) in _COPYING_CALLS):
            return line
    return None


def _has_weight_matrix(module: nn.Module) -> bool:
    """Return whether a module has its own weight matrix, as the last layer of a model must have."""
    return any(p.dim() > 1 for p in module.parameters(recurse=False))


def bad() -> Setup:
    """A network whose weights are all one tenth."""
    model = network(3)
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 0.1)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A randomly initialized network with a head of zeros."""
    setup = classifier()
    nn.init.zeros_(setup.model.get_parameter("2.weight"))
    return setup
