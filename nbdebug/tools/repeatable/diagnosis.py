"""Find the first difference between two runs, and its source by holding one source at a time constant."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from types import FunctionType, GeneratorType
from typing import Any

import numpy as np
import torch

from nbdebug.preserve import Preserve
from nbdebug.preserve.process_snapshots import GENERATOR_TYPES, GeneratorSnapshot
from nbdebug.preserve.traversal import Traversal
from nbdebug.seeding import seed_generator
from nbdebug.setup import Setup
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.source.location import SourceLine, get_definition_line
from nbdebug.tensors.hashing import hash_value
from nbdebug.tools.repeatable.caches import clear_after, clear_before, empty_caches
from nbdebug.tools.repeatable.draws import DrawLog, variable_line
from nbdebug.tools.repeatable.environment import Environment, seed_source
from nbdebug.tools.repeatable.hidden_state import HiddenState, Variable, can_restart, restart_generator
from nbdebug.tools.repeatable.records import Difference, StepRecord
from nbdebug.tools.repeatable.runner import StepRunner
from nbdebug.tools.repeatable.seeds import (
    GLOBAL_GENERATORS,
    creates_unseeded,
    is_unseeded,
    is_unseeded_global,
    source_files,
)
from nbdebug.tools.repeatable.sources import SOURCES, Source

_CONFIRMED_PAIRS = 3  # of a difference that does not show in the first steps, which may agree by chance
_EARLY = 4  # steps
_OTHER_SEED = 987_654_321
_CURES = {
    "random": "random.seed(0)   # or nbdebug.seed(0), which seeds all",
    "numpy.random": "np.random.seed(0)   # or nbdebug.seed(0), which seeds all",
    "torch": "torch.manual_seed(0)   # or nbdebug.seed(0), which seeds all",
}
_TITLES = {"random": "Python's global generator", "numpy.random": "NumPy's global generator",
           "torch": "torch's global generator"}  # fmt: skip
_Block = AbstractContextManager[Any]


@dataclass(frozen=True)
class DifferenceCause:
    """A source of the difference, found by an intervention: what was done, and what came of it."""

    name: str
    description: str
    cure: str
    intervention: str
    line: SourceLine | None = None


@dataclass(frozen=True)
class RunDiagnosis:
    """The first difference, or None; its causes; the kind of verdict; what could not be checked."""

    verdict: str
    difference: Difference | None = None
    causes: tuple[DifferenceCause, ...] = ()
    unchecked: tuple[str, ...] = ()
    draws: tuple[str, ...] = ()


class Diagnoser:
    """Runs the steps of a setup again and again, with one thing changed at a time."""

    def __init__(self, setup: Setup, steps: int, on_progress: Any) -> None:
        self.setup, self.steps, self.phase, self.show = setup, steps, "", on_progress
        self.hidden = HiddenState(setup)
        self.caches = empty_caches(self.hidden.functions)
        self.environment = Environment(setup, self.hidden)
        self.runner = StepRunner(setup)
        self.runner.on_step = lambda step, steps: self.show(f"{self.phase}, step {step} of {steps}")
        self.files = source_files(setup)
        self.has_unseeded_python = creates_unseeded(self.files)
        self.unchecked: list[str] = []
        self.after: dict[str, int] = {}
        self.changed: list[Variable] = []
        self.seeded = [v for v in self.hidden.variables if v.is_generator and not self.is_unseeded(v.read())]

    def on_progress(self, phase: str) -> None:
        """Show what is run now."""
        self.phase = phase
        self.show(phase)

    def is_unseeded(self, generator: Any) -> bool:
        """Return whether a generator was not seeded; one of Python's own counts as such if any was created so."""
        unseeded = is_unseeded(generator)
        return self.has_unseeded_python if unseeded is None else unseeded

    def diagnose(self) -> RunDiagnosis:
        """Return the diagnosis; everything of the user's is restored."""
        with (
            closing(self.environment),
            self.hidden.restored(self.hidden.variables),
            clear_after(self.caches.values()),
        ):
            self.split_first_batch()
            return self.diagnose_inside()

    def split_first_batch(self) -> None:
        """Find out how to split a batch, which may run the model, before the first run and not in it."""
        objects, loaders = self.setup.mutable_objects, (self.setup.train_loader, self.setup.val_loader)
        moment = "before the repeated runs".format
        with Preserve(*objects, loaders=loaders), self.hidden.restored(self.hidden.variables), UserCodeErrors(moment):
            next(self.setup.batches(1))

    def diagnose_inside(self) -> RunDiagnosis:
        """Compare two runs; then, if they are equal, vary what should not matter."""
        self.on_progress("first run")
        before = self.generator_hashes(), self.hidden.digests()
        first = self.runner.run(self.steps, around=self.noting_states()).records
        self.changed = [v for v in self.hidden.variables if v.digest != before[1][v]]
        self.on_progress("second run")
        difference = self.runner.run(self.steps, first, around=self.base()).stopped_at
        if difference is not None:
            return self.explain_difference(difference, first)
        return self.vary_surroundings(first) or self.vary_seeds(first, before[0]) or self.verdict("repeatable")

    def verdict(
        self, verdict: str, difference: Difference | None = None, causes: Iterable[DifferenceCause] = ()
    ) -> RunDiagnosis:
        """Return a diagnosis."""
        return RunDiagnosis(verdict, difference, tuple(causes), tuple(self.unchecked))

    @contextmanager
    def base(self, *blocks: _Block) -> Iterator[None]:
        """Restore the seeded hidden generators after the block, as a new process would start with them."""
        with ExitStack() as stack:
            stack.enter_context(self.hidden.restored(self.seeded))
            for block in blocks:
                stack.enter_context(block)
            yield

    @contextmanager
    def noting_states(self) -> Iterator[None]:
        """Note the states of the global generators at the end of a run."""
        with self.base():
            yield
            self.after = self.generator_hashes()

    def generator_hashes(self) -> dict[str, int]:
        """Return a hash of the state of each global generator."""
        return {
            "random": hash_value(random.getstate()),
            "numpy.random": hash_value(np.random.get_state(legacy=False)),
            "torch": hash_value(torch.get_rng_state()),
        }

    def explain_difference(self, difference: Difference, first: Sequence[StepRecord]) -> RunDiagnosis:
        """Locate a difference between two runs from the same state, and find its source."""
        self.on_progress("locating the operation")
        located = self.locate(difference) or difference
        horizon = min(self.steps, 2 * difference.step + 2)
        pairs = 1 if difference.step < _EARLY else _CONFIRMED_PAIRS
        if caches := self.cache_causes(horizon):
            return self.verdict("not repeatable", located, caches)
        candidates = self.candidates()
        for candidate in candidates:
            self.on_progress(f"with {candidate.name} held constant")
            if self.agrees([candidate], horizon, pairs) and self.is_confirmed(candidate, horizon):
                return self.verdict("not repeatable", located, [self.cause(candidate, horizon)])
        causes = self.necessary(candidates, horizon, pairs)
        if not causes:
            self.unchecked += [
                f"{variable.name}: a generator goes on from one run to the next and cannot be rewound; "
                "create it inside the function that trains"
                for variable in self.hidden.variables
                if isinstance(variable.read(), GeneratorType)
            ]
        return self.verdict("not repeatable", located, [self.cause(candidate, horizon) for candidate in causes])

    def cache_causes(self, steps: int) -> list[DifferenceCause]:
        """Return the caches because of which only the first run differs, while later ones find them filled."""
        if not self.caches or not self.agrees([], steps, _CONFIRMED_PAIRS):
            return []
        return [self.cache_cause(name, steps) for name, cache in self.caches.items() if self.matters(cache, steps)]

    def matters(self, cache: Any, steps: int) -> bool:
        """Return whether a run with an empty cache differs from one with a full cache, and not from one like itself."""
        first = self.runner.run(steps, around=self.base(clear_before(cache))).records
        is_different = self.runner.run(steps, first, around=self.base()).stopped_at is not None
        return is_different and self.runner.run(steps, first, around=self.base(clear_before(cache))).stopped_at is None

    def cache_cause(self, name: str, steps: int) -> DifferenceCause:
        """Return a cache as a cause, with the line that calls its function."""
        return DifferenceCause(
            f"cache of {name}",
            f"the cache of {name}(), which the first run fills and later runs find full",
            f"{name}.cache_clear()   # before each run; better, cache nothing that draws random numbers",
            f"with the cache emptied before both runs, {steps} steps are equal; before the first only, they differ",
            self.line_of_variable(name),
        )

    def locate(self, difference: Difference, varied: Sequence[Source] = ()) -> Difference | None:
        """Repeat both runs with every operation recorded from the first differing step on."""
        steps = min(self.steps, difference.step + (1 if difference.step < _EARLY else 5))
        first = self.runner.run(steps, None, difference.step, self.base()).records
        blocks = [source.varied(self.environment) for source in varied if source.varied is not None]
        return self.runner.run(steps, first, difference.step, self.base(*blocks)).stopped_at

    def candidates(self) -> list[Source]:
        """Return the sources that may explain a difference, the variables that have changed first."""
        own = [self.variable_source(variable) for variable in self.changed if variable not in self.seeded]
        return [*own, *(s for s in SOURCES if s.fixed is not None and s.applies(self.environment))]

    def variable_source(self, variable: Variable) -> Source:
        """Return a hidden variable as a source."""
        restored = lambda _: self.hidden.restored([variable])  # noqa: E731
        if variable.is_generator:
            kind = type(variable.read()).__name__
            description = f"the generator {variable.name} ({kind}), which no seed of your program sets"
            return Source(f"generator {variable.name}", description, _generator_cure(variable), restored)
        if can_restart(variable.read()):
            description = f"the generator {variable.name}, which goes on from one run to the next"
            cure = f"Create {variable.name} at the start of each run."
            return Source(f"variable {variable.name}", description, cure, lambda _: restart_generator(variable))
        description = f"the variable {variable.name}, which keeps its value from one run to the next"
        cure = f"Reset {variable.name} at the start of each run, or make it an attribute of the model."
        return Source(f"variable {variable.name}", description, cure, restored)

    def agrees(self, sources: Sequence[Source], steps: int, pairs: int) -> bool:
        """Return whether two runs are equal with some sources held constant in both; False if one of them fails."""
        for _ in range(pairs):
            try:
                first = self.runner.run(steps, around=self.fixed(sources)).records
                if self.runner.run(steps, first, around=self.fixed(sources)).stopped_at is not None:
                    return False
            except Exception as error:
                names = ", ".join(source.name for source in sources)
                self.unchecked.append(f"{names}: the run failed with it held constant ({type(error).__name__})")
                return False
        return True

    def is_confirmed(self, source: Source, steps: int) -> bool:
        """Return whether a source was read at all, and further pairs agree with it constant: one may by chance."""
        return self.is_read(source) and self.agrees([source], steps, _CONFIRMED_PAIRS)

    def is_read(self, source: Source) -> bool:
        """Return whether the user's code has read a source; True for one without a log."""
        return source.name not in self.environment.logs or self.environment.log(source.name).first is not None

    def fixed(self, sources: Sequence[Source]) -> _Block:
        """Return a block in which some sources are constant."""
        return self.base(*(source.fixed(self.environment) for source in sources if source.fixed is not None))

    def necessary(self, candidates: list[Source], steps: int, pairs: int) -> list[Source]:
        """Return sources that together explain a difference, none of which can be left out; empty if none do."""
        self.on_progress("with all sources held constant")
        if not self.agrees(candidates, steps, pairs):
            return []
        needed = list(candidates)
        for candidate in reversed(candidates):
            rest = [source for source in needed if source is not candidate]
            if self.agrees(rest, steps, pairs):
                needed = rest
        return needed

    def cause(self, source: Source, steps: int) -> DifferenceCause:
        """Return a source as a cause, with the user's line."""
        intervention = f"with {source.name} held constant, {steps} steps of two runs are equal"
        description, cure, line = source.description, source.cure, self.line_of(source)
        if source.name == "workers" or self.environment.log(source.name).is_in_workers:
            description = f"{description}, in the workers of train_loader"
            cure = "nbdebug.seed(0, loaders=train_loader)   # seeds each worker; remove other seeds of theirs"
            line = line or get_definition_line(self.setup.train_loader.worker_init_fn)
        return DifferenceCause(source.name, description, cure, intervention, line)

    def line_of(self, source: Source) -> SourceLine | None:
        """Return the user's line that reads a source."""
        name = source.name.partition(" ")[2]
        for variable in self.hidden.variables:
            if variable.name == name and source.name.startswith(("variable", "generator")):
                return self.line_of_variable(name, variable.user)
        return self.environment.log(source.name).first

    def line_of_variable(self, name: str, user: FunctionType | None = None) -> SourceLine | None:
        """Return the line that changes or reads a variable or an attribute, outside of constructors if possible."""
        last = name.rpartition(".")[2]
        users = [user, *(f for f in self.hidden.functions if f is not user)] if user else self.hidden.functions
        users = [f for f in users if last in (*f.__code__.co_names, *f.__code__.co_freevars)]
        lines = [variable_line(f, last) for f in sorted(users, key=lambda f: f.__name__ == "__init__")]
        return next(filter(None, lines), None)

    def vary_surroundings(self, first: Sequence[StepRecord]) -> RunDiagnosis | None:
        """Vary all sources at once that should not matter; return what differs, or None."""
        sources = [source for source in SOURCES if source.varied is not None]
        self.on_progress("with other surroundings")
        if self.differs(sources, first) is None:
            return None
        causes, located = [], None
        for source in sources:
            if (difference := self.differs([source], first)) is not None and self.is_read(source):
                located = located or self.locate(difference, [source]) or difference
                intervention = f"with {source.name} varied, a run differs from the first one"
                causes.append(
                    DifferenceCause(source.name, source.description, source.cure, intervention, self.line_of(source))
                )
        return self.verdict("not repeatable", located, causes) if causes else None

    def differs(self, sources: Sequence[Source], first: Sequence[StepRecord]) -> Difference | None:
        """Return the first difference of a run with some sources varied; None if it fails."""
        blocks = [source.varied(self.environment) for source in sources if source.varied is not None]
        try:
            return self.runner.run(self.steps, first, around=self.base(*blocks)).stopped_at
        except Exception as error:
            if len(sources) == 1:
                self.unchecked.append(f"{sources[0].name}: the run failed with it varied ({type(error).__name__})")
                return None
            return next(filter(None, (self.differs([source], first) for source in sources)), None)

    def vary_seeds(self, first: Sequence[StepRecord], before: dict[str, int]) -> RunDiagnosis | None:
        """Give each unseeded generator that the steps draw from another seed; return those that matter, or None."""
        causes, located = [], None
        for name in (name for name, state in before.items() if self.after[name] != state):
            if is_unseeded_global(name, self.files):
                self.on_progress(f"with another seed of {_TITLES[name]}")
                difference = self.differs([_seed_variation(name)], first)
                if difference is not None:
                    located = located or difference
                    causes.append(self.seed_cause(name))
        for path, generator in self.own_generators():
            source = Source(path, "", "", varied=partial(_reseeded, generator))
            if self.is_unseeded(generator) and (difference := self.differs([source], first)) is not None:
                located = located or difference
                causes.append(_own_generator_cause(path, generator, self.line_of_variable(path)))
        return self.verdict("unseeded", located, causes) if causes else None

    def seed_cause(self, name: str) -> DifferenceCause:
        """Return an unseeded global generator as a cause, with the line that draws from it."""
        log = DrawLog({source: self.environment.log(source) for source in GLOBAL_GENERATORS})
        self.runner.run(min(self.steps, 2), around=self.base(log.recorded(self.environment.namespaces)))
        description = f"{_TITLES[name]}, which was never seeded"
        intervention = f"with another seed of {_TITLES[name]}, a run differs from the first one"
        return DifferenceCause(name, description, _CURES[name], intervention, log.logs[name].first)

    def own_generators(self) -> list[tuple[str, Any]]:
        """Return the generators that the objects of the setup refer to, with their paths."""
        traversal = Traversal()
        for item in self.setup.mutable_objects:
            if item is not None:
                traversal.take_snapshot(item)
        if self.setup.train_loader is not None:
            traversal.take_loader_snapshot(self.setup.train_loader)
        snapshots = [(str(path), s) for path, s in traversal.snapshots if isinstance(s, GeneratorSnapshot)]
        return [(path, s.original) for path, s in snapshots if s.state is not None]


def _generator_cure(variable: Variable) -> str:
    value = variable.read()
    if isinstance(value, torch.Generator):
        return f"{variable.name}.manual_seed(0)   # at the start of the program"
    if isinstance(value, random.Random):
        return f"{variable.name} = random.Random(0)"
    return f"{variable.name} = np.random.default_rng(0)"


def _own_generator_cause(path: str, generator: Any, line: SourceLine | None) -> DifferenceCause:
    intervention = f"with another seed of {path}, a run differs from the first one"
    return DifferenceCause(
        f"generator {path}",
        f"the generator {path} ({type(generator).__name__}), which was created without a seed",
        "nbdebug.seed(0, loaders=train_loader)   # or create it with a seed",
        intervention,
        line,
    )


def _seed_variation(name: str) -> Source:
    @contextmanager
    def varied(_: Environment) -> Iterator[None]:
        seed_source(name, _OTHER_SEED)
        yield

    return Source(name, "", "", varied=varied)


@contextmanager
def _reseeded(generator: Any, _: Environment) -> Iterator[None]:
    """Give a generator another seed; Preserve restores its state."""
    assert isinstance(generator, GENERATOR_TYPES)
    seed_generator(generator, _OTHER_SEED)
    yield
