"""Mistakes in copies of the weights: checkpoints, averages and resets."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, mutate
from benchmarks.mutants.source import Mutation


def _loops_and_models(s: ProgramSource) -> Iterator[tuple[ast.stmt, ast.stmt, str]]:
    """Innermost training loops, the outermost loops around them, and the name of the model that they call."""
    for loop in s.training_loops():
        names = [s.of(call.func) for call in s.model_calls() if s.loop_around(call) is loop]
        if names:
            yield loop, s.loop_around(loop) or loop, names[0]


@operator("R904 R905 E709", "E710 E707")
def first_weights_loaded_at_the_end(s: ProgramSource) -> Iterator[Mutation]:
    """The kept weights are those before training, and they are loaded at the end."""
    for _, outer, model in _loops_and_models(s):
        kept = f"kept_state = {{name: value.clone() for name, value in {model}.state_dict().items()}}"
        yield mutate(s.before(outer, kept), s.after(outer, f"{model}.load_state_dict(kept_state)"))


@operator("T612 R904 T605", "G410 E707")
def weights_reset_in_every_epoch(s: ProgramSource) -> Iterator[Mutation]:
    """The layers are initialized anew before each pass over the data."""
    for loop, _, model in _loops_and_models(s):
        text = f"for part in {model}.modules():\n    getattr(part, 'reset_parameters', int)()"
        yield mutate(s.before(loop, text), blamed=[loop])


@operator("R904 R905 E709", "E710 E707")
def average_that_hardly_moves(s: ProgramSource) -> Iterator[Mutation]:
    """A moving average of the weights forgets too slowly, and is taken for the model at the end."""
    for loop, outer, model in _loops_and_models(s):
        steps = [step for step in s.statements("step") if s.loop_around(step) is loop]
        if steps:
            pairs = f"zip(averaged.parameters(), {model}.parameters())"
            follow = f"for slow, fast in {pairs}:\n    slow.data.lerp_(fast.data, 0.0001)"
            edits = (
                s.before(outer, f"averaged = __import__('copy').deepcopy({model})"),
                s.after(steps[-1], follow),
                s.after(outer, f"{model}.load_state_dict(averaged.state_dict())"),
            )
            yield mutate(*edits)
