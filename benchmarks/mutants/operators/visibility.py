"""Mistakes in what attention may see: its masks and its cache."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.attention import attentions, modules_of, softmaxes
from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, callee, mutate
from benchmarks.mutants.source import Mutation


def _fills(s: ProgramSource) -> Iterator[tuple[ast.Call, ast.expr, ast.expr, ast.expr, list[str]]]:
    """Yield the calls of masked_fill on scores: the call, the scores, the mask, the value, the modules."""
    for function in s.forwards():
        for call in s.run_nodes(ast.Call, within=function):
            if callee(call) == "masked_fill" and len(call.args) == 2 and isinstance(call.func, ast.Attribute):
                yield call, call.func.value, call.args[0], call.args[1], modules_of(s, function)


def _masks(s: ProgramSource) -> Iterator[tuple[ast.expr, list[str]]]:
    """Yield the masks that are given to attention functions, and the modules in which that happens.

    Masks of local attention are left out: a model without them sees more, and is no mistake.
    """
    for _, _, mask, _, modules in _fills(s):
        yield mask, modules
    names = ("key_padding_mask", "attention_mask", *(() if s.has_local_mask() else ("attn_mask",)))
    for function in s.forwards():
        for call in s.run_nodes(ast.Call, within=function):
            for keyword in call.keywords:
                if keyword.arg in names:
                    yield keyword.value, [*modules_of(s, function), *s.owners(call, "called")]


@operator("M310 M305", "D115 D123 D126", fact="computes otherwise")
def attention_mask_forgotten(s: ProgramSource) -> Iterator[Mutation]:
    """Scores are not masked."""
    for call, scores, _, _, modules in _fills(s):
        yield mutate(s.replace(call, s.of(scores)), modules=modules, blamed=[s.statement(call)])
    for mask, modules in _masks(s):
        if isinstance(s.parents[mask], ast.keyword):
            yield mutate(s.replace(mask, "None"), modules=modules, blamed=[s.statement(mask)])


@operator("M310 M305 G405 G406", "D115 D123 M306 M307 T603", fact="computes otherwise")
def attention_mask_inverted(s: ProgramSource) -> Iterator[Mutation]:
    """What should be hidden is shown, and the reverse."""
    for mask, modules in _masks(s):
        text = "(1 - {})" if "attention_mask=" in s.of(s.statement(mask)) else "~({})"
        yield mutate(s.wrap(mask, text), modules=modules, blamed=[s.statement(mask)])


@operator("M310 M305", "D115 D123 D126", fact="computes otherwise")
def masked_scores_of_zero(s: ProgramSource) -> Iterator[Mutation]:
    """Masked scores become zero, which is no small score."""
    for call, _, _, value, modules in _fills(s):
        yield mutate(s.replace(value, "0.0"), modules=modules, blamed=[s.statement(call)])


@operator("M310 M305", "D115 D123 D126 L206", fact="computes otherwise")
def mask_after_softmax(s: ProgramSource) -> Iterator[Mutation]:
    """The weights are masked after the softmax, so that their sum counts what is hidden."""
    for call, scores, mask, _, modules in _fills(s):
        function = s.above(call, ast.FunctionDef)
        softmax = next((c for c, _, _ in softmaxes(s) if s.above(c, ast.FunctionDef) is function), None)
        if softmax is not None:
            edits = (s.replace(call, s.of(scores)), s.wrap(softmax, f"{{}}.masked_fill({s.of(mask)}, 0.0)"))
            yield mutate(*edits, modules=modules, blamed=[s.statement(softmax)])


def _triangles(s: ProgramSource) -> Iterator[ast.Call]:
    """Yield the calls that make causal masks."""
    for call in s.run_nodes(ast.Call) if not s.has_local_mask() else ():
        if callee(call) in ("triu", "tril") and len(call.args) == 1 and s.above(call, ast.FunctionDef) is not None:
            yield call


@operator("M305", "D115 D126", fact="computes otherwise")
def causal_mask_one_too_late(s: ProgramSource) -> Iterator[Mutation]:
    """Each position sees the next one."""
    for call in _triangles(s):
        yield mutate(s.wrap(call.args[0], "({}) + 1"), blamed=[s.statement(call)], modules=_attention_names(s))


@operator("M305 G405 G406", "D115 D126 M306 T603", fact="computes otherwise")
def causal_mask_transposed(s: ProgramSource) -> Iterator[Mutation]:
    """Each position sees the later ones only."""
    for call in _triangles(s):
        text = f"{s.of(call)}.flip(0, 1)"
        yield mutate(s.replace(call, text), blamed=[s.statement(call)], modules=_attention_names(s))


@operator("G405 T603 G406 M305", "M306", fact="computes otherwise")
def causal_mask_hides_the_diagonal(s: ProgramSource) -> Iterator[Mutation]:
    """No position sees itself, and the first one sees nothing."""
    for call in _triangles(s):
        yield mutate(s.wrap(call.args[0], "({}) - 1"), blamed=[s.statement(call)], modules=_attention_names(s))
    for call in s.run_nodes(ast.Call):
        if callee(call) == "generate_square_subsequent_mask" and len(call.args) == 1:
            size = s.of(call.args[0])
            text = f'torch.full(({size}, {size}), float("-inf")).triu()'
            names = [name for forward in s.forwards() for name in s.owners_within(forward)]
            yield mutate(s.replace(call, text), blamed=[s.statement(call)], modules=names)


@operator("M310 M305", "D123 D115 D126", fact="computes otherwise")
def mask_added_as_numbers(s: ProgramSource) -> Iterator[Mutation]:
    """The ones and zeros of a mask are added to the scores and hide nothing."""
    for call, scores, mask, _, modules in _fills(s):
        text = f"({s.of(scores)} + ({s.of(mask)}).float())"
        yield mutate(s.replace(call, text), modules=modules, blamed=[s.statement(call)])
    for mask, modules in _masks(s) if "from transformers import" not in s.text else ():
        if isinstance(s.parents[mask], ast.keyword) and s.of(mask) != "None":
            yield mutate(s.wrap(mask, "({}).float()"), modules=modules, blamed=[s.statement(mask)])
    for call in s.run_nodes(ast.Call):
        padding = s.argument(call, "src_key_padding_mask")
        if padding is not None and s.owners(call, "called"):
            modules = s.owners(call, "called")
            yield mutate(s.wrap(padding, "({}).float()"), modules=modules, blamed=[s.statement(call)])


@operator("M310", "D123 M306", fact="computes otherwise")
def padding_mask_of_another_token(s: ProgramSource) -> Iterator[Mutation]:
    """A token that means something is taken for padding, and padding is not."""
    for forward in s.forwards():
        inputs = [argument.arg for argument in forward.args.args]
        for node in s.run_nodes(ast.Compare, within=forward):
            is_test = isinstance(node.ops[0], (ast.Eq, ast.NotEq)) and s.of(node.left) in inputs
            if is_test:
                edit = s.wrap(node.comparators[0], "{} + 1")
                yield mutate(edit, blamed=[s.statement(node)], modules=s.owners_within(forward))


def _attention_names(s: ProgramSource) -> list[str]:
    return ["attention", "attn", "attentions", *(name for parts in attentions(s) for name in parts.modules)]


def _four_axes(s: ProgramSource) -> Iterator[ast.Subscript]:
    """Yield the padding masks that get axes for heads and queries."""
    for node in s.run_nodes(ast.Subscript):
        if s.of(node.slice).replace(" ", "") == ":,None,None,:":
            yield node


@operator("M310 G405", "D123 G406 T603", fact="computes otherwise")
def padding_masks_queries(s: ProgramSource) -> Iterator[Mutation]:
    """The padding mask is broadcast along the keys: it hides queries."""
    for node in _four_axes(s):
        text = f"{s.of(node.value)}[:, None, :, None]"
        yield mutate(s.replace(node, text), blamed=[s.statement(node)], modules=_attention_names(s))


@operator("M310 M304", "D123", fact="computes otherwise")
def padding_mask_of_the_first_sample(s: ProgramSource) -> Iterator[Mutation]:
    """All samples get the padding mask of the first."""
    for node in _four_axes(s):
        text = f"{s.of(node.value)}[:1, None, None, :]"
        yield mutate(s.replace(node, text), blamed=[s.statement(node)], modules=_attention_names(s))


# Cache


def _cache_appends(s: ProgramSource) -> Iterator[ast.Call]:
    for function in s.forwards():
        for call in s.run_nodes(ast.Call, within=function):
            parts = call.args[0] if callee(call) == "cat" and call.args else None
            if isinstance(parts, ast.List) and len(parts.elts) == 2 and isinstance(parts.elts[0], ast.Subscript):
                yield call


def _of_cache(s: ProgramSource, call: ast.Call, text: str) -> Mutation:
    function = s.above(call, ast.FunctionDef)
    modules = modules_of(s, function) if function is not None else []
    return mutate(s.replace(call, text), blamed=[s.statement(call)], modules=modules)


@operator("M324", fact="only the record differs")
def cached_keys_forgotten(s: ProgramSource) -> Iterator[Mutation]:
    """The cached keys or values are replaced by the new ones, repeated."""
    for call in _cache_appends(s):
        parts = call.args[0]
        if isinstance(parts, ast.List):
            yield _of_cache(s, call, f"{s.of(parts.elts[1])}[:, :, -1:].expand_as({s.of(call)})")


@operator("M324", fact="only the record differs")
def cached_keys_before_the_past(s: ProgramSource) -> Iterator[Mutation]:
    """New keys or values are put before the cached ones."""
    for call in _cache_appends(s):
        parts = call.args[0]
        if isinstance(parts, ast.List):
            first, second = map(s.of, parts.elts)
            yield _of_cache(s, call, s.of(call).replace(s.of(parts), f"[{second}, {first}]"))


@operator("M324", fact="only the record differs")
def cached_positions_restart(s: ProgramSource) -> Iterator[Mutation]:
    """Positions of cached decoding start at zero again."""
    for function in s.forwards():
        for assign in s.run_nodes(ast.Assign, within=function):
            if s.of(assign.targets[0]) == "start" and isinstance(assign.value, ast.IfExp):
                users = [node for node in s.run_nodes(ast.Assign, within=function) if "start" in s.of(node.value)]
                names = [name for user in users for name in s.owners_within(user)]
                yield mutate(s.replace(assign.value, "0"), modules=modules_of(s, function) + names, blamed=users)


@operator("M324", fact="only the record differs")
def cache_of_one_layer_for_all(s: ProgramSource) -> Iterator[Mutation]:
    """All layers read the cache of the first."""
    for function in s.forwards():
        for node in s.run_nodes(ast.Subscript, within=function):
            if s.of(node.slice) in ("i", "index"):
                is_cache = any(word in s.of(node.value) for word in ("cache", "past"))
                if is_cache:
                    yield mutate(s.replace(node.slice, "0"), modules=modules_of(s, function))
