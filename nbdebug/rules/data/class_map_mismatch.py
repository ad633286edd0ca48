"""D125: the splits number their classes differently, or one contains a stray class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, RelatedLine
from nbdebug.measurements.label_predictability import LabelProbe
from nbdebug.measurements.renumbered_codes import RenumberedCodes
from nbdebug.measurements.split_transfer import SplitTransfer
from nbdebug.rule_engine.data_edits import renumber_validation, sort_names
from nbdebug.rule_engine.expression_edits import only_call
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import network
from nbdebug.rules.stray_classes import (
    differing_numbers,
    have_one_order,
    list_numbers,
    stray_class_finding,
    stray_classes,
)
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import known_origin_line, origin_line, target_coding_line, tensor_argument
from nbdebug.setup.part_sources import constructor_argument
from nbdebug.setup.sample_functions import nested_datasets
from nbdebug.setup.source_lines import creation_line
from nbdebug.setup.split_fits import own_fit_line
from nbdebug.source.assignments import certain_line, covering_statement, find_assignments, own_statements
from nbdebug.source.attribute_makers import scope_around
from nbdebug.source.edits import describe_edits, node_text
from nbdebug.source.location import SourceLine, get_location, get_related_lines
from nbdebug.source.numbering_lines import coding_calls, numbering_of_attribute, numbering_of_expression
from nbdebug.source.scopes import Expression
from nbdebug.source.search import call_name, function_node, read_names
from nbdebug.source.variable_values import own_assigned_names

_PASSED_ON = (ast.Name, ast.Attribute, ast.IfExp, ast.Constant)  # expressions that number nothing by themselves
_CONSEQUENCES = ("D110", "D119", "D101", "T609", "E702", "E706", "E709")


@rule("D125", "error", origin="target order")
def class_map_mismatch(
    setup: Setup,
    class_maps: dict[str, dict[str, dict[str, int]]],
    label_probe: LabelProbe | NotChecked,
    renumbered_codes: RenumberedCodes | NotChecked | None,
    split_transfer: SplitTransfer | NotChecked,
    *,
    share: float = 0.6,
    least: int = 10,
) -> Iterator[Finding]:
    """The splits number their classes differently, or one contains a stray class.

    ## What it does
    Compares, by name, the mappings from class names to numbers that both datasets contain (``class_to_idx``,
    ``classes``, a fitted label encoder, any similar dictionary). If there are none, trains a simple classifier on the
    training split and compares its predictions for the validation classes. Inputs that are codes of categories are
    compared by the mean target of each code.

    ## Why it matters
    Predictions follow the mapping of the training split and are scored with another one, so the validation score looks
    as if the model had learned nothing.

    ## How it is measured
    Exactly, by name. Without names, at least two classes of ``least`` = 10 or more samples must each be predicted as
    another class, a different one each, in more than ``share`` = 60% of their samples, while the same classifier
    separates the classes within each split at five standard deviations above chance. The table shows measurements on
    60 random splits of each scikit-learn dataset: the largest share of a class that was predicted as one other class
    when the mappings were equal, and how often both of two swapped classes exceeded 60%.

    | randomly relabeled | | digits | breast cancer | wine | iris |
    |---|---|---|---|---|---|
    | none | equal | 16% | 7% | 17% | 18% |
    | | swapped, detected | 100% | 100% | 100% | 100% |
    | a fifth | equal | 36% | 26% | 31% | 33% |
    | | swapped, detected | 85% | 100% | 93% | 98% |
    | two fifths | equal | 32% | 43% | 58% | 47% |
    | | swapped, detected | 2% | 98% | 32% | 68% |

    For input columns of 4 to 30 whole numbers, the mean targets of two codes or more differ between the splits by more
    than five standard errors, and after an exchange of codes all agree within 2.5 (root mean square).

    ## How to fix
    Create the mapping once, from the training split, and pass it to the other splits.

    ## When to ignore
    When your code translates the numbers later.

    ## References
    Documentation of torchvision.datasets.ImageFolder: classes are numbered by the sorted names of the folders.
    """
    train, val = class_maps.get("train", {}), class_maps.get("val", {})
    strays = stray_classes(class_maps)
    if strays:
        yield stray_class_finding(setup, strays, class_maps, explains=(*_CONSEQUENCES, "D122", "E703"))
    shared = [name for name in train if name in val]
    for name in shared:
        differing = differing_numbers(train[name], val[name])
        if differing and strays and have_one_order(train[name], val[name], {stray.name for stray in strays}):
            return
        if differing:
            yield _name_mismatch_finding(setup, name, differing, train[name], val[name])
            return
    if isinstance(renumbered_codes, RenumberedCodes):
        yield _renumbered_codes_finding(setup, renumbered_codes)
    elif isinstance(label_probe, NotChecked):
        raise label_probe
    elif (
        not shared
        and label_probe.cross_split_confusion is not None
        and all(relation.sigma >= 5 for relation in label_probe.within.values())
        and not (isinstance(split_transfer, SplitTransfer) and split_transfer.repair)  # other inputs, not other classes
    ):
        yield from _renumbered_class_findings(setup, label_probe.cross_split_confusion, share, least)


def _unordered_names(setup: Setup, attribute: str, train: dict[str, int], val: dict[str, int]) -> Expression | None:
    """Return the expression that fixes the order in which the classes of the validation split are numbered.

    Of several branches, one that only passes on names that it gets does not number them, and names that are out of
    order were not sorted.
    """
    passed = partial(_own_argument, setup)
    makers = numbering_of_attribute(getattr(setup.val_loader, "dataset", None), attribute, passed)
    makers = [maker for maker in makers if not isinstance(maker.node, _PASSED_ON)] or makers
    if any([*sorted(numbers)] != sorted(numbers, key=numbers.__getitem__) for numbers in (train, val)):
        makers = [maker for maker in makers if not _sorts(maker.node)] or makers
    return max(makers, key=lambda maker: maker.line.number, default=None)


def _own_argument(setup: Setup, name: str) -> Expression | None:
    """Return what is passed to the validation dataset for a parameter.

    None for a variable that both datasets get, if their constructor replaces it: alone, it would number both alike.
    """
    own, other = (constructor_argument(setup, loader, name) for loader in (setup.val_loader, setup.train_loader))
    kind = type(getattr(setup.val_loader, "dataset", None))
    constructor = function_node(kind.__init__)  # type: ignore[misc]
    is_replaced = constructor and any(name in own_assigned_names(node) for node in own_statements(constructor))
    if own is None or other is None or own.node is other.node or not is_replaced:
        return own
    is_same = isinstance(own.node, ast.Name) and ast.unparse(own.node) == ast.unparse(other.node)
    return None if is_same else own


def _creation_with_other_names(setup: Setup, attribute: str) -> SourceLine | None:
    """Return the line that creates the validation dataset if the same lines number the classes of both splits.

    If the splits contain other classes, those of the training split should be passed to it.
    """
    dataset, train_dataset = (getattr(loader, "dataset", None) for loader in (setup.val_loader, setup.train_loader))
    lines = find_assignments(dataset, attribute)
    is_shared = bool(lines) and find_assignments(train_dataset, attribute) == lines
    return creation_line(setup, dataset) if is_shared else None


def _sorts(node: ast.expr) -> bool:
    return any(call_name(part) in ("sorted", "sort", "sort_values") for part in ast.walk(node))


def _mapping_line(setup: Setup) -> SourceLine | None:
    """Return the line that makes the dictionary by which the validation labels are numbered; None if there is none."""
    try:
        line = origin_line(setup, "target order", "val")
        statement = covering_statement(line) if line else None
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None
    names = read_names(statement) if statement else ()
    assigned = [certain_line(line, name) for name in names if line is not None]
    lines = [source for source in assigned if source and _makes_mapping(covering_statement(source))]
    return _source_of_mapping(setup, lines[0]) if len(lines) == 1 else None


def _source_of_mapping(setup: Setup, line: SourceLine) -> SourceLine:
    """Return the line that makes the names which a dictionary numbers; the line of the dictionary if it makes them."""
    dataset, value = getattr(setup.val_loader, "dataset", None), getattr(covering_statement(line), "value", None)
    makers = numbering_of_expression(Expression(scope_around(line, dataset), value), None, dataset) if value else []
    return makers[0].line if len(makers) == 1 else line


def _makes_mapping(statement: ast.stmt | None) -> bool:
    """Check whether a statement makes a dictionary of values, as in ``{name: i for i, name in enumerate(names)}``."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.DictComp) or (isinstance(value, ast.Call) and call_name(value) == "dict")


