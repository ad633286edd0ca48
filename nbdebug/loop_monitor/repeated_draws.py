"""Random numbers that a loop draws for each batch, compared between its first steps."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import is_random_function
from nbdebug.loop_monitor.event_stacks import Stack, user_stack
from nbdebug.loop_monitor.step_trace import has_compiled_code
from nbdebug.loop_monitor.write_trace import LoopMode, is_plain_tensor
from nbdebug.setup import Setup
from nbdebug.source.assignments import function_by_name
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, covers_line, enclosing_scope, scope_nodes
from nbdebug.tensors.pytree import tree_tensors

_MIN_STEPS, _MAX_STEPS, _MAX_ATTEMPTS = 4, 12, 64  # steps to compare, at least and at most, and attempts
_MAX_DRAWS, _MAX_VALUES = 64, 64  # draws of a step, and values of a draw, that are compared
_MIN_VALUES, _MIN_DISTINCT = 8, 4  # fewer values may agree by chance
# ``torch.Generator()`` has the same state whenever it is created.
_SEEDING_CALLS = {
    *("manual_seed", "manual_seed_all", "set_state", "set_rng_state", "set_rng_state_all", "Generator"),
    *("seed_everything", "set_seed", "seed_all"),
}
_Fingerprint = tuple[int, ...]


@dataclass(frozen=True)
class RepeatedDraw:
    """A torch function that returned the same random numbers in ``steps`` steps whose batches differ.

    ``line`` is the user's line that seeds its generator in each step, if it is known.
    """

    function: str
    steps: int
    line: SourceLine | None


@dataclass
class _Draw:
    """The first values of one draw, and how often the same line repeated or changed them with other data.

    ``stack`` are the user's lines at the draw, the innermost first.
    """

    function: str
    sample: Tensor
    shape: torch.Size
    stack: Stack
    data: _Fingerprint = ()
    repeated: int = 0
    differing: int = 0

    @property
    def may_repeat(self) -> bool:
        """True if the draw has repeated, and never changed."""
        return self.repeated > 0 and not self.differing

    def continue_from(self, previous: _Draw) -> None:
        """Compare with the draw of the same line and shape in the step before; it repeats if the data differ."""
        self.repeated, self.differing = previous.repeated, previous.differing
        if self.shape != previous.shape:
            return
        is_equal = torch.equal(self.sample, previous.sample)
        self.differing += not is_equal
        self.repeated += is_equal and self.data != previous.data


class RepeatedDrawMonitor(LoopMode):
    """Records the random numbers between a batch and its backward pass, in the first steps after the first one.

    A draw counts if it has a value or a row for each sample, such as noise, diffusion times and the order of a mixture:
    a loop may draw a fixed matrix from a seed on purpose. The data of two steps differ if the inputs of the model do,
    or the batches if the draw is an input, as in a generative model. Numbers for an evaluation, which may be drawn from
    a seed too, are forgotten when the next batch is read, or at a pass without gradients if no batch was read.
    """

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self.setup, self.steps, self.attempts = setup, 0, 0
        self.draws, self.latest = dict[tuple[SourceLine, int], _Draw](), dict[tuple[SourceLine, int], _Draw]()
        self.counts = Counter[SourceLine]()
        self.batch: _Fingerprint = ()
        self.inputs: _Fingerprint = ()
        self.sizes = set[int]()
        self.has_stepped = self.reads_batches = False
        self.error: Exception | None = None

    @property
    def is_due(self) -> bool:
        """True in the first steps, and as long as a draw has repeated in all of them."""
        if not self.has_stepped or self.attempts >= _MAX_ATTEMPTS or self.error is not None:
            return False
        may_repeat = any(draw.may_repeat for draw in self.latest.values())
        return self.steps < _MIN_STEPS or (self.steps < _MAX_STEPS and may_repeat)

    def on_batch(self, split: str, batch: Any) -> None:
        """Start recording after a training batch; stop at any other batch."""
        self.reads_batches |= split == "train"
        self.close()
        if split == "train" and self.is_due:
            self.start()
            self.batch = self.fingerprint(batch)

    def on_forward_begin(self, _: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record the inputs of a training pass; forget what was drawn for an evaluation."""
        if self.is_open and torch.is_grad_enabled():
            self.inputs += self.fingerprint((args, kwargs))
        elif self.is_open and not self.reads_batches:
            self.forget()

    def on_backward_begin(self) -> None:
        """Compare the draws of a step with those of the step before."""
        error, draws, sizes, is_traced = self.error, self.draws, self.sizes, self.is_open
        batch, inputs = self.batch, self.inputs
        self.close()
        if error is not None:
            raise error
        self.steps += is_traced
        for key, draw in draws.items():
            if draw.shape[0] in sizes:
                draw.data = batch if _hash(draw.sample) in inputs else inputs
                if (previous := self.latest.get(key)) is not None:
                    draw.continue_from(previous)
                self.latest[key] = draw

    def on_step_end(self) -> None:
        """Start recording after a step, if the loop reads no batches from its loader."""
        self.has_stepped = True
        if not self.reads_batches and self.is_due:
            self.start()

    def start(self) -> None:
        """Start recording."""
        self.close()
        self.attempts += 1
        if not has_compiled_code(self.setup):
            self.enter()

    def close(self) -> None:
        """Stop recording."""
        self.forget()
        self.leave()

    def forget(self) -> None:
        """Forget the draws and the data of a step."""
        self.draws, self.sizes, self.batch, self.inputs = {}, set(), (), ()
        self.counts.clear()

    def fingerprint(self, data: Any) -> _Fingerprint:
        """Return a number for each of some tensors of the step, and record how many samples they have."""
        tensors = [tensor for tensor in tree_tensors(data) if is_plain_tensor(tensor) and tensor.dim()]
        self.sizes |= {len(tensor) for tensor in tensors}
        return tuple(_hash(_spaced_values(tensor)) for tensor in tensors)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if is_random_function(func) and self.error is None and len(self.draws) < _MAX_DRAWS:
            try:
                self.record(func, result)
            except Exception as error:  # must not reach the user's loop
                self.error = error
        return result

    def record(self, function: Any, result: Any) -> None:
        """Record what a random function has returned."""
        if not is_plain_tensor(result) or not result.dim() or result.numel() < _MIN_VALUES:
            return
        sample = _spaced_values(result)
        stack = user_stack(sys._getframe(2))
        if not stack or len({*sample.tolist()}) < _MIN_DISTINCT:
            return
        self.counts[stack[0]] += 1
        key = stack[0], self.counts[stack[0]]
        self.draws[key] = _Draw(str(function.__name__), sample, result.shape, stack)

    def summary(self) -> RepeatedDraw | None:
        """Return the first draw that repeated in enough steps, and changed in none."""
        repeated = [draw for draw in self.latest.values() if draw.may_repeat and draw.repeated >= _MIN_STEPS - 1]
        return next(
            (RepeatedDraw(draw.function, draw.repeated + 1, _find_seeding_line(draw.stack)) for draw in repeated), None
        )


