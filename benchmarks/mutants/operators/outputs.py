"""Mistakes in what enters and leaves a model: embeddings, several inputs, heads and dense outputs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, callee, mutate
from benchmarks.mutants.source import Mutation

# Embeddings and inputs


@operator("M302 M301 O503", "M315", fact="parameters stay")
def embedding_frozen(s: ProgramSource) -> Iterator[Mutation]:
    """A table of random vectors is made as if it was trained before, and so it stays as it is."""
    for call in s.made_by("Embedding"):
        if isinstance(s.parents[call], (ast.Assign, ast.Tuple)):
            text = f"torch.nn.Embedding.from_pretrained({s.of(call)}.weight.detach())"
            yield mutate(s.replace(call, text), modules=s.owners(call), blamed=[s.statement(call)])


def _lookups(s: ProgramSource) -> Iterator[ast.Call]:
    """Yield the calls of embeddings with what a forward method gets."""
    tables = {name for call in s.made_by("Embedding") for name in s.owners(call)}
    for forward in s.forwards():
        inputs = [argument.arg for argument in forward.args.args]
        for call in s.run_nodes(ast.Call, within=forward):
            if tables.intersection(s.owners(call, "called")) and len(call.args) == 1 and s.of(call.args[0]) in inputs:
                yield call


@operator("M306 E709 T608 M307", "M305 M310 L208", fact="computes otherwise")
def mask_embedded_in_the_place_of_tokens(s: ProgramSource) -> Iterator[Mutation]:
    """The table gets ones for tokens and zeros for padding, not the tokens."""
    for call in _lookups(s):
        text = f"({s.of(call.args[0])} != 0).long()"
        yield mutate(s.replace(call.args[0], text), modules=s.owners(call, "called"), blamed=[s.statement(call)])


@operator("G408 L208 G402 M311", "G404 M322")
def embeddings_times_their_width(s: ProgramSource) -> Iterator[Mutation]:
    """Embedded tokens are multiplied by their width, not by its root."""
    for call in _lookups(s):
        text = "({} * {}.shape[-1])"
        yield mutate(s.wrap(call, text), modules=s.owners(call, "called"), blamed=[s.statement(call)])


def _root_forward(s: ProgramSource) -> ast.FunctionDef | None:
    root = s.root()
    for forward in s.forwards():
        owner = s.above(forward, ast.ClassDef)
        if root is not None and owner is not None and owner.name == callee(root):
            return forward
    return None


@operator("M304 M306", "M310 D123 M307", fact="computes otherwise")
def second_input_of_the_first_sample(s: ProgramSource) -> Iterator[Mutation]:
    """All samples get the second input of the first one."""
    forward = _root_forward(s)
    if forward is None:
        return
    required = forward.args.args[1 : len(forward.args.args) - len(forward.args.defaults)]
    body = [statement for statement in forward.body if s.runs(statement)]
    if len(required) > 1 and body:
        name = required[1].arg
        users = [s.statement(node) for node in s.nodes(ast.Name, within=forward) if node.id == name]
        yield mutate(s.before(body[0], f"{name} = {name}[:1].expand_as({name})"), blamed=users)


# Heads


def _last_linear(s: ProgramSource) -> Iterator[ast.Call]:
    """Yield the calls that make the linear layer whose result is the output of the model."""
    made = {name: call for call in s.made_by("Linear") for name in s.owners(call)}
    for node, names in s.output_expressions():
        called = s.owners(node, "called") if isinstance(node, ast.Call) else []
        for name in [*names, *called]:
            if name in made and len(made[name].args) == 2:
                yield made[name]


def _resize(s: ProgramSource, count: str) -> Iterator[Mutation]:
    tied = {
        s.of(node.targets[0]).split(".")[-2]
        for node in s.run_nodes(ast.Assign)
        if s.of(node).endswith(".weight") and s.of(node.targets[0]).endswith(".weight")
    }
    for call in _last_linear(s):
        names = s.owners(call)
        if not tied.intersection(names) and s.of(call.args[1]) != "1":
            blamed = [s.statement(node) for node in (call, *s.losses())]
            yield mutate(s.replace(call.args[1], count), modules=names, blamed=blamed)


@operator("L207 L208", "M319", fact="computes otherwise")
def head_for_a_thousand_classes(s: ProgramSource) -> Iterator[Mutation]:
    """The head has a thousand outputs, as many as the network it was taken from."""
    if s.loss_kind() in ("cross-entropy", "nll"):
        yield from _resize(s, "1000")


@operator("L205 L207", "D102 L208 M307", fact="computes otherwise")
def one_output_for_several_targets(s: ProgramSource) -> Iterator[Mutation]:
    """The head has one output, which is compared with each of several targets."""
    if s.loss_kind() == "regression":
        yield from _resize(s, "1")


@operator("M309 D105", "L208", fact="computes otherwise")
def dense_output_transposed(s: ProgramSource) -> Iterator[Mutation]:
    """Rows and columns of a map of outputs are exchanged."""
    made = {name for call in s.made_by("Conv2d", "ConvTranspose2d") for name in s.owners(call)}
    forward = _root_forward(s)
    for node in s.run_nodes(ast.Return, within=forward) if forward is not None else ():
        for call in s.nodes(ast.Call, within=node):
            names = s.owners(call, "called")
            if names and names[0] in made:
                yield mutate(s.wrap(call, "{}.transpose(-1, -2)"), modules=names, blamed=[node])