def _name_mismatch_finding(
    setup: Setup, name: str, differing: dict[str, tuple[int, int]], train: dict[str, int], val: dict[str, int]
) -> Finding:
    unshared_names, maker = sorted({*train} ^ {*val}), _unordered_names(setup, name, train, val)
    listed = list_numbers(differing)
    only = f"; only one split contains {', '.join(unshared_names[:3])}" if unshared_names else ""
    equal = "" if unshared_names else f" Both splits contain the same {len(train)} names."
    stray = unshared_names[0] if len(unshared_names) == 1 else ""
    skipped = f"; if {stray} is no class, skip it where they are listed" if stray else ""
    edits = sort_names(maker) if maker and not unshared_names else ()
    creation = _creation_with_other_names(setup, name) if unshared_names else None
    return Finding(
        message=f"{len(differing)} class names have different numbers in the two splits, in the attribute `{name}` of "
        f"their datasets: {listed}{only}.{equal}",
        where=get_location(creation or (maker.line if maker else None)),
        cause="Each split numbers its class names independently, in an order of its own."
        if not unshared_names
        else "Each split numbered its class names independently.",
        fix=describe_edits(edits)
        or (
            f"# pass the {name} of the training dataset to the validation dataset, and number its labels by them"
            f"{skipped}"
            if unshared_names
            else "# number the names in sorted order, sorted(set(names)): then both splits get the same numbers"
        ),
        edits=edits,
        setup_fix=renumber_validation({own: number for number, own in differing.values()}),
        evidence={
            "split": "val",
            "attribute": name,
            "name: (train, val)": dict(list(differing.items())[:50]),
            "in one split": unshared_names,
        },
        explains=("D109", *_CONSEQUENCES),
    )


