"""Mistakes in what the positions of a sequence share: statistics, scales, weights and segments."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.attention import attentions, callee_is, softmaxes
from benchmarks.mutants.operators.blocks import norm_calls, position_sums
from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, mutate
from benchmarks.mutants.source import Mutation

_MIXED = "M305 M310 M304 M309"


def _change_norms(s: ProgramSource, template: str) -> Iterator[Mutation]:
    for call in norm_calls(s):
        value = s.of(call.args[0])
        text = template.format(norm=s.of(call.func), value=f"({value})")
        yield mutate(s.replace(call, text), modules=s.owners(call, "called"), blamed=[s.statement(call)])


@operator(f"M326 {_MIXED}", "M306 M311 M315 M301 O503", fact="computes otherwise")
def norm_of_transposed_values(s: ProgramSource) -> Iterator[Mutation]:
    """A normalization gets positions as its last axis, and then the features are normalized."""
    inner = "torch.nn.functional.layer_norm({value}.transpose(-1, -2), ({value}.shape[-2],)).transpose(-1, -2)"
    yield from _change_norms(s, f"{{norm}}({inner})")


@operator(f"M326 {_MIXED}", "M306 M311", fact="computes otherwise")
def deviation_over_positions(s: ProgramSource) -> Iterator[Mutation]:
    """Values are divided by their standard deviation over the positions."""
    yield from _change_norms(s, "{norm}({value} / ({value}.std(-2, keepdim=True) + 1e-5))")


@operator("L206 M304", "M305 M310 M320", fact="computes otherwise")
def softmax_over_samples(s: ProgramSource) -> Iterator[Mutation]:
    """The attention weights of all samples of the batch sum to one."""
    for call, axis, modules in softmaxes(s):
        yield mutate(s.replace(axis, "0"), modules=modules, blamed=[s.statement(call)])


@operator("G408 M311 T610 T608", "L208 G402 M322")
def embeddings_too_small_for_positions(s: ProgramSource) -> Iterator[Mutation]:
    """The embedded tokens are a hundred times smaller than they were."""
    for node, _ in position_sums(s):
        yield mutate(s.wrap(node.left, "0.01 * {}"), modules=s.owners_within(node), blamed=[s.statement(node)])


@operator("G408 M311 T610 T608", "L208 G402 M322")
def positions_times_30(s: ProgramSource) -> Iterator[Mutation]:
    """Positions are thirty times larger than tokens."""
    for node, positions in position_sums(s):
        yield mutate(s.wrap(positions, "30 * {}"), modules=s.owners_within(node), blamed=[s.statement(node)])


@operator("L206 M309 M320 M305", "M310 M304", fact="computes otherwise")
def weights_normalized_again_over_queries(s: ProgramSource) -> Iterator[Mutation]:
    """The weights of each key are divided by their sum, after the softmax over the keys."""
    for call, _axis, modules in softmaxes(s):
        text = f"({s.of(call)} / ({s.of(call)}.sum(-2, keepdim=True) + 1e-6))"
        yield mutate(s.replace(call, text), modules=modules, blamed=[s.statement(call)])


@operator("M320", f"G416 M301 {_MIXED}", fact="computes otherwise")
def one_query_for_all_positions(s: ProgramSource) -> Iterator[Mutation]:
    """All positions have the query of the first one, so that attention returns the same for all of them."""
    for parts in attentions(s):
        if not callee_is(parts.scores, "einsum"):
            text = "{}[..., :1, :].expand_as({})".replace("{}", s.of(parts.query))
            yield mutate(s.replace(parts.query, text), modules=parts.modules, blamed=[s.statement(parts.mixture)])


@operator(f"M320 {_MIXED}", "M306", fact="computes otherwise")
def values_rolled_by_one_position(s: ProgramSource) -> Iterator[Mutation]:
    """The values belong to the keys before them, and the first one to the last key."""
    for parts in attentions(s):
        if not callee_is(parts.scores, "einsum"):
            text = f"{s.of(parts.value)}.roll(1, -2)"
            yield mutate(s.replace(parts.value, text), modules=parts.modules, blamed=[s.statement(parts.mixture)])


@operator("M320 M306 M311 M301", "M310", fact="computes otherwise")
def attention_to_itself_only(s: ProgramSource) -> Iterator[Mutation]:
    """Each position sees itself and no other one."""
    for call, _axis, modules in softmaxes(s):
        text = f"torch.eye({s.of(call)}.shape[-1]).expand_as({s.of(call)})"
        yield mutate(s.replace(call, text), modules=modules, blamed=[s.statement(call)])


@operator("M306 M310", "D115 D123 M307 T603", fact="computes otherwise")
def segments_hidden_from_each_other(s: ProgramSource) -> Iterator[Mutation]:
    """Each position sees the positions of its own segment only."""
    for node in s.run_nodes(ast.Subscript):
        function = s.above(node, ast.FunctionDef)
        names = [a.arg for a in function.args.args if "segment" in a.arg] if function is not None else []
        if names and s.of(node.slice).replace(" ", "") == ":,None,None,:":
            part = names[0]
            text = f"({s.of(node)} | ({part}[:, None, :, None] != {part}[:, None, None, :]))"
            yield mutate(s.replace(node, text), modules=["attention"], blamed=[s.statement(node)])
