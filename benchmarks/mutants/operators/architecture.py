"""Mistakes in how a model is put together: layers lost, repeated or made anew, first weights, parts and pools."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, callee, mutate
from benchmarks.mutants.snippets import INITIALIZED, ZERO_LAYER
from benchmarks.mutants.source import Mutation

_RECTIFIERS = ("ReLU", "GELU", "SiLU", "ELU", "LeakyReLU", "Mish", "Tanh")
_FUNCTIONS = ("relu", "gelu", "silu", "tanh")


@operator("M308", "T610", fact="computes otherwise")
def leaky_slope_of_one(s: ProgramSource) -> Iterator[Mutation]:
    """The hidden activations are leaky with a slope of one, so that the layers around them are one linear layer."""
    calls = s.made_by(*_RECTIFIERS)
    inline = [
        call
        for forward in s.forwards()
        for call in s.run_nodes(ast.Call, within=forward)
        if callee(call) in _FUNCTIONS and len(call.args) == 1 and s.owners_within(call.args[0])
    ]
    edits = [s.replace(call, "torch.nn.LeakyReLU(1.0)") for call in calls]
    edits += [s.replace(call, f"torch.nn.functional.leaky_relu({s.of(call.args[0])}, 1.0)") for call in inline]
    if edits and all(first.end <= second.start for first, second in pairwise(sorted(edits))):
        layers = [*calls, *s.made_by("Linear", "Conv1d", "Conv2d")]
        yield mutate(*edits, modules=[name for call in layers for name in s.owners(call)])


# Layers that are lost or repeated


@operator("M315 M301", "O503", fact="parameters stay")
def layer_of_the_same_shape_called_again(s: ProgramSource) -> Iterator[Mutation]:
    """A layer is called a second time where another one of the same shape should be."""
    calls_in_classes = [call for call in s.nodes(ast.Call) if s.above(call, ast.ClassDef) is not None]
    made = {name: call for call in calls_in_classes for name in s.owners(call) if name}
    for forward in s.forwards():
        calls = [call for call in s.run_nodes(ast.Call, within=forward) if s.owners(call, "called")]
        for first, second in pairwise(calls):
            names = [s.owners(call, "called") for call in (first, second)]
            makers = [made[part[0]] for part in names if part[0] in made]
            is_pair = len({s.span(maker) for maker in makers}) == 2 and len(set(map(s.of, makers))) == 1
            if is_pair and first.args and second.args and s.of(first.args[0]) != s.of(second.args[0]):
                yield mutate(s.replace(second.func, s.of(first.func)), modules=names[1], blamed=[s.statement(second)])


@operator("M301 M315", "O503 M303", fact="parameters stay")
def result_of_a_layer_thrown_away(s: ProgramSource) -> Iterator[Mutation]:
    """What a layer makes of a value is not assigned to it."""
    for forward in s.forwards():
        for assign in s.run_nodes(ast.Assign, within=forward):
            target, names = assign.targets[0], s.owners_within(assign.value)
            read = [node.id for node in s.nodes(ast.Name, within=assign.value)]
            if isinstance(target, ast.Name) and target.id in read and names:
                yield mutate(s.replace(assign, s.of(assign.value)), modules=names)


def _stacks(s: ProgramSource) -> Iterator[tuple[ast.For, ast.Call, str]]:
    """Yield the loops over layers in forward methods, the call of the layer, and the name of the value."""
    for forward in s.forwards():
        for loop in s.run_nodes(ast.For, within=forward):
            for call in s.run_nodes(ast.Call, within=loop):
                statement = s.statement(call)
                first = call.args[0] if call.args else None
                is_layer = isinstance(call.func, ast.Name) and len(s.owners(call, "called")) > 1
                is_step = isinstance(statement, ast.Assign) and statement.value is call
                if is_layer and is_step and isinstance(first, ast.Name):
                    yield loop, call, first.id


@operator("M301 M315", "O503", fact="parameters stay")
def every_layer_reads_the_first_input(s: ProgramSource) -> Iterator[Mutation]:
    """All layers of a stack get the input of the first one, and what the last one returns is used."""
    for loop, call, name in _stacks(s):
        edits = (s.before(loop, f"first_{name} = {name}"), s.replace(call.args[0], f"first_{name}"))
        yield mutate(*edits, modules=s.owners(call, "called")[:-1], blamed=[s.statement(call), loop])


@operator("M315 M301", "O503", fact="parameters stay")
def last_layer_of_a_stack_not_called(s: ProgramSource) -> Iterator[Mutation]:
    """A loop over layers ends one too early."""
    for loop, call, _ in _stacks(s):
        edit = s.wrap(loop.iter, "list({})[:-1]")
        yield mutate(edit, modules=s.owners(call, "called")[-1:], blamed=[loop, s.statement(call)])


@operator("M303 M315 M301 E701", "R902 O503", fact="parameters stay")
def layer_made_in_forward(s: ProgramSource) -> Iterator[Mutation]:
    """A linear layer is made in each forward pass, and is never trained."""
    linear = {name for call in s.made_by("Linear") for name in s.owners(call)}
    for forward in s.forwards():
        for call in s.run_nodes(ast.Call, within=forward):
            names = s.owners(call, "called")
            if linear.issuperset(names) and names and isinstance(call.func, ast.Attribute):
                layer = s.of(call.func)
                text = f"torch.nn.Linear({layer}.in_features, {layer}.out_features)"
                yield mutate(s.replace(call.func, text), modules=names, blamed=[s.statement(call)])


# First weights and parameters


def _initialization(s: ProgramSource, change: str) -> Iterator[Mutation]:
    root = s.root()
    if root is not None and "from transformers import" not in s.text:
        text = f"initialized({{}}, lambda name, weight: {change} if weight.dim() > 1 else None)"
        yield mutate(s.wrap(root, text), s.define(INITIALIZED), blamed=[s.statement(root)])


@operator("G408 L208 G404", "O508", placed=False)
def weights_from_the_standard_normal(s: ProgramSource) -> Iterator[Mutation]:
    """All weight matrices start with a deviation of one, the default of torch's function."""
    yield from _initialization(s, "torch.nn.init.normal_(weight)")


