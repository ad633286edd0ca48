"""Mistakes around recurrent nets and the steps of sequences: states, directions, lengths and shifts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, callee, mutate
from benchmarks.mutants.source import Mutation

_NETS = ("GRU", "LSTM", "RNN")


def _recurrent_calls(s: ProgramSource) -> Iterator[tuple[ast.Call, ast.Call]]:
    """Yield the calls of recurrent nets in forward methods, with the calls that make these nets."""
    made = {name: call for call in s.made_by(*_NETS) for name in s.owners(call)}
    for forward in s.forwards():
        for call in s.run_nodes(ast.Call, within=forward):
            for name in s.owners(call, "called")[:1]:
                if name in made and call.args:
                    yield call, made[name]


@operator("M301", "M302 L212 O503", fact="parameters stay")
def recurrent_states_detached(s: ProgramSource) -> Iterator[Mutation]:
    """The states of a recurrent net are detached before the head reads them."""
    for call, _ in _recurrent_calls(s):
        statement = s.statement(call)
        if isinstance(statement, ast.Assign):
            targets = s.nodes(ast.Name, within=statement.targets[0])
            text = "\n".join(f"{node.id} = {node.id}.detach()" for node in targets if node.id != "_")
            yield mutate(s.after(statement, text), modules=s.owners(call, "called"), blamed=[statement])


def _change_input(s: ProgramSource, call: ast.Call, made: ast.Call, template: str) -> Mutation:
    axes = "1" if s.argument(made, "batch_first") is not None else "0"
    text = template.replace("{}", f"({s.of(call.args[0])})").replace("STEPS", axes)
    return mutate(s.replace(call.args[0], text), modules=s.owners(call, "called"), blamed=[s.statement(call)])


def _unpacked_calls(s: ProgramSource) -> Iterator[tuple[ast.Call, ast.Call]]:
    """Yield the calls of recurrent nets that get tensors."""
    if all(callee(call) != "pack_padded_sequence" for call in s.run_nodes(ast.Call)):
        yield from _recurrent_calls(s)


@operator("M304 M309", "M306 M311", fact="computes otherwise")
def steps_reshaped_across_samples(s: ProgramSource) -> Iterator[Mutation]:
    """A reshape that should exchange samples and steps mixes them before a recurrent net."""
    for call, made in _unpacked_calls(s):
        yield _change_input(s, call, made, "{}.transpose(0, 1).reshape({}.shape)")


@operator("M306 M311", "M305", fact="computes otherwise")
def recurrent_net_reads_the_first_step_only(s: ProgramSource) -> Iterator[Mutation]:
    """A recurrent net gets the first step again and again."""
    for call, made in _unpacked_calls(s):
        yield _change_input(s, call, made, "{}.narrow(STEPS, 0, 1).expand_as({})")


@operator("M301 G416", "M306 O503", fact="parameters stay")
def second_direction_ignored(s: ProgramSource) -> Iterator[Mutation]:
    """The states of the forward direction stand in the place of those of the backward direction."""
    for call, made in _recurrent_calls(s):
        statement = s.statement(call)
        if s.argument(made, "bidirectional") is None or callee(made) not in _NETS:
            continue
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        names = [node.id for node in s.nodes(ast.Name, within=target)] if target is not None else []
        half = "[..., : {}.shape[-1] // 2]"
        if names and names[0] != "_":
            text = f"{names[0]} = {names[0]}{half.format(names[0])}.repeat(1, 1, 2)"
            yield mutate(s.after(statement, text), modules=s.owners(call, "called"), blamed=[statement])
        parent = s.parents[call]
        if isinstance(parent, ast.Subscript):
            value = s.of(parent)
            text = f"{value}[..., : {value}.shape[-1] // 2].repeat(1, 1, 2)"
            yield mutate(s.replace(parent, text), modules=s.owners(call, "called"), blamed=[statement])


@operator("M310", "D123 L215", fact="computes otherwise")
def padding_packed_with_the_steps(s: ProgramSource) -> Iterator[Mutation]:
    """All sequences of a batch are packed as if they had the length of the longest."""
    for call in s.run_nodes(ast.Call):
        if callee(call) == "pack_padded_sequence" and len(call.args) >= 2:
            length = s.of(call.args[1])
            text = f"torch.full_like({length}, {length}.max())"
            blamed = [s.statement(node) for node, _ in _recurrent_calls(s)]
            names = [name for node, _ in _recurrent_calls(s) for name in s.owners(node, "called")]
            yield mutate(s.replace(call.args[1], text), modules=names, blamed=[s.statement(call), *blamed])


def _is_causal(s: ProgramSource) -> bool:
    """Check whether a program reads tokens and has a mask of the future."""
    names = [callee(call) for call in s.run_nodes(ast.Call)]
    is_masked = bool({"triu", "tril", "generate_square_subsequent_mask"}.intersection(names))
    return "GPT2LMHeadModel" in names or ("Embedding" in names and is_masked)


@operator("M305 D126 D115", "D105", fact="computes otherwise")
def decoder_input_shifted_to_the_left(s: ProgramSource) -> Iterator[Mutation]:
    """A causal model of the next token reads at each position the token that it should predict."""
    for call in s.model_calls() if _is_causal(s) else ():
        first = call.args[-1]
        if isinstance(first, ast.Name) and len(s.owners(call, "called")) == 1:
            yield mutate(s.replace(first, f"{first.id}.roll(-1, 1)"), blamed=[s.statement(call)])
