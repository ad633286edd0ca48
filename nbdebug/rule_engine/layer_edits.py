"""Changes of the user's lines that create or call the layers of a model."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torch import nn

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.finding import Edit
from nbdebug.rule_engine.expression_edits import expressions_at, line_of
from nbdebug.setup import Setup
from nbdebug.setup.module_lines import module_line
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.assignments import covering_statement
from nbdebug.source.creation import consistent_creations
from nbdebug.source.edits import append_argument, replace_node, wrap_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, enclosing_scope, search_files, syntax_tree

_MASK_OPTIONS: dict[type[nn.Module], str] = {
    nn.TransformerEncoderLayer: "src_mask",
    nn.TransformerEncoder: "mask",
    nn.MultiheadAttention: "attn_mask",
}

_PADDING_OPTIONS: dict[type[nn.Module], str] = {
    nn.TransformerEncoderLayer: "src_key_padding_mask",
    nn.TransformerEncoder: "src_key_padding_mask",
    nn.MultiheadAttention: "key_padding_mask",
}


def remove_layer(setup: Setup, path: str) -> tuple[Edit, ...]:
    """Return the removal of a layer from the call of ``Sequential`` that contains its creation; () without one."""
    places = [
        (file, call.args, position)
        for file, call, position in _places(setup, path)
        if isinstance(call, ast.Call) and call_name(call) == nn.Sequential.__name__
    ]
    if len(places) != 1:
        return ()
    file, items, position = places[0]
    removed = replace_node(file, items[position], "")
    if not position:
        return ()
    end = replace_node(file, items[position - 1], "")  # with the comma after it
    return (Edit(file, end.end_line, end.end_column, removed.end_line, removed.end_column, ""),)


def insert_activation(setup: Setup, path: str) -> tuple[Edit, ...]:
    """Return the insertion of a ReLU after a layer, where it is created in a list or called by its attribute."""
    parent = type(setup.eager_model.get_submodule(path.rpartition(".")[0]))
    places = [place for place in _places(setup, path) if not isinstance(place[1], ast.Call) or parent is nn.Sequential]
    if len(places) == 1:
        file, container, position = places[0]
        item = (container.args if isinstance(container, ast.Call) else container.elts)[position]
        namespace = ast.unparse(item.func).rpartition(".")[0] if isinstance(item, ast.Call) else ""
        end = replace_node(file, item, "")
        line, column = end.end_line, end.end_column
        return (Edit(file, line, column, line, column, f", {namespace}.ReLU()"),) if namespace else ()
    calls = list(_calls_of_attribute(setup, path.rpartition(".")[2]))
    if len(calls) != 1:
        return ()
    file, call = calls[0]
    end = replace_node(file, call, "")  # calls may be nested, so that only what follows one is changed
    return (Edit(file, end.end_line, end.end_column, end.end_line, end.end_column, ".relu()"),)


def swap_batch_and_steps(setup: Setup, path: str) -> tuple[Edit, ...]:
    """Return the change of the only call of a module, ``self.name(x)``, that lets it see the steps along axis 0.

    A module that reads axis 0 as the steps, such as a table of positions, then fits inputs with the batch first.
    """
    calls = list(_calls_of_attribute(setup, path.rpartition(".")[2]))
    if len(calls) != 1 or len(calls[0][1].args) != 1 or calls[0][1].keywords:
        return ()
    file, call = calls[0]
    end = replace_node(file, call, "")
    after = Edit(file, end.end_line, end.end_column, end.end_line, end.end_column, ".transpose(0, 1)")
    return wrap_node(file, call.args[0], "{}.transpose(0, 1)"), after


def set_layer_option(setup: Setup, path: str, option: str, value: str) -> tuple[Edit, ...]:
    """Return the change of a keyword of the only call on a line that creates a layer; () if that is ambiguous.

    Among several lines that can have created it, only those count that do not have the option already.
    """
    calls = _creating_calls(setup, path)
    if not calls and "." in path:  # a layer of torch creates its own parts
        return set_layer_option(setup, path.rpartition(".")[0], option, value)
    line = module_line(setup, path)
    on_line = [(file, call) for file, call in calls if line and (file, call.lineno) == (line.file, line.number)]
    candidates = [(file, call) for file, call in on_line or calls if _option(call, option) != value]
    if len(candidates) != 1:
        return ()
    file, call = candidates[0]
    present = next((keyword.value for keyword in call.keywords if keyword.arg == option), None)
    return (replace_node(file, present, value) if present else append_argument(file, call, f"{option}={value}"),)


def _creating_calls(setup: Setup, path: str) -> list[tuple[str, ast.Call]]:
    """Return the calls that can have created a layer, with their files; of another class, they have other options."""
    layer = setup.eager_model.get_submodule(path)
    creations = consistent_creations(layer, search_files(user_written_objects(setup)))
    calls = [(creation.file, creation.call) for creation in creations]
    return [(file, call) for file, call in calls if call_name(call) == type(layer).__name__]


def _option(call: ast.Call, option: str) -> str:
    return next((ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == option), "")


def add_causal_mask(setup: Setup, path: str | None, line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the edit that passes a causal mask where a line calls attention: a module of torch or its function.

    ``path`` is that of the attention, or of a layer in the module that the line calls. Return () for any other call.
    """
    statement = covering_statement(line) if line else None
    if line is None or statement is None:
        return ()
    for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call) and node.args):
        option, value = _causal_option(setup, path or "", call)
        present = next((keyword.value for keyword in call.keywords if keyword.arg == option), None)
        if option and present is not None:
            return (replace_node(line.file, present, value),)
        if option:
            return (append_argument(line.file, call, f"{option}={value}"),)
    return ()


