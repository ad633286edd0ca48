"""Mistakes inside attention: its queries, keys and values, its scores and its heads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, callee, mutate
from benchmarks.mutants.snippets import PROJECTIONS, WITHOUT_SCALE
from benchmarks.mutants.source import Mutation

_INSIDE = "G402 G407 M301 M315 O503"


class _Operands(NamedTuple):
    """The queries, keys and values of one attention, the nodes that combine them, and the modules it stands in."""

    query: ast.expr
    key: ast.expr
    value: ast.expr
    scores: ast.expr
    mixture: ast.expr
    weights: ast.expr | None
    modules: list[str]


def modules_of(s: ProgramSource, function: ast.FunctionDef) -> list[str]:
    """Return the names of the submodules whose class defines a function."""
    owner = s.above(function, ast.ClassDef)
    calls = [call for call in s.nodes(ast.Call) if owner is not None and callee(call) == owner.name]
    return [name for call in calls for name in s.owners(call) if name]


def _products(s: ProgramSource, function: ast.FunctionDef) -> list[tuple[ast.expr, ast.expr, ast.expr]]:
    """Return the matrix products of a function with their operands."""
    found: list[tuple[ast.expr, ast.expr, ast.expr]] = []
    for node in s.run_nodes(ast.expr, within=function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            found.append((node, node.left, node.right))
        elif isinstance(node, ast.Call) and callee(node) == "matmul" and len(node.args) == 2:
            found.append((node, node.args[0], node.args[1]))
        elif isinstance(node, ast.Call) and callee(node) == "einsum" and len(node.args) == 3:
            found.append((node, node.args[1], node.args[2]))
    return found


def attentions(s: ProgramSource) -> Iterator[_Operands]:
    """Yield the attentions that forward methods write themselves, with a softmax or by torch's function."""
    for function in s.forwards():
        modules = modules_of(s, function)
        calls = list(s.run_nodes(ast.Call, within=function))
        for call in calls:
            if callee(call) == "scaled_dot_product_attention" and len(call.args) >= 3:
                query, key, value = call.args[:3]
                yield _Operands(query, key, value, call, call, None, modules)
        products = _products(s, function)
        if len(products) == 2 and any(callee(call) == "softmax" for call in calls):
            (scores, query, key), (mixture, weights, value) = products
            yield _Operands(query, key, value, scores, mixture, weights, modules)


def _change_projection(s: ProgramSource, index: int, change: str) -> Iterator[Mutation]:
    """Change the queries, keys or values (0, 1, 2) of each attention that a library writes."""
    root = s.root()
    names = [("query", "key", "value")[index], "c_attn", "attn", "self"]
    if root is not None and "from transformers import" in s.text:
        text = f"change_projection({{}}, {index}, {change})"
        yield mutate(s.wrap(root, text), s.define(PROJECTIONS), modules=names, blamed=[s.statement(root)])


def _change(s: ProgramSource, index: int, template: str, change: str) -> Iterator[Mutation]:
    for parts in attentions(s):
        node = (parts.query, parts.key, parts.value)[index]
        yield mutate(s.wrap(node, template), modules=parts.modules, blamed=[s.statement(parts.mixture)])
    yield from _change_projection(s, index, change)


@operator("M320 G416", _INSIDE, fact="computes otherwise")
def queries_of_zeros(s: ProgramSource) -> Iterator[Mutation]:
    """The queries are multiplied by zero, so that attention is a mean."""
    yield from _change(s, 0, "({} * 0)", "lambda part: part * 0")


@operator("M320 G416", _INSIDE, fact="computes otherwise")
def keys_of_zeros(s: ProgramSource) -> Iterator[Mutation]:
    """The keys are multiplied by zero."""
    yield from _change(s, 1, "({} * 0)", "lambda part: part * 0")


@operator("M320 G416", _INSIDE, fact="computes otherwise")
def values_of_zeros(s: ProgramSource) -> Iterator[Mutation]:
    """The values are multiplied by zero."""
    yield from _change(s, 2, "({} * 0)", "lambda part: part * 0")


@operator("M301 M320", _INSIDE, fact="computes otherwise")
def queries_detached(s: ProgramSource) -> Iterator[Mutation]:
    """The projection of the queries gets no gradient."""
    yield from _change(s, 0, "{}.detach()", "torch.Tensor.detach")


