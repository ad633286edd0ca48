"""Changes of the data: of the user's lines before datasets are made, or by a built-in change of ``try_fix``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils.data import TensorDataset

from nbdebug.finding import Edit
from nbdebug.rule_engine.expression_edits import is_namespace, only_call, set_option
from nbdebug.rule_engine.slice_edits import without_last_to_later
from nbdebug.setup import Setup
from nbdebug.setup.fix_text import free_names
from nbdebug.setup.notebook_names import user_variables
from nbdebug.setup.sample_functions import nested_datasets, sample_functions
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.assignments import covering_statement
from nbdebug.source.creation import find_creation
from nbdebug.source.edits import insert_before, node_text, replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import executed_return
from nbdebug.source.scopes import Expression
from nbdebug.source.search import call_name, enclosing_scope, search_files, syntax_tree

_LISTS = ("list", "tuple")
_NEW_ARRAYS = ("zeros", "ones", "empty", "zeros_like", "ones_like", "empty_like")
# The names that fixes use for the data; those of both splits change in both.
_INPUTS, _TARGETS = ("x",), ("y", "labels", "target")
_TRAINING = {"x_train": 0, "y_train": -1}
_SAMPLE_METHODS = ("__getitem__", "__iter__")  # of a dataset; a collate function makes batches


@dataclass(frozen=True)
class _DataLine:
    """The expressions of inputs and targets in the call that makes the dataset of one split."""

    file: str
    number: int
    inputs: ast.expr
    targets: ast.expr


def find_data_edits(setup: Setup, statements: Sequence[ast.stmt]) -> tuple[Edit, ...]:
    """Return the insertion of the code of a fix that changes ``x`` or ``y``, with the user's names, for both splits.

    The code goes before the first line that makes a ``TensorDataset``. Return () if the user's source does not show the
    names.
    """
    reads = free_names(ast.Module(list(statements), []))
    is_of_forward = any(isinstance(statement, ast.Return) for statement in statements)  # its x is the batch
    if not statements or is_of_forward or not reads & {*_INPUTS, *_TARGETS}:
        return ()
    loaders = [loader for loader in (setup.train_loader, setup.val_loader) if loader is not None]
    lines = [_data_line(setup, loader) for loader in loaders]
    known = [line for line in lines if line is not None]
    if len(known) < len(lines) or len({line.file for line in known}) != 1:
        return ()
    first = min(known, key=lambda line: line.number)
    code = [text for statement in statements for text in _with_own_names(statement, known)]
    code = _with_own_loss(setup, code)
    is_known = reads - {*_INPUTS, *_TARGETS, *_TRAINING} <= user_variables().keys() | _names_before(first)
    if not code or not is_known or not _are_defined(first, known) or not _is_read_later(first, code):
        return ()
    return (insert_before(first.file, first.number, "\n".join(code)),)


def _data_line(setup: Setup, loader: Any) -> _DataLine | None:
    """Return where the tensors of a loader's dataset are named; None if that is not a ``TensorDataset`` of two."""
    files = search_files(user_written_objects(setup))
    creation = find_creation(loader, files)
    if creation is None or not isinstance(loader.dataset, TensorDataset) or not creation.call.args:
        return None
    argument, file = creation.call.args[0], creation.file
    if isinstance(argument, ast.Name):
        assignments = [
            (path, node.value)
            for path in files
            for node in ast.walk(syntax_tree(path) or ast.Module([], []))
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == argument.id
        ]
        if len(assignments) != 1:
            return None
        file, argument = assignments[0]
    if call_name(argument) != TensorDataset.__name__ or not isinstance(argument, ast.Call) or len(argument.args) != 2:
        return None
    inputs, targets = map(_data_expression, argument.args)
    statement = covering_statement(SourceLine(file, argument.lineno))
    if inputs is None or targets is None or statement is None:
        return None
    return _DataLine(file, statement.lineno, inputs, targets)


def _data_expression(node: ast.expr) -> ast.expr | None:
    """Return the variable, or a part of it, inside conversions such as ``torch.tensor(x).float()``."""
    while isinstance(node, ast.Call):
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if node.args:
            node = node.args[0]
        elif owner is not None:
            node = owner
        else:
            return None
    base = node.value if isinstance(node, ast.Subscript) else node
    return node if isinstance(base, ast.Name) else None


def _base(node: ast.expr) -> str:
    return ast.unparse(node.value if isinstance(node, ast.Subscript) else node)


def _with_own_names(statement: ast.stmt, lines: Sequence[_DataLine]) -> Iterable[str]:
    """Return a statement with the user's names: one for each variable, if it changes inputs or targets.

    Code that only reads them reads the part of a variable that the training split consists of.
    """
    text = ast.unparse(statement)
    if not _changes_data(statement):
        for part, names in (("inputs", _INPUTS), ("targets", _TARGETS)):
            for name in names:
                text = _rename(text, name, ast.unparse(getattr(lines[0], part)))
    for name, position in _TRAINING.items():
        text = _rename(text, name, ast.unparse(lines[0].targets if position else lines[0].inputs))
    for names, part in ((_INPUTS, "inputs"), (_TARGETS, "targets")):
        for name in names:
            if re.search(rf"\b{name}\b", text):
                bases = dict.fromkeys(_base(getattr(line, part)) for line in lines)
                return [_rename(text, name, base) for base in bases]
    return [text]