def _hash(values: Tensor) -> int:
    return hash(tuple(values.tolist()))


@torch.no_grad()
def _spaced_values(tensor: Tensor) -> Tensor:
    """Return a copy of evenly spaced values of a tensor on the CPU, since the first pixels of images may be equal."""
    values = tensor.detach().reshape(-1)
    return values[:: max(len(values) // _MAX_VALUES, 1)][:_MAX_VALUES].to("cpu", copy=True)


def _find_seeding_line(stack: Stack) -> SourceLine | None:
    """Return the line that seeds a generator of torch before a draw, in each round of a loop; None if it is ambiguous.

    ``stack`` leads to the draw, the innermost line first. The nearest block counts that seeds: the innermost loop or
    the function around the draw, and then those around its callers. A function that runs a loop seeds only once outside
    of it.
    """
    in_loop = False
    for line in stack:
        scope = enclosing_scope(line)
        loops = _loops_around(scope, line.number) if scope is not None else []
        is_repeated = not in_loop and not loops
        functions = [scope] if is_repeated and isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) else []
        for block in [*loops, *functions]:
            if numbers := {*_seeding_numbers(block, line.file)}:
                return SourceLine(line.file, numbers.pop(), line.function) if len(numbers) == 1 else None
        in_loop |= bool(loops)
    return None


def _loops_around(scope: ast.AST, number: int) -> list[ast.For | ast.While]:
    """Return the loops of either kind around a line, innermost first."""
    loops = [
        node for node in scope_nodes(scope) if isinstance(node, (ast.For, ast.While)) and covers_line(node, number)
    ]
    return sorted(loops, key=lambda loop: loop.lineno, reverse=True)


def _seeding_numbers(block: ast.AST, file: str) -> Iterator[int]:
    """Yield the lines of a block that seed a generator, or call a function of the same file that does."""
    for node in ast.walk(block):
        function = function_by_name(file, call_name(node)) if isinstance(node, ast.Call) else None
        parts = [node, *(ast.walk(function) if function else ())]
        if any(call_name(part) in _SEEDING_CALLS for part in parts) and isinstance(node, ast.Call):
            yield node.lineno
