"""Random generators that are created or seeded again while a sample is read, observed by running the read."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbdebug.measurements.replaced_functions import replace_random_functions
from nbdebug.preserve.process_snapshots import GENERATOR_TYPES, GeneratorSnapshot
from nbdebug.source.assignments import find_function
from nbdebug.source.interpreter_events import trace_lines
from nbdebug.source.location import SourceLine, get_line_from_frame, is_user_code
from nbdebug.source.search import assignment_targets

_MAX_VARIABLES = 50  # of a function or an object that are inspected
_MAX_LINES = 2000  # of a read whose generator states are compared
_ATTRIBUTE_PREFIX = "self."  # an attribute may have the name of a variable


@dataclass(frozen=True)
class FreshGenerator:
    """A generator that starts again with the same seed for each sample, its type, and the line that makes it."""

    kind: str
    line: SourceLine | None


@dataclass
class _Read:
    """The generators seen in one read, and the seeds set by torch.

    Generators in a variable have the function and the name as their key; those that NumPy creates without a variable,
    and the seeds, have the line.
    """

    variables: dict[tuple[CodeType, str], Any] = field(default_factory=dict)
    created: dict[SourceLine, Any] = field(default_factory=dict)
    seeds: dict[tuple[str, int, str], int] = field(default_factory=dict)


def find_fresh_generators(read_sample: Callable[[int], Any], indices: Sequence[int]) -> list[FreshGenerator]:
    """Return the generators that draw the same numbers for all of some samples, since they start again each time.

    A generator in a variable counts if each read has another object and all of them end in the same state. A
    generator that belongs to the dataset, or that is seeded with the index of the sample, ends in other states.
    """
    reads = [_observe(read_sample, index) for index in indices]
    if len(reads) < 2:
        return []
    by_line = {generator.line: generator for generator in _iterate_fresh(reads)}
    known = [generator for line, generator in by_line.items() if line is not None]
    return known or list(
        by_line.values()
    )  # a comprehension has the variables of its function, and no line that makes them


def find_indexed_generators(read_sample: Callable[[int], Any], index: int, other: int) -> list[FreshGenerator]:
    """Return the generators that draw the same numbers whenever one sample is read, and others for another sample."""
    fresh = find_fresh_generators(read_sample, [index, index])
    lines = {generator.line for generator in find_fresh_generators(read_sample, [index, other])}
    return [generator for generator in fresh if generator.line not in lines]


def find_seeding_line(
    read_sample: Callable[[], Any], seed: Callable[[int], Any], get_state: Callable[[], Any]
) -> SourceLine | None:
    """Return the user's line after which a generator is in the same state, however it was seeded before the read."""
    first, second = (_trace_states(read_sample, seed, get_state, number) for number in (1, 2))
    for previous, one, other in zip(first, first[1:], second[1:], strict=False):
        if one == other:
            return previous[0]
    return None


def _trace_states(
    read_sample: Callable[[], Any], seed: Callable[[int], Any], get_state: Callable[[], Any], number: int
) -> list[tuple[SourceLine, int]]:
    """Return the lines of the user that a read reaches, each with the state of the generator before it."""
    states: list[tuple[SourceLine, int]] = []

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if not is_user_code(code.co_filename) or len(states) >= _MAX_LINES:
            return None
        if event in ("line", "return"):
            line = SourceLine(code.co_filename, frame.f_lineno, code.co_name)
            states.append((line, fingerprint(get_state())))
        return trace

    seed(number)
    with trace_lines(trace):
        read_sample()
    return states


def _iterate_fresh(reads: list[_Read]) -> Iterator[FreshGenerator]:
    """Yield the generators that start again in each read; those that torch seeds are known by their seeds."""
    first = reads[0]
    for (file, number, function), seed in first.seeds.items():
        if all(read.seeds.get((file, number, function)) == seed for read in reads):
            yield FreshGenerator("torch.Generator", SourceLine(file, number, function))
    for key, generator in reversed(first.variables.items()):
        generators = [read.variables.get(key) for read in reads]
        is_fresh = len({id(item) for item in generators}) == len(reads) and None not in generators
        is_seeded_by_torch = bool(first.seeds) and isinstance(generator, torch.Generator)
        if is_fresh and not is_seeded_by_torch and _are_equal(generators):
            yield FreshGenerator(_describe_kind(generator), _assignment_line(*key))
    for line, generator in first.created.items():
        generators = [read.created.get(line) for read in reads]
        is_in_variable = any(generator is value for value in first.variables.values())
        if not is_in_variable and None not in generators and _are_equal(generators):
            yield FreshGenerator(_describe_kind(generator), line)


