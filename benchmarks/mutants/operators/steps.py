"""Mistakes in what a step of training does: what the model gets, how weights move, and settings meant for another."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.data import has_float_inputs
from benchmarks.mutants.operators.optimizer import whole_parameters
from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, callee, mutate
from benchmarks.mutants.source import Mutation

_ADAPTIVE = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop")


@operator("L214 D107 T614 T601", "T607 D119 D106 T610")
def break_left_in_the_loop(s: ProgramSource) -> Iterator[Mutation]:
    """A break that was meant for a trial ends each pass over the data after its first batch."""
    for loop in s.training_loops():
        if isinstance(loop, ast.For) and any(step in loop.body for step in s.statements("step")):
            yield mutate(s.after(loop.body[-1], "break"), blamed=[loop, *s.statements("step")])


def _change_input(s: ProgramSource, template: str) -> Iterator[Mutation]:
    """Change the only input of the model in training, ``INPUT`` in the template."""
    for call in s.model_calls():
        if len(call.args) == 1 and not isinstance(call.args[0], ast.Starred) and has_float_inputs(s):
            text = template.replace("INPUT", f"({s.of(call.args[0])})")
            yield mutate(s.replace(call.args[0], text), blamed=[s.statement(call)])


@operator("D105 M306 D109", "D111 D117 D122")
def random_numbers_in_the_place_of_inputs(s: ProgramSource) -> Iterator[Mutation]:
    """The random tensor with which shapes were tried is still what the model trains on."""
    yield from _change_input(s, "torch.randn_like(INPUT)")


@operator("D109 D104", "M312 G408 L208")
def inputs_normalized_again_in_the_loop(s: ProgramSource) -> Iterator[Mutation]:
    """The training loop normalizes the inputs once more, with the constants of another data set."""
    yield from _change_input(s, "(INPUT - 0.485) / 0.229")


@operator("M301 O503 O504 O506 G414", "R904", fact="parameters stay")
def copy_of_the_model_trained(s: ProgramSource) -> Iterator[Mutation]:
    """The loop calls a copy of the model, made anew for each batch."""
    for call in s.model_calls():
        blamed = [s.statement(call), *s.statements("backward", "step"), *map(s.statement, s.optimizers())]
        yield mutate(s.wrap(call.func, "__import__('copy').deepcopy({})"), blamed=blamed)


@operator("D117", "T612 R901 R902", fact="computes otherwise")
def seed_set_in_every_step(s: ProgramSource) -> Iterator[Mutation]:
    """The seed is set before each batch, so that dropout or noise is the same in all of them."""
    is_random = s.made_by("Dropout", "Dropout1d", "Dropout2d") or any("rand" in s.of(f) for f in s.forwards())
    for loop in s.training_loops() if is_random else ():
        yield mutate(s.before(loop.body[0], "torch.manual_seed(0)"), blamed=[loop, *map(s.statement, s.model_calls())])


@operator("R905 R904 O502 G409 G414", "O510")
def average_written_back_in_every_step(s: ProgramSource) -> Iterator[Mutation]:
    """A slow average of the weights is written back to the model after each step."""
    for loop in s.training_loops():
        models = [s.of(call.func) for call in s.model_calls() if s.loop_around(call) is loop]
        steps = [step for step in s.statements("step") if s.loop_around(step) is loop]
        if models and steps:
            text = (
                f"for slow, fast in zip(slow_model.parameters(), {models[0]}.parameters()):\n"
                "    slow.data.lerp_(fast.data, 0.001)\n    fast.data.copy_(slow.data)"
            )
            start = s.before(s.loop_around(loop) or loop, f"slow_model = __import__('copy').deepcopy({models[0]})")
            yield mutate(start, s.after(steps[-1], text), blamed=steps)


@operator("O503", fact="parameters stay")
def parameters_without_decay_forgotten(s: ProgramSource) -> Iterator[Mutation]:
    """The optimizer gets the matrices, for which weight decay is meant, and no biases and scales."""
    for call, argument in whole_parameters(s):
        yield mutate(s.wrap(argument, "[w for w in {} if w.dim() > 1]"), blamed=[s.statement(call)])


@operator("O501 G410 O510", "G404")
def head_rate_times_100(s: ProgramSource) -> Iterator[Mutation]:
    """A parameter group of the head has a learning rate that is a hundred times higher."""
    for call, argument in whole_parameters(s):
        if (rate := s.argument(call, "lr", 1)) is not None:
            groups = f'[{{"params": list(PARAMS)[:-2]}}, {{"params": list(PARAMS)[-2:], "lr": 100 * {s.of(rate)}}}]'
            edit = s.replace(argument, groups.replace("PARAMS", s.of(argument)))
            yield mutate(edit, blamed=[s.statement(call)])


def _rate(s: ProgramSource, value: str, *classes: str) -> Iterator[Mutation]:
    """Set the learning rate of the optimizers of some classes."""
    for call in s.optimizers():
        rate = s.argument(call, "lr", 1)
        if callee(call) in classes and rate is not None:
            yield mutate(s.replace(rate, value), blamed=[s.statement(call)])


@operator("O501 G410", "G404 O510")
def rate_of_sgd_for_adam(s: ProgramSource) -> Iterator[Mutation]:
    """An adaptive optimizer has a learning rate that is usual for plain gradient descent."""
    yield from _rate(s, "0.1", *_ADAPTIVE)


@operator("O502 G409", "O510")
def rate_of_adam_for_sgd(s: ProgramSource) -> Iterator[Mutation]:
    """Gradient descent has a learning rate that is usual for adaptive optimizers."""
    yield from _rate(s, "3e-4", "SGD")


def _with_momentum(s: ProgramSource) -> Iterator[tuple[ast.Call, ast.expr]]:
    for call in s.optimizers():
        momentum = s.argument(call, "momentum")
        if callee(call) == "SGD" and momentum is not None and s.argument(call, "nesterov") is None:
            yield call, momentum


@operator("O510", "O502 G409 T601", fact="computes otherwise")
def dampening_of_one(s: ProgramSource) -> Iterator[Mutation]:
    """The dampening of the momentum is 1, so that no gradient but the first one counts."""
    for call, _ in _with_momentum(s):
        yield mutate(s.keyword(call, "dampening", "1.0"), blamed=[s.statement(call)])


@operator("O509 O510 G411", "O501")
def momentum_given_as_weight_decay(s: ProgramSource) -> Iterator[Mutation]:
    """The momentum of gradient descent is passed as its weight decay."""
    for call, momentum in _with_momentum(s):
        edits = s.replace(momentum, "0.0"), s.keyword(call, "weight_decay", s.of(momentum))
        yield mutate(*edits, blamed=[s.statement(call)])
