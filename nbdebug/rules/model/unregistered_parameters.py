"""M303: modules or tensors in a plain list, dict or attribute are never trained, moved or saved."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby

import torch
from torch import Tensor, nn

from nbdebug.finding import Edit, Finding, RelatedLine
from nbdebug.measurements.parameter_coverage import UnregisteredAttribute, UnregisteredTensors
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.rules.unregistered_tensors import unregistered_tensors_finding
from nbdebug.setup import Setup
from nbdebug.setup.setup import optimized_parameters
from nbdebug.source.assignments import covering_statement, find_assignments
from nbdebug.source.attribute_makers import made_line
from nbdebug.source.edits import wrap_node
from nbdebug.source.location import SourceLine, get_location, get_related_lines

_REGISTERING = re.compile(r"=\s*(\w+\.)*(Parameter|ModuleList|ModuleDict|ParameterList|ParameterDict|Sequential)\(")
_CONSEQUENCES = ("O503", "O504", "T601", "T606", "T607", "T608", "T610", "M314", "O502", "T614")


@rule("M303", "error")
def unregistered_parameters(
    setup: Setup, unregistered_attributes: list[UnregisteredAttribute], unregistered_tensors: list[UnregisteredTensors]
) -> Iterator[Finding]:
    """Trained modules or tensors are stored where the model does not register them.

    ## What it does
    Finds tensors that the loss depends on, that are not among ``model.parameters()``, and that an attribute of a module
    stores in a plain list, tuple, dict, dataclass, closure or object, or as a plain tensor. Also reports layers that
    ``forward`` creates again each time, an attribute that stores a value computed from a parameter instead of the
    parameter, and, as a warning, layers from outside the model that no optimizer holds.

    ## Why it matters
    ``model.parameters()``, ``.to(device)``, ``train()``, ``eval()`` and ``state_dict()`` skip them: they keep their
    initial values during training and are missing from every checkpoint, and no error is raised.

    ## How it is measured
    Exactly: by the identity of the leaves of the autograd graph of the first batch, which are located by walking the
    attributes of every module. Tensors that the loss does not depend on (a frozen teacher, a moving average, a list of
    references to registered blocks) are not reported. A second pass shows which tensors are created again. If an
    optimizer holds them, it is a warning, since they do learn then.

    ## How to fix
    Store modules in ``nn.ModuleList`` or ``nn.ModuleDict`` and tensors in ``nn.Parameter``; then create the optimizer.

    ## When to ignore
    When the part belongs to another program that trains, moves and saves it.

    ## References
    Documentation of torch.nn.Module, torch.nn.ModuleList and torch.nn.Parameter: what is registered, and how.
    """
    optimized = set(map(id, optimized_parameters(*setup.optimizers)))
    ordered = sorted(unregistered_attributes, key=lambda item: (type(item.owner).__qualname__, item.attribute))
    for _, items in groupby(ordered, key=lambda item: (type(item.owner), item.attribute)):
        yield _finding(list(items), optimized)
    yield from map(unregistered_tensors_finding, unregistered_tensors)


def _finding(items: list[UnregisteredAttribute], optimized: set[int]) -> Finding:
    first = items[0]
    tensors = [t for item in items for t in item.tensors]
    values = sum(t.numel() for t in tensors)
    is_optimized = all(id(t) in optimized for t in tensors)
    subject = f"{values:,} values that the loss depends on are" if values > 1 else "a value that the loss depends on is"
    owner = "they are" if values > 1 else "it is"
    consequence = f"{owner} not moved or saved" if is_optimized else f"{owner} never trained, moved or saved"
    stored = (
        "is a plain tensor"
        if isinstance(first.value, Tensor)
        else f"stores {_describe_contents(first)} in {_describe_container(first)}"
    )
    more = f" (and in {len(items) - 1} more modules of its class)" if len(items) > 1 else ""
    return Finding(
        message=f"{_attribute_path(first)} {stored}{more}: {subject} not among model.parameters(), so {consequence}.",
        where=get_location(_storing_line(first), first.path or None),
        related=_related_lines(first),
        cause="Only an nn.Parameter, an nn.Module or a torch container of them is registered on assignment.",
        fix=_registration_fix(first),
        setup_fix="\n".join(map(_registration_code, items)) if _is_registrable(first) else "",
        edits=_registration_edits(first),
        evidence={
            "attribute": _attribute_path(first),
            "values": values,
            "shapes": [tuple(t.shape) for t in tensors[:8]],
            "held by an optimizer": is_optimized,
        },
        explains=_CONSEQUENCES,
        severity="warning" if is_optimized else None,
    )


def _attribute_path(item: UnregisteredAttribute) -> str:
    """The attribute with its module path."""
    return f"{item.path}.{item.attribute}" if item.path else item.attribute


def _describe_contents(item: UnregisteredAttribute) -> str:
    modules = sum(isinstance(content, nn.Module) for content in item.members)
    counts = ((modules, "module"), (len(item.members) - modules, "tensor"))
    return " and ".join(f"{n} {noun}{'s' if n > 1 else ''}" for n, noun in counts if n)


def _describe_container(item: UnregisteredAttribute) -> str:
    return "a closure" if callable(item.value) else f"a plain {type(item.value).__name__}"


def _storing_line(item: UnregisteredAttribute) -> SourceLine | None:
    """Return the line that sets the attribute, preferably one that does not register anything.

    If the attribute is an object that was not made for modules, such as a configuration, that is the line which adds
    them to it.
    """
    lines = [line for name in _names_in_object(item) for line in _unregistering_lines(item.owner, name)]
    return lines[0] if len(lines) == 1 else _attribute_line(item)


def _attribute_line(item: UnregisteredAttribute) -> SourceLine | None:
    return next(iter(_unregistering_lines(item.owner, item.attribute)), None)


def _related_lines(item: UnregisteredAttribute) -> tuple[RelatedLine, ...]:
    """Return the line that makes the stored container or tensor, or the one that sets the attribute to an object."""
    line, name = _attribute_line(item), f"self.{item.attribute}"
    if not _is_registrable(item):
        return get_related_lines((line, f"{name} stores the object"))
    made = made_line(line, item.owner, item.attribute) if line else None
    noun = "tensor" if isinstance(item.value, Tensor) else f"plain {type(item.value).__name__}"
    return get_related_lines((made, f"the {noun} is made here"))


def _unregistering_lines(owner: object, attribute: str) -> list[SourceLine]:
    """Return the lines in the methods of an object that set an attribute of any object and register nothing."""
    return [line for line in find_assignments(owner, attribute) if not _REGISTERING.search(line.text)]


def _names_in_object(item: UnregisteredAttribute) -> list[str]:
    """Return the names under which an object that the attribute stores holds the modules and tensors, if it does."""
    if not hasattr(item.value, "__dict__") or callable(item.value) or isinstance(item.value, Tensor):
        return []
    return [name for name, part in vars(item.value).items() if _contains(part, item)]


def _contains(part: object, item: UnregisteredAttribute) -> bool:
    """Return whether a value is one of the unregistered modules and tensors, or a container of some."""
    members = set(map(id, item.members))
    contents = [*part.values()] if isinstance(part, Mapping) else [*part] if isinstance(part, (list, tuple)) else [part]
    return any(id(content) in members for content in contents)


def _registration_fix(item: UnregisteredAttribute) -> str:
    name = f"self.{item.attribute}"
    if _is_registrable(item):
        return f"{name} = {_registered(item, name)}  # then create the optimizer"
    parts = [(part, replace(item, value=vars(item.value)[part])) for part in _names_in_object(item)]
    if len(parts) == 1 and _is_registrable(parts[0][1]):
        part, inner = parts[0]
        return f"self.{part} = {_registered(inner, f'{name}.{part}')}  # after {name} is set; then create the optimizer"
    return f"# in __init__, next to {name}: assign each to an attribute of self, then create the optimizer"


def _registration_edits(item: UnregisteredAttribute) -> tuple[Edit, ...]:
    """Return the change of the only line that assigns the attribute, so that it registers the value."""
    lines = find_assignments(item.owner, item.attribute)
    lines = [line for line in lines if not _REGISTERING.search(line.text)] or lines
    statement = covering_statement(lines[0]) if len(lines) == 1 else None
    value = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    is_attribute = value is not None and getattr(statement.targets[0], "attr", "") == item.attribute  # type: ignore[union-attr]
    if not is_attribute or value is None or not _is_registrable(item):
        return ()
    return (wrap_node(lines[0].file, value, _registered(item, "{}")),)


def _is_registrable(item: UnregisteredAttribute) -> bool:
    return isinstance(item.value, (Tensor, Mapping, list, tuple))


def _registered(item: UnregisteredAttribute, name: str) -> str:
    """Return code for the value of an attribute in a form that a module registers on assignment."""
    if isinstance(item.value, Tensor):
        return f"nn.Parameter({name}.detach())"
    kind = "Module" if all(isinstance(content, nn.Module) for content in item.members) else "Parameter"
    return f"nn.{kind}{'Dict' if isinstance(item.value, Mapping) else 'List'}({name})"


def _registration_code(item: UnregisteredAttribute) -> str:
    """Return the assignment in the names of the setup."""
    owner = f"model.get_submodule({item.path!r})"
    return f"{owner}.{item.attribute} = {_registered(item, f'{owner}.{item.attribute}')}"


class LayersInPlainList(nn.Module):
    """A classifier of 4 features whose hidden layers are in a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(4, 8), nn.Linear(8, 8)]
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of 3 classes."""
        for layer in self.layers:
            x = torch.relu(layer(x))
        logits: Tensor = self.head(x)
        return logits


def bad() -> Setup:
    """Hidden layers in a plain list."""
    return minimal_setup(LayersInPlainList(), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """Layers in a torch container."""
    return classifier()