def _are_equal(generators: Sequence[Any]) -> bool:
    """Return whether generators had the same seed and were drawn from, or ended in the same state."""
    bit_generators = [getattr(item, "bit_generator", item) for item in generators]
    sequences = [getattr(item, "seed_seq", None) for item in bit_generators]
    if all(isinstance(sequence, np.random.SeedSequence) for sequence in sequences):
        unused = type(bit_generators[0])(sequences[0])
        is_used = fingerprint(unused.state) != fingerprint(bit_generators[0].state)
        return is_used and len({repr(sequence) for sequence in sequences}) == 1
    return len({fingerprint(GeneratorSnapshot(item).state) for item in generators}) == 1


def _observe(read_sample: Callable[[int], Any], index: int) -> _Read:
    """Read a sample and record the generators in the variables of the user's functions."""
    read = _Read()

    def observe(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event not in ("return", "c_return") or not is_user_code(code.co_filename):
            return
        if event == "return":
            read.variables.update(_variables(frame))
        elif getattr(argument, "__name__", "") == "manual_seed":
            generator = getattr(argument, "__self__", None)
            if isinstance(generator, torch.Generator) and generator is not torch.default_generator:
                read.seeds[code.co_filename, frame.f_lineno, code.co_name] = generator.initial_seed()

    with replace_random_functions(observe, default_rng=_recorded_default_rng(read.created)):
        read_sample(index)
    return read


def _recorded_default_rng(created: dict[SourceLine, Any]) -> Callable[..., np.random.Generator]:
    """Return ``np.random.default_rng`` with a record of the generators that it creates, by the line that calls it."""
    create = np.random.default_rng

    def record(*args: Any, **kwargs: Any) -> np.random.Generator:
        generator = create(*args, **kwargs)
        if (line := get_line_from_frame(sys._getframe(1))) is not None:
            created[line] = generator
        return generator

    return record


def _variables(frame: FrameType) -> dict[tuple[CodeType, str], Any]:
    """Return the generators in the variables that a function assigns, and in the attributes of its first argument."""
    code = frame.f_code
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if len(code.co_varnames) > _MAX_VARIABLES:
        return {}
    values = {name: value for name, value in frame.f_locals.items() if name not in parameters}
    owner = frame.f_locals.get(parameters[0]) if parameters else None
    attributes = getattr(owner, "__dict__", {})
    if len(attributes) <= _MAX_VARIABLES:
        values |= {_ATTRIBUTE_PREFIX + name: value for name, value in attributes.items()}
    return {(code, name): value for name, value in values.items() if isinstance(value, GENERATOR_TYPES)}


def fingerprint(state: Any) -> int:
    """Return a number that is equal for equal states of a generator."""
    if isinstance(state, Tensor):
        return hash(state.numpy().tobytes())
    if isinstance(state, np.ndarray):
        return hash(state.tobytes())
    if isinstance(state, Mapping):
        return hash(tuple((key, fingerprint(value)) for key, value in sorted(state.items())))
    return hash(tuple(map(fingerprint, state))) if isinstance(state, tuple) else hash(state)


def _describe_kind(generator: Any) -> str:
    kind = next(kind for kind in GENERATOR_TYPES if isinstance(generator, kind))
    return f"{kind.__module__.split('.')[0].replace('numpy', 'np.random')}.{kind.__name__}"


def _assignment_line(code: CodeType, name: str) -> SourceLine | None:
    """Return the last line that assigns the result of a call to a name in a function, else the first assignment."""
    name = name.removeprefix(_ATTRIBUTE_PREFIX)
    syntax = find_function(code)
    nodes = ast.walk(syntax) if syntax is not None else ()
    statements = [
        node
        for node in nodes
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr))
        for target in ([node.target] if isinstance(node, ast.NamedExpr) else assignment_targets(node))
        if getattr(target, "id", getattr(target, "attr", None)) == name
    ]
    calls = [node.lineno for node in statements if isinstance(node.value, ast.Call)]
    number = max(calls) if calls else min((node.lineno for node in statements), default=None)
    return SourceLine(code.co_filename, number, code.co_name) if number is not None else None