def _renumbered_codes_finding(setup: Setup, codes: RenumberedCodes) -> Finding:
    column = f"input {codes.input_index}" + ("" if codes.column is None else f", column {codes.column},")
    listed = ", ".join(f"{own} and {other}" for own, other in [*codes.certain_codes.items()][:3])
    pairs = f" The mean targets agree for the validation and training codes {listed}." if listed else ""
    line = _coding_line(setup, codes)
    return Finding(
        message=f"{len(codes.codes)} of {codes.count} codes in {column} seem to stand for other categories in "
        f"validation.{pairs} Between the splits, the mean targets of the codes differ by {codes.sigma:.3g} standard "
        f"errors (root mean square), and by {codes.renumbered_sigma:.2g} after the codes are renumbered."
        f"{_describe_shares(codes)}",
        where=get_location(line),
        related=_use_of_codes(setup, line),
        cause="Each split numbered the categories of its inputs independently.",
        fix=_same_codes_fix(line),
        evidence={
            "validation code: training code": codes.codes,
            "codes": codes.count,
            "difference": codes.sigma,
            "difference after exchange": codes.renumbered_sigma,
            "differences of shares": codes.share_sigmas,
        },
        aspect="input codes",
        explains=("D109", "D108", *_CONSEQUENCES),
    )


def _describe_shares(codes: RenumberedCodes) -> str:
    if codes.share_sigmas is None:
        return ""
    own, renumbered = codes.share_sigmas
    return (
        f" The shares of the samples with each code differ by {own:.3g} standard errors between the splits, and by "
        f"{renumbered:.2g} after this renumbering."
    )