def _changes_data(statement: ast.stmt) -> bool:
    """Return whether a statement assigns to inputs or targets, or to a part of them."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return bool(names & {*_INPUTS, *_TARGETS})


def _with_own_loss(setup: Setup, code: Sequence[str]) -> list[str]:
    """Return code in which the loss has the name that the user's line gives it, if that is known."""
    creation = find_creation(setup.loss_fn, search_files(user_written_objects(setup)))
    names = creation.names if creation is not None else set()
    return [_rename(text, "loss_fn", next(iter(names))) for text in code] if len(names) == 1 else list(code)


def _is_read_later(line: _DataLine, code: Sequence[str]) -> bool:
    """Return whether the user's lines after an insertion read all results of its code before they replace them."""
    nodes = [node for text in code for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
    stored, read = ({n.id for n in nodes if isinstance(n.ctx, kind)} for kind in (ast.Store, ast.Load))
    scope = enclosing_scope(SourceLine(line.file, line.number)) or syntax_tree(line.file) or ast.Module([], [])
    uses = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.lineno >= line.number]
    uses.sort(key=lambda node: (node.lineno, isinstance(node.ctx, ast.Store)))
    first_uses = {node.id: node.ctx for node in reversed(uses)}
    return all(isinstance(first_uses.get(name), ast.Load) for name in stored - read)


def _rename(text: str, name: str, own: str) -> str:
    return re.sub(rf"(?<![\w.]){name}\b", own, text)


def _names_before(line: _DataLine) -> set[str]:
    """Return the names in the lines before a line that are visible there: not those inside other functions."""
    scopes = filter(None, [syntax_tree(line.file), enclosing_scope(SourceLine(line.file, line.number))])
    nodes = (node for scope in scopes for node in _nodes_outside_functions(scope))
    return {node.id for node in nodes if isinstance(node, ast.Name) and node.lineno < line.number}


