"""Mistakes in the optimizer, its parameters and its schedule."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, callee, mutate
from benchmarks.mutants.snippets import HALF_FROZEN, IN_BFLOAT16, REPLACE_LAYERS
from benchmarks.mutants.source import Mutation


def _setting(s: ProgramSource, name: str, value: str, *classes: str) -> Iterator[Mutation]:
    """Set a keyword of the optimizers of some classes."""
    for call in s.optimizers():
        if not classes or callee(call) in classes:
            yield mutate(s.keyword(call, name, value), blamed=[s.statement(call)])


@operator("O501 G410", "G404")
def rate_times_100(s: ProgramSource) -> Iterator[Mutation]:
    """The learning rate is a hundred times too high."""
    for call in s.optimizers():
        if (rate := s.argument(call, "lr", 1)) is not None:
            yield mutate(s.wrap(rate, "100 * ({})"), blamed=[s.statement(call)])


@operator("O502 G409")
def rate_by_1000(s: ProgramSource) -> Iterator[Mutation]:
    """The learning rate is a thousand times too low."""
    for call in s.optimizers():
        if (rate := s.argument(call, "lr", 1)) is not None:
            yield mutate(s.wrap(rate, "0.001 * ({})"), blamed=[s.statement(call)])


@operator("O510 O501")
def momentum_of_0999(s: ProgramSource) -> Iterator[Mutation]:
    """The momentum is 0.999."""
    yield from _setting(s, "momentum", "0.999", "SGD", "RMSprop")


@operator("O510 O501")
def betas_swapped(s: ProgramSource) -> Iterator[Mutation]:
    """The two decay rates of Adam are swapped."""
    yield from _setting(s, "betas", "(0.999, 0.9)", "Adam", "AdamW", "NAdam", "RAdam")


@operator("O510 O502 G409")
def epsilon_of_one(s: ProgramSource) -> Iterator[Mutation]:
    """The epsilon of an adaptive optimizer is 1."""
    yield from _setting(s, "eps", "1.0", "Adam", "AdamW", "RMSprop", "NAdam", "RAdam")


@operator("O509 G411", "O510")
def weight_decay_of_10(s: ProgramSource) -> Iterator[Mutation]:
    """The weight decay is 10."""
    yield from _setting(s, "weight_decay", "10.0")


@operator("L213 T602", "O510")
def maximize_set(s: ProgramSource) -> Iterator[Mutation]:
    """The optimizer maximizes."""
    for call in s.optimizers():
        if callee(call) != "LBFGS":
            yield mutate(s.keyword(call, "maximize", "True"), blamed=[s.statement(call)])


def whole_parameters(s: ProgramSource) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Yield the optimizers that get all parameters of a model, with that argument."""
    for call in s.optimizers():
        argument = s.argument(call, "params", 0)
        if isinstance(argument, ast.Call) and callee(argument) == "parameters":
            yield call, argument


@operator("O503", fact="parameters stay")
def first_parameters_left_out(s: ProgramSource) -> Iterator[Mutation]:
    """The optimizer does not hold the first layer."""
    for call, argument in whole_parameters(s):
        yield mutate(s.wrap(argument, "list({})[2:]"), blamed=[s.statement(call)])


@operator("O503", fact="parameters stay")
def last_parameters_left_out(s: ProgramSource) -> Iterator[Mutation]:
    """The optimizer does not hold the last layer."""
    for call, argument in whole_parameters(s):
        yield mutate(s.wrap(argument, "list({})[:-2]"), blamed=[s.statement(call)])


@operator("O504 O503", "O505 O506 R904", fact="parameters stay")
def optimizer_of_a_copy(s: ProgramSource) -> Iterator[Mutation]:
    """The optimizer holds the parameters of a copy of the model."""
    for call, argument in whole_parameters(s):
        if isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute):
            text = f"__import__('copy').deepcopy({s.of(argument.func.value)}).parameters()"
            yield mutate(s.replace(argument, text), blamed=[s.statement(call)])


@operator("O504 O503", "O505 O506 R904", fact="parameters stay")
def layers_replaced_after_the_optimizer(s: ProgramSource) -> Iterator[Mutation]:
    """The layers are replaced by new ones, which the optimizer does not hold."""
    for call, argument in whole_parameters(s):
        statement = s.statement(call)
        receiver = argument.func if isinstance(argument, ast.Call) else None
        if isinstance(receiver, ast.Attribute) and isinstance(statement, ast.Assign):
            text = f"replace_layers({s.of(receiver.value)})"
            yield mutate(s.after(statement, text), s.define(REPLACE_LAYERS), blamed=[statement])