@operator("M301 M320", _INSIDE, fact="computes otherwise")
def keys_detached(s: ProgramSource) -> Iterator[Mutation]:
    """The projection of the keys gets no gradient."""
    yield from _change(s, 1, "{}.detach()", "torch.Tensor.detach")


@operator("M301 M320", _INSIDE, fact="computes otherwise")
def values_detached(s: ProgramSource) -> Iterator[Mutation]:
    """The projection of the values gets no gradient."""
    yield from _change(s, 2, "{}.detach()", "torch.Tensor.detach")


@operator("M320", _INSIDE, fact="computes otherwise")
def keys_averaged_over_positions(s: ProgramSource) -> Iterator[Mutation]:
    """All positions have the same key."""
    for parts in attentions(s):
        node: ast.expr
        if isinstance(parts.key, ast.Name):
            node = parts.key
            axis = "1" if callee_is(parts.scores, "einsum") else "-2"
        elif isinstance(parts.key, ast.Call) and isinstance(parts.key.func, ast.Attribute):
            node, axis = parts.key.func.value, "-2"
        else:
            continue
        text = f"{{}}.mean({axis}, keepdim=True).expand_as({{}})"
        yield mutate(s.wrap(node, text), modules=parts.modules, blamed=[s.statement(parts.mixture)])
    yield from _change_projection(s, 1, "lambda part: part.mean(1, keepdim=True).expand_as(part)")


def callee_is(node: ast.expr, name: str) -> bool:
    """Check whether an expression is a call of a function."""
    return isinstance(node, ast.Call) and callee(node) == name


def _projection_calls(s: ProgramSource) -> Iterator[tuple[ast.FunctionDef, list[ast.Call]]]:
    """Yield the forward methods that call three or more projections of one input, with these calls."""
    linear = {name for call in s.made_by("Linear") for name in s.owners(call)}
    for function in s.forwards():
        calls = [
            call
            for call in s.run_nodes(ast.Call, within=function)
            if len(call.args) == 1 and linear.intersection(s.owners(call, "called"))
        ]
        inputs = [s.of(call.args[0]) for call in calls]
        same = [call for call in calls if inputs.count(s.of(call.args[0])) >= 3]
        if len(same) >= 3:
            yield function, same[:3]


@operator("M315 M301", "O503", fact="parameters stay")
def keys_by_the_query_layer(s: ProgramSource) -> Iterator[Mutation]:
    """The layer of the queries also makes the keys, and the layer of the keys is never called."""
    for _, (query, key, _value) in _projection_calls(s):
        yield mutate(s.replace(key.func, s.of(query.func)), modules=s.owners(key, "called"))


@operator("M315 M301", "O503", fact="parameters stay")
def values_by_the_key_layer(s: ProgramSource) -> Iterator[Mutation]:
    """The layer of the keys also makes the values, and the layer of the values is never called."""
    for _, (_query, key, value) in _projection_calls(s):
        yield mutate(s.replace(value.func, s.of(key.func)), modules=s.owners(value, "called"))


@operator("M315 M301", "O503", fact="parameters stay")
def output_projection_forgotten(s: ProgramSource) -> Iterator[Mutation]:
    """What the heads return is not projected."""
    for function, (projection, *_) in _projection_calls(s):
        for call in s.run_nodes(ast.Call, within=function):
            names = s.owners(call, "called")
            if names and len(call.args) == 1 and s.of(call.args[0]) != s.of(projection.args[0]):
                yield mutate(s.replace(call, s.of(call.args[0])), modules=names, blamed=[s.statement(call)])


@operator("M301 M320 M315 G416", "O503", fact="computes otherwise")
def keys_mixed_in_the_place_of_values(s: ProgramSource) -> Iterator[Mutation]:
    """The weights are those of the keys, and so is what they mix."""
    for parts in attentions(s):
        key = parts.key
        while isinstance(key, ast.Call) and callee(key) == "transpose" and isinstance(key.func, ast.Attribute):
            key = key.func.value
        if isinstance(key, ast.Attribute) and key.attr in ("mT", "T"):
            key = key.value
        edit = s.replace(parts.value, s.of(key))
        yield mutate(edit, modules=[*parts.modules, *s.owners_within(parts.value)], blamed=[s.statement(parts.mixture)])


# Scores