def _same_codes_fix(line: SourceLine | None) -> str:
    """Return how to give the categories of both splits the same numbers, by the encoder that a line fits, if any."""
    call = only_call(line, ("fit_transform",))
    encoder = call.func.value if call is not None and isinstance(call.func, ast.Attribute) else None
    if line is None or encoder is None:
        return "Number the categories of the training split once, and use these numbers in both splits."
    name = f"one {call_name(encoder)}" if isinstance(encoder, ast.Call) else node_text(line.file, encoder)
    return f"Fit {name} on the training split alone, and call its transform() for both splits."


def _coding_line(setup: Setup, codes: RenumberedCodes) -> SourceLine | None:
    """Return the line that numbers the categories in an attribute of the validation data, or that makes its inputs."""
    dataset = getattr(setup.val_loader, "dataset", None)
    try:
        for name, value in vars(dataset).items() if hasattr(dataset, "__dict__") else ():
            is_numeric = isinstance(value, (Tensor, np.ndarray))
            if is_numeric and np.array_equal(torch.as_tensor(value).detach().cpu(), codes.values):
                lines = {maker.line for maker in numbering_of_attribute(dataset, name)}
                return lines.pop() if len(lines) == 1 else None
        tensor = tensor_argument(setup, setup.val_loader, [*nested_datasets(dataset)], codes.input_index)
        lines = {call.line for call in coding_calls(tensor, codes.column)} if tensor else set()
        return lines.pop() if len(lines) == 1 else own_fit_line(setup) or origin_line(setup, "inputs", "val")
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None


def _use_of_codes(setup: Setup, line: SourceLine | None) -> tuple[RelatedLine, ...]:
    """Return the line that makes the validation inputs, if another one numbers the categories."""
    use = known_origin_line(setup, "inputs", "val") if line else None
    is_other = use is not None and line is not None and (use.file, use.number) != (line.file, line.number)
    return get_related_lines((use, "the validation inputs are made here")) if is_other else ()


def _renumbered_class_findings(setup: Setup, across: Tensor, share: float, min_samples: int) -> Iterator[Finding]:
    """Compare the validation labels with the classes that a classifier of the training split predicts."""
    counts = across.sum(1)
    predicted_class = {
        row: int(across[row].argmax())
        for row in range(len(across))
        if counts[row] >= min_samples and float(across[row].max()) > share * float(counts[row])
    }
    changed = {row: column for row, column in predicted_class.items() if row != column}
    if len(changed) > 1 and len(set(predicted_class.values())) == len(predicted_class):
        listed = ", ".join(
            f"validation class {row} resembles training class {other}" for row, other in list(changed.items())[:3]
        )
        yield Finding(
            message=f"{len(changed)} classes appear to be numbered differently in the two splits: {listed} (more than "
            f"{share:.0%} of the samples of each).",
            where=get_location(target_coding_line(setup) or _mapping_line(setup)),
            cause="Each split numbered its classes independently.",
            fix="# create one mapping from class names to numbers and use it for both splits",
            setup_fix=renumber_validation(changed),
            evidence={
                "split": "val",
                "validation class: predicted": changed,
                "counts": across.tolist() if len(across) <= 20 else [],
            },
            explains=("D109", *_CONSEQUENCES),
        )


def _setup_with_renumbered_validation(numbers: Tensor) -> Setup:
    """Three linearly separable classes; ``numbers`` renumbers the validation labels."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(600, 4, generator=generator)
    y = (x @ torch.randn(4, 3, generator=generator)).argmax(1)
    train, val = TensorDataset(x[:300], y[:300]), TensorDataset(x[300:], numbers[y[300:]])
    return Setup(network(3), DataLoader(train, 16), DataLoader(val, 16), loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """Two classes whose numbers are swapped in validation."""
    return _setup_with_renumbered_validation(torch.tensor([1, 0, 2]))


def good() -> Setup:
    """Equal class numbers in both splits."""
    return _setup_with_renumbered_validation(torch.arange(3))