def _nodes_outside_functions(parent: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(parent):
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from _nodes_outside_functions(node)


def _are_defined(first: _DataLine, lines: Sequence[_DataLine]) -> bool:
    """Return whether the variables of all splits exist before the first of their lines."""
    before = _names_before(first) | user_variables().keys()
    stored = {
        node.id: node.lineno
        for node in ast.walk(syntax_tree(first.file) or ast.Module([], []))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    bases = {_base(expression) for line in lines for expression in (line.inputs, line.targets)}
    return bases <= before and all(stored.get(base, 0) < first.number for base in bases)


def use_decimals(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the edit by which the only new array of numpy or torch on a line holds decimals."""
    call = only_call(line, _NEW_ARRAYS)
    owner = call.func.value if call is not None and isinstance(call.func, ast.Attribute) else None
    if owner is None or not is_namespace(owner):
        return ()
    is_torch = ast.unparse(owner) == "torch"
    return set_option(line, _NEW_ARRAYS, "dtype", "torch.float32" if is_torch else "float", None if is_torch else 1)


def hide_feature(part: Tensor, column: int) -> str:
    """Return the change that keeps a column of a table, or the last step of a series, from the model; else ""."""
    if part.dim() == 2:
        return f"hide column={column}"
    return "end window earlier=1" if part.dim() == 3 and column // part.shape[2] == part.shape[1] - 1 else ""


def renumber_validation(numbers: Mapping[int, int]) -> str:
    """Return the change of the numbers of validation classes into those of the training split."""
    return f"renumber validation={','.join(f'{old}>{new}' for old, new in sorted(numbers.items()))}"


def order_validation(order: Sequence[int]) -> str:
    """Return the change of the order of validation columns; ``order`` holds the training column of each."""
    return f"order validation={','.join(map(str, sorted(range(len(order)), key=order.__getitem__)))}"


def fill_missing(numbers: Iterable[tuple[int, float]]) -> str:
    """Return the change that fills some features where they have a number."""
    return f"fill missing values={','.join(f'{feature}:{number}' for feature, number in numbers)}"


def shift_right(setup: Setup, position: int, token: int | None) -> tuple[str, tuple[Edit, ...]]:
    """Return the code and the edit that put a start token in front of the decoder's input and drop the last target.

    Where a function of the user's returns one sample, there is no batch axis, and the code has its names. ``position``
    is that of the decoder's input; without a ``token``, the code has a variable in its place.
    """
    start = "start" if token is None else str(token)
    of_batch = f"torch.cat([torch.full((len(target), 1), {start}), target[:, :-1]], dim=1)"
    datasets = list(nested_datasets(getattr(setup.train_loader, "dataset", None)))
    function, owner = next(iter(sample_functions(setup.train_loader, datasets)), (None, None))
    if function is None:
        is_stored = any(isinstance(dataset, TensorDataset) for dataset in datasets)
        of_sample = f"torch.cat([torch.tensor([{start}]), target[:-1]])   # of each sample"
        return of_batch if is_stored or not datasets else of_sample, ()
    if function.__name__ not in _SAMPLE_METHODS:
        return of_batch, ()
    file, parts = function.__code__.co_filename, _returned_parts(function, owner)
    texts = [node_text(file, part) for part in parts]
    is_alias = _is_alias(texts, parts, position)
    code = f"torch.cat([torch.tensor([{start}]), {texts[-1] if is_alias else 'target'}[:-1]])"
    if not is_alias or token is None:
        return code, ()
    changed = ", ".join(code if index == position else text for index, text in enumerate(texts))
    return f"return {changed}", (replace_node(file, parts[position], code),)


def shift_targets(setup: Setup, position: int) -> tuple[Edit, ...]:
    """Return the edit that makes the target the later tokens of an input, where a sample returns the same as both.

    ``position`` is that of the input.
    """
    datasets = list(nested_datasets(getattr(setup.train_loader, "dataset", None)))
    function, owner = next(iter(sample_functions(setup.train_loader, datasets)), (None, None))
    if function is None:
        return ()
    file, parts = function.__code__.co_filename, _returned_parts(function, owner)
    texts = [node_text(file, part) for part in parts]
    if function.__name__ in _SAMPLE_METHODS and _is_alias(texts, parts, position):
        cut = ((parts[position], f"{texts[position]}[:-1]"), (parts[-1], f"{texts[-1]}[1:]"))
        return tuple(replace_node(file, part, text) for part, text in cut)
    later = without_last_to_later(file, parts[-1]) if parts else ""
    if later and position < len(parts) - 1 and texts[position] == texts[-1]:
        return (replace_node(file, parts[-1], later),)
    return ()


def _returned_parts(function: Any, owner: Any) -> list[ast.expr]:
    """Return the expressions of the tuple that a function returned; none if it returned something else."""
    returned = executed_return(function, owner)
    return returned.node.elts if returned and isinstance(returned.node, ast.Tuple) else []


def _is_alias(texts: Sequence[str], parts: Sequence[ast.expr], position: int) -> bool:
    """Check whether a returned input and the last of the returned parts, the target, are one variable."""
    return position < len(parts) - 1 and texts[position] == texts[-1] and isinstance(parts[-1], ast.Name)


def sort_names(names: Expression) -> tuple[Edit, ...]:
    """Return the edit by which an expression that makes a list of distinct names makes a sorted one.

    Return () for an expression that is not known to return a list or tuple, such as the pair of ``pandas.factorize``.
    """
    node, file = names.node, names.scope.file
    items = _listed_items(node)
    if items is None:
        return ()
    is_unique_copy = call_name(items) == "fromkeys" and isinstance(items, ast.Call) and len(items.args) == 1
    text = f"set({node_text(file, items.args[0])})" if is_unique_copy and isinstance(items, ast.Call) else ""
    ordered = f"sorted({text or node_text(file, items)})"
    return (replace_node(file, node, f"tuple({ordered})" if call_name(node) == "tuple" else ordered),)


def change_copy(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the edit by which a line makes a new value in place of changing a stored one.

    ``row -= mean`` becomes ``row = row - mean``, where the function first does so, and ``row.sub_(mean)``, if it is
    assigned or returned, ``row.sub(mean)``.
    """
    statement, scope = (covering_statement(line), enclosing_scope(line)) if line else (None, None)
    if line is None or scope is None:
        return ()
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        name, changes = statement.target.id, (node for node in ast.walk(scope) if isinstance(node, ast.AugAssign))
        first = min((c for c in changes if ast.unparse(c.target) == name), key=lambda change: change.lineno)
        return (replace_node(line.file, first, ast.unparse(_as_assignment(first))),)
    value = statement.value if isinstance(statement, (ast.Assign, ast.Return)) else None
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)] if value is not None else []
    methods = [call.func for call in calls if isinstance(call.func, ast.Attribute)]
    in_place = [method for method in methods if method.attr.endswith("_") and not method.attr.startswith("_")]
    return tuple(_rename_method(line.file, method) for method in in_place)


def _rename_method(file: str, method: ast.Attribute) -> Edit:
    """Return the removal of the underscore at the end of the name of a method."""
    end = replace_node(file, method, "")
    return Edit(file, end.end_line, end.end_column - 1, end.end_line, end.end_column, "")


def _as_assignment(change: ast.AugAssign) -> ast.Assign:
    """Return the assignment of a new value in the place of an augmented one."""
    read = ast.Name(ast.unparse(change.target), ast.Load())
    assignment = ast.Assign([change.target], ast.BinOp(read, change.op, change.value))
    return ast.fix_missing_locations(assignment)


def _listed_items(node: ast.expr) -> ast.expr | None:
    """Return what an expression puts into a list or tuple, such as ``names`` of ``[*names]``; None for others."""
    if isinstance(node, ast.Call) and call_name(node) in _LISTS and len(node.args) == 1 and not node.keywords:
        return node.args[0] if isinstance(node.func, ast.Name) else None
    if isinstance(node, ast.List) and len(node.elts) == 1 and isinstance(node.elts[0], ast.Starred):
        return node.elts[0].value
    return None