def _scalings(s: ProgramSource) -> Iterator[tuple[ast.BinOp, list[str]]]:
    for parts in attentions(s):
        for node in s.run_nodes(ast.BinOp, within=s.above(parts.scores, ast.FunctionDef)):
            is_scaling = isinstance(node.op, (ast.Div, ast.Mult)) and s.of(parts.scores) in s.of(node.left)
            if is_scaling and s.span(node)[0] <= s.span(parts.scores)[0]:
                yield node, parts.modules


def _set_scale(s: ProgramSource, change: str) -> Iterator[Mutation]:
    root = s.root()
    if root is not None and "from transformers import" in s.text:
        names, blamed = ["attention", "attn", "self"], [s.statement(root)]
        edits = (s.wrap(root, f"set_scale({{}}, lambda scale: {change})"), s.define(WITHOUT_SCALE))
        yield mutate(*edits, modules=names, blamed=blamed)


@operator("M322", "G402 L206 L208")
def scores_not_scaled(s: ProgramSource) -> Iterator[Mutation]:
    """The scores are not divided by the root of the width of a head."""
    for node, modules in _scalings(s):
        yield mutate(s.replace(node, s.of(node.left)), modules=modules)
    for parts in attentions(s):
        if parts.weights is None and isinstance(parts.scores, ast.Call):
            yield mutate(s.keyword(parts.scores, "scale", "1.0"), modules=parts.modules)
    yield from _set_scale(s, "1.0")


@operator("M322 G402", "G408 L208")
def scores_scaled_the_wrong_way(s: ProgramSource) -> Iterator[Mutation]:
    """The scores are multiplied by the root of the width of a head."""
    for node, modules in _scalings(s):
        text = f"{s.of(node.left)} {'*' if isinstance(node.op, ast.Div) else '/'} ({s.of(node.right)})"
        yield mutate(s.replace(node, text), modules=modules)
    for parts in attentions(s):
        if parts.weights is None and isinstance(parts.scores, ast.Call):
            root = f"{s.of(parts.query)}.shape[-1] ** 0.5"
            yield mutate(s.keyword(parts.scores, "scale", root), modules=parts.modules)
    yield from _set_scale(s, "1 / scale")


@operator("M322", "G402 L208", fact="computes otherwise")
def scores_scaled_twice(s: ProgramSource) -> Iterator[Mutation]:
    """The queries are scaled, and the scores again."""
    scaled = [modules for _, modules in _scalings(s)]
    for parts in attentions(s):
        if parts.weights is not None and parts.modules not in scaled:
            continue
        text = f"({{}} / {s.of(parts.query)}.shape[-1] ** 0.5)"
        yield mutate(s.wrap(parts.query, text), modules=parts.modules, blamed=[s.statement(parts.scores)])
    yield from _change_projection(s, 0, "lambda part: part / 4")


def softmaxes(s: ProgramSource) -> Iterator[tuple[ast.Call, ast.expr, list[str]]]:
    """Yield the softmaxes of attentions with their axis."""
    for function in s.forwards():
        for call in s.run_nodes(ast.Call, within=function):
            axis = s.argument(call, "dim") or (call.args[-1] if call.args else None)
            if callee(call) == "softmax" and axis is not None:
                yield call, axis, modules_of(s, function)


@operator("L206 M309 M320", "M305 M310", fact="computes otherwise")
def softmax_over_queries(s: ProgramSource) -> Iterator[Mutation]:
    """The weights of each key sum to one, not those of each query."""
    for call, axis, modules in softmaxes(s):
        yield mutate(s.replace(axis, "-2"), modules=modules, blamed=[s.statement(call)])


@operator("L206 M309 M320", "M305 M310", fact="computes otherwise")
def softmax_over_heads(s: ProgramSource) -> Iterator[Mutation]:
    """The weights of the heads of a pair of positions sum to one."""
    for call, axis, modules in softmaxes(s):
        yield mutate(s.replace(axis, "1"), modules=modules, blamed=[s.statement(call)])


@operator("M320 L206 G408 G404", "G402 L208 M305 M310", fact="computes otherwise")
def softmax_forgotten(s: ProgramSource) -> Iterator[Mutation]:
    """The scores themselves are the weights; what is masked counts zero."""
    for call, _axis, modules in softmaxes(s):
        is_method = isinstance(call.func, ast.Attribute) and s.of(call.func.value) not in (
            "torch",
            "F",
            "nn.functional",
        )
        source = call.func.value if is_method and isinstance(call.func, ast.Attribute) else call.args[0]
        text = f"{s.of(source)}.clamp(min=-1e3).where({s.of(source)} > -1e3, 0.0)"
        yield mutate(s.replace(call, text), modules=modules, blamed=[s.statement(call)])