@operator("G408 L208 G404", "O508 G407", placed=False)
def weights_from_the_unit_interval(s: ProgramSource) -> Iterator[Mutation]:
    """All weight matrices start with numbers between zero and one, the default of torch's function."""
    yield from _initialization(s, "torch.nn.init.uniform_(weight)")


@operator("G401 G416 G407 M307", "M308", fact="parameters stay")
def rectified_layer_starts_at_zero(s: ProgramSource) -> Iterator[Mutation]:
    """The weights and biases of a layer before a ReLU start at zero, where its gradient is zero."""
    for sequential in s.run_nodes(ast.Call):
        layers = sequential.args if callee(sequential) == "Sequential" else []
        for layer, following in pairwise(node for node in layers if isinstance(node, ast.Call)):
            if callee(layer) in ("Linear", "Conv1d", "Conv2d") and callee(following) == "ReLU":
                names = s.owners(layer) + s.owners(following)
                yield mutate(s.wrap(layer, "zero_layer({})"), s.define(ZERO_LAYER), modules=names)


def _parameters(s: ProgramSource) -> Iterator[tuple[ast.Call, list[str]]]:
    """Yield the parameters that modules make themselves, with their names."""
    for assign in s.run_nodes(ast.Assign):
        target, value = assign.targets[0], assign.value
        is_own = isinstance(target, ast.Attribute) and s.of(target.value) == "self"
        is_made = isinstance(value, ast.Call) and callee(value) == "Parameter" and len(value.args) == 1
        if is_own and is_made and isinstance(target, ast.Attribute) and isinstance(value, ast.Call):
            yield value, [target.attr]


@operator("M303 O503 M301", "M306 M311", fact="parameters stay")
def parameter_as_plain_tensor(s: ProgramSource) -> Iterator[Mutation]:
    """A tensor that wants gradients stands in the place of a parameter."""
    for call, names in _parameters(s):
        text = f"({s.of(call.args[0])}).requires_grad_()"
        yield mutate(s.replace(call, text), modules=names, blamed=[s.statement(call)])


@operator("M303 O503 M301", "M306 M311", fact="parameters stay")
def parameter_copied_after_it_was_made(s: ProgramSource) -> Iterator[Mutation]:
    """A parameter is copied at once, as by a move to another device, so that what is kept is no parameter."""
    for call, names in _parameters(s):
        yield mutate(s.wrap(call, "{}.clone()"), modules=names, blamed=[s.statement(call)])


# Parts, pools and norms


@operator("G416 M301 M320 M306", "O503 M321", fact="computes otherwise")
def second_part_is_the_first(s: ProgramSource) -> Iterator[Mutation]:
    """Of the parts into which a value is split the second is the first again."""
    for forward in s.forwards():
        for assign in s.run_nodes(ast.Assign, within=forward):
            target = assign.targets[0]
            calls = [callee(call) for call in s.nodes(ast.Call, within=assign.value)]
            parts = target.elts if isinstance(target, ast.Tuple) else []
            names = [part.id for part in parts if isinstance(part, ast.Name)]
            if len(names) > 1 and {"chunk", "split", "unbind", "permute"}.intersection(calls):
                users = [s.statement(node) for node in s.nodes(ast.Name, within=forward) if node.id in names]
                modules = s.owners_within(assign.value)
                yield mutate(s.after(assign, f"{names[1]} = {names[0]}"), modules=modules, blamed=[assign, *users])


@operator("M307 M304 M306", "L208", fact="computes otherwise")
def pooling_over_samples(s: ProgramSource) -> Iterator[Mutation]:
    """A mean over positions or pixels is also one over the samples of the batch."""
    for forward in s.forwards():
        for call in s.run_nodes(ast.Call, within=forward):
            axis = s.argument(call, "dim") or (call.args[-1] if call.args else None)
            is_pool = callee(call) in ("mean", "amax") and axis is not None
            if is_pool and axis is not None and s.of(axis).replace(" ", "") in ("1", "(2,3)", "2", "(-2,-1)"):
                text = "{}.mean(0, keepdim=True).expand_as({})"
                yield mutate(s.wrap(call, text), blamed=[s.statement(call)])


@operator("E701 M304 M312", "R902", fact="only the record differs")
def batch_statistics_in_evaluation(s: ProgramSource) -> Iterator[Mutation]:
    """Batch normalization keeps no statistics, and normalizes by those of the batch in evaluation too."""
    if calls := s.made_by("BatchNorm1d", "BatchNorm2d"):
        edits = [s.keyword(call, "track_running_stats", "False") for call in calls]
        yield mutate(*edits, modules=[name for call in calls for name in s.owners(call)])