def add_padding_mask(setup: Setup, recorded: TorchCall, token: int) -> tuple[Edit, ...]:
    """Return the edit that passes the mask of padded tokens where a method calls an attention of torch.

    Return () if the method has not the tokens as its only argument, and for any other call.
    """
    line = line_of(recorded.where)
    scope, path = enclosing_scope(line) if line else None, recorded.where.module or ""
    arguments = scope.args.args if isinstance(scope, ast.FunctionDef) else []
    if line is None or len(arguments) != 2 or getattr(scope, "name", "") != "forward":
        return ()
    for call in (node for node in expressions_at(line) if isinstance(node, ast.Call)):
        before, is_called, _ = f"{path}.".partition(f"{call_name(call)}.")
        kind = type(setup.eager_model.get_submodule(f"{before}{call_name(call)}")) if is_called else None
        option = _PADDING_OPTIONS.get(kind, "") if kind else ""
        if option and all(keyword.arg != option for keyword in call.keywords):
            return (append_argument(line.file, call, f"{option}={arguments[1].arg} == {token}"),)
    return ()


def _causal_option(setup: Setup, path: str, call: ast.Call) -> tuple[str, str]:
    """Return the option of a call that makes attention causal, and its value; "" if it has none."""
    name, first = call_name(call), call.args[0]
    if name == "scaled_dot_product_attention":
        return ("is_causal", "True") if len(call.args) == 3 and not call.keywords else ("", "")
    before, is_called, _ = f"{path}.".partition(f"{name}.")
    if not is_called or not isinstance(first, ast.Name):
        return "", ""
    module, attention = (setup.eager_model.get_submodule(part) for part in (f"{before}{name}", path))
    axis = 1 if getattr(attention, "batch_first", False) else 0
    size = f"{first.id}.shape[{axis}]"
    mask = f"torch.nn.Transformer.generate_square_subsequent_mask({size}, device={first.id}.device)"
    return _MASK_OPTIONS.get(type(module), ""), mask


def _places(setup: Setup, path: str) -> Iterator[tuple[str, ast.Call | ast.List | ast.Tuple, int]]:
    """Yield the calls of ``Sequential`` and the lists with the creation of a layer, and its position in each."""
    line: SourceLine | None = module_line(setup, path)
    tree = syntax_tree(line.file) if line else None
    kind = type(setup.eager_model.get_submodule(path)).__name__
    for node in ast.walk(tree) if tree else ():
        is_sequential = isinstance(node, ast.Call) and call_name(node) == nn.Sequential.__name__
        if line is None or not (is_sequential or isinstance(node, (ast.List, ast.Tuple))):
            continue
        items = node.args if isinstance(node, ast.Call) else node.elts  # type: ignore[attr-defined]
        own = [i for i, item in enumerate(items) if item.lineno == line.number and call_name(item) in (kind, "")]
        position = path.rpartition(".")[2]
        is_listed = isinstance(node, ast.Call) and not any(isinstance(item, ast.Starred) for item in items)
        if is_listed and position.isdigit():
            own = [i for i in own if i == int(position)]
        else:
            own = [i for i in own if call_name(items[i]) == kind]
        if len(own) == 1:
            yield line.file, node, own[0]  # type: ignore[misc]


def _calls_of_attribute(setup: Setup, name: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls ``self.name(...)`` in the user's files."""
    for file in search_files(user_written_objects(setup)):
        tree = syntax_tree(file)
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == f"self.{name}":
                yield file, node