@operator("M301 M320", _INSIDE, fact="computes otherwise")
def attention_weights_detached(s: ProgramSource) -> Iterator[Mutation]:
    """Queries and keys get no gradient, because the weights are detached."""
    for parts in attentions(s):
        if parts.weights is not None:
            yield mutate(s.wrap(parts.weights, "{}.detach()"), modules=parts.modules)


# Heads


@operator("M321", "G401 G416 M301", fact="computes otherwise")
def head_without_effect(s: ProgramSource) -> Iterator[Mutation]:
    """What the first head returns is multiplied by zero; an attention without an axis of heads stays as it is."""
    for parts in attentions(s):
        shape = "[:, None]" if callee_is(parts.mixture, "einsum") else "[:, None, None]"
        mixture = s.of(parts.mixture)
        heads = f"({mixture}).shape[{-2 if callee_is(parts.mixture, 'einsum') else -3}]"
        text = f"(({mixture}) * ((torch.arange({heads}) > 0){shape} if ({mixture}).dim() > 3 else 1))"
        yield mutate(s.replace(parts.mixture, text), modules=parts.modules)
    yield from _change_projection(s, 2, "lambda part: part * (torch.arange(part.shape[-1]) >= part.shape[-1] // 2)")


@operator("G407 M321", "M304", fact="computes otherwise")
def heads_start_equal(s: ProgramSource) -> Iterator[Mutation]:
    """All heads start with the weights of the first, and the output adds them in the same way."""
    root = s.root()
    if root is None or not list(attentions(s)):
        return
    names = [name for _, calls in _projection_calls(s) for call in calls for name in s.owners(call, "called")]
    outputs = [
        name
        for function, (projection, *_) in _projection_calls(s)
        for call in s.run_nodes(ast.Call, within=function)
        for name in s.owners(call, "called")
        if name not in names and len(call.args) == 1 and s.of(call.args[0]) != s.of(projection.args[0])
    ]
    if names and outputs:
        text = f"equal_heads({{}}, {names}, {outputs})"
        modules = sorted({name.rpartition(".")[0] for name in names})
        yield mutate(s.wrap(root, text), s.define(_EQUAL_HEADS), modules=modules, blamed=[s.statement(root)])


_EQUAL_HEADS = """
def equal_heads(model, names, outputs, heads=2):
    with torch.no_grad():
        for name in names:
            layer = model.get_submodule(name)
            for tensor in [layer.weight] + ([layer.bias] if layer.bias is not None else []):
                part = tensor[: len(tensor) // heads].clone()
                tensor.copy_(torch.cat([part] * heads))
        for name in outputs:
            weight = model.get_submodule(name).weight
            weight.copy_(torch.cat([weight[:, : weight.shape[1] // heads].clone()] * heads, dim=1))
    return model
"""


@operator("M309 M305 M310 M304", "M306", fact="computes otherwise")
def heads_split_without_transpose(s: ProgramSource) -> Iterator[Mutation]:
    """A reshape takes positions for heads, and back."""
    for function in s.forwards():
        for call in s.run_nodes(ast.Call, within=function):
            inner = call.func.value if isinstance(call.func, ast.Attribute) else None
            is_split = callee(call) == "transpose" and isinstance(inner, ast.Call) and callee(inner) == "view"
            if is_split and inner is not None:
                text = f"{s.of(inner)}.reshape({s.of(call)}.shape)"
                yield mutate(s.replace(call, text), modules=modules_of(s, function))


@operator("M309 M305 M310 M304", "M306", fact="computes otherwise")
def heads_merged_without_transpose(s: ProgramSource) -> Iterator[Mutation]:
    """The heads are reshaped to vectors before they are moved behind the positions."""
    for function in s.forwards():
        for call in s.run_nodes(ast.Call, within=function):
            inner = call.func.value if isinstance(call.func, ast.Attribute) else None
            is_merge = callee(call) == "reshape" and isinstance(inner, ast.Call) and callee(inner) == "transpose"
            if is_merge and isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
                yield mutate(s.replace(inner, s.of(inner.func.value)), modules=modules_of(s, function))