@operator("M302 O503", "G414 M301", fact="parameters stay")
def every_second_parameter_frozen(s: ProgramSource) -> Iterator[Mutation]:
    """Every second parameter does not require gradients."""
    if (root := s.root()) is not None:
        yield mutate(s.wrap(root, "half_frozen({})"), s.define(HALF_FROZEN), blamed=[s.statement(root)])


@operator("O517 G414 G409", "L208")
def bfloat16_weights(s: ProgramSource) -> Iterator[Mutation]:
    """Weights in bfloat16 lose small updates."""
    if (root := s.root()) is not None and s.output_expressions():
        blamed = [s.statement(call) for call in (root, *s.optimizers())]
        yield mutate(s.wrap(root, "in_bfloat16({})"), s.define(IN_BFLOAT16), blamed=blamed)


@operator("O507", "O502 G409", fact="by construction")
def schedule_before_the_step(s: ProgramSource) -> Iterator[Mutation]:
    """The scheduler steps before the optimizer, in every batch."""
    for schedule in s.statements("schedule_step"):
        for update in s.updates():
            if schedule in s.block(update.step) and schedule.lineno > update.step.lineno:
                yield mutate(s.before(update.step, s.of(schedule)), s.remove(schedule), blamed=[update.step])


@operator("O507", "O502 G409")
def schedule_stepped_every_batch(s: ProgramSource) -> Iterator[Mutation]:
    """A schedule of epochs steps in every batch."""
    for schedule in s.statements("schedule_step"):
        inner = {node for loop in s.training_loops() for node in ast.walk(loop)}
        steps = [step for step in s.statements("step") if step in inner]
        if steps and schedule not in inner and not schedule.value.args:  # type: ignore[attr-defined]
            yield mutate(s.after(steps[-1], s.of(schedule)), s.remove(schedule), blamed=[steps[-1]])


@operator("O507", fact="computes otherwise")
def schedule_never_stepped(s: ProgramSource) -> Iterator[Mutation]:
    """The scheduler never steps."""
    if statements := s.statements("schedule_step"):
        yield mutate(*map(s.remove, statements), blamed=[s.statement(call) for call in s.calls("scheduler")])


@operator("O507 O502 G409")
def schedule_to_nothing(s: ProgramSource) -> Iterator[Mutation]:
    """Each step of the schedule divides the learning rate by a hundred."""
    for call in s.calls("scheduler"):
        if callee(call) in ("StepLR", "ExponentialLR", "MultiStepLR"):
            yield mutate(s.keyword(call, "gamma", "0.01"), blamed=[s.statement(call)])


@operator("G414 O510 O502", "M302 G409", fact="parameters stay")
def rate_of_zero_for_all_but_the_head(s: ProgramSource) -> Iterator[Mutation]:
    """A parameter group of all layers but the last has the learning rate zero."""
    for call, argument in whole_parameters(s):
        groups = '[{"params": list({})[:-2], "lr": 0.0}, {"params": list({})[-2:]}]'
        yield mutate(s.wrap(argument, groups), blamed=[s.statement(call)])


@operator("O513", "O501 G410", fact="computes otherwise")
def parameters_listed_twice(s: ProgramSource) -> Iterator[Mutation]:
    """The optimizer gets each parameter twice."""
    for call, argument in whole_parameters(s):
        yield mutate(s.wrap(argument, "2 * list({})"), blamed=[s.statement(call)])


def _frozen(s: ProgramSource, weights: str) -> Iterator[Mutation]:
    """Freeze some weights of the model, an expression of ``model``."""
    if (root := s.root()) is not None:
        text = f"def partly_frozen(model):\n    for weight in {weights}:\n        weight.requires_grad_(False)\n"
        edits = (s.wrap(root, "partly_frozen({})"), s.define(f"{text}    return model"))
        yield mutate(*edits, blamed=[s.statement(root), *map(s.statement, s.optimizers())])


@operator("M302 O503", "G414 M301", fact="parameters stay")
def all_but_the_head_frozen(s: ProgramSource) -> Iterator[Mutation]:
    """All layers but the last are frozen as if they had been trained before."""
    yield from _frozen(s, "list(model.parameters())[:-2]")


@operator("M302 O503", "G414 M301", fact="parameters stay")
def only_biases_trained(s: ProgramSource) -> Iterator[Mutation]:
    """All weight matrices are frozen."""
    yield from _frozen(s, "[w for w in model.parameters() if w.dim() > 1]")
