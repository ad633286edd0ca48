"""Mistakes in the course of the learning rate."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.mutants.operators.registry import operator
from benchmarks.mutants.program_source import ProgramSource, mutate, receiver
from benchmarks.mutants.snippets import BATCH_COUNT
from benchmarks.mutants.source import Mutation


def _multiply_rates(s: ProgramSource, factor: float) -> Iterator[Mutation]:
    """Multiply the learning rates by a factor after each step."""
    for update in s.updates():
        if (optimizer := receiver(update.step)) is not None:
            text = f'for group in {s.of(optimizer)}.param_groups:\n    group["lr"] *= {factor}'
            yield mutate(s.after(update.step, text), blamed=[update.step])


@operator("O507 O502 G409", "O510")
def rate_decays_in_every_batch(s: ProgramSource) -> Iterator[Mutation]:
    """A decay of a fifth for each epoch happens in each batch."""
    yield from _multiply_rates(s, 0.8)


@operator("O501 O507 G410", "G404 O510")
def rate_grows_in_every_batch(s: ProgramSource) -> Iterator[Mutation]:
    """The factor of a decay is above one, so that the learning rate grows by a tenth in each batch."""
    yield from _multiply_rates(s, 1.1)


@operator("O507 O502 G409", "O510")
def warm_up_longer_than_training(s: ProgramSource) -> Iterator[Mutation]:
    """The learning rate rises over 100 000 batches, and training ends long before."""
    for update in s.updates():
        if (optimizer := receiver(update.step)) is not None:
            text = (
                f"warm = batch_count() / 100000\nfor group in {s.of(optimizer)}.param_groups:\n"
                '    group["lr"] = warm * group.setdefault("full_rate", group["lr"])'
            )
            edits = (s.before(update.step, text), s.define(BATCH_COUNT))
            yield mutate(*edits, blamed=[update.step, *map(s.statement, s.optimizers())])


@operator("O507 O504", "O506", fact="computes otherwise")
def scheduler_of_another_optimizer(s: ProgramSource) -> Iterator[Mutation]:
    """The scheduler changes the learning rate of an optimizer that never steps."""
    for call in s.calls("scheduler"):
        if (optimizer := s.argument(call, "optimizer", 0)) is not None:
            blamed = [s.statement(call), *s.statements("schedule_step")]
            yield mutate(s.wrap(optimizer, "__import__('copy').deepcopy({})"), blamed=blamed)


@operator("O507 O502 G414", "G409 O510 T612")
def rate_of_zero_after_one_epoch(s: ProgramSource) -> Iterator[Mutation]:
    """A decay by whole division sets the learning rate to zero after the first pass over the data."""
    for update in s.updates():
        loop, optimizer = s.loop_around(update.step), receiver(update.step)
        if optimizer is not None and loop is not None and s.iterations("train"):
            text = f'for group in {s.of(optimizer)}.param_groups:\n    group["lr"] = group["lr"] * (1 // 2)'
            yield mutate(s.after(loop, text), blamed=[update.step, *map(s.statement, s.optimizers())])
