"""The smallest loss that any output could have, and the smallest that an output blind to the input could have.

Both are found by optimizing a free output by the user's own loss. So the floor is right for label smoothing, class
weights, soft targets, contradictory examples (which share an output) and noise, without knowing any of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.graph.reader import read
from nbdebug.setup import Setup
from nbdebug.setup.trees import tensors, transform
from nbdebug.tools.overfit.domain import Domain, free, intended, observed
from nbdebug.tools.overfit.duplicates import rows_of, sample_axis
from nbdebug.tools.overfit.examples import Look

MOST_NUMBERS = 4_000_000
ITERATIONS = 60
CONVERGED = 1e-3
NOTHING = 1e-6


@dataclass(frozen=True)
class Floor:
    """The smallest attainable loss and the loss of the best constant output; ``why`` says what is not known.

    ``best`` is the output at the floor, ``several`` whether the loss reads more than one tensor of it, ``alike``
    whether all targets are the same, and ``endless`` whether the loss falls without end.
    """

    value: float | None = None
    chance: float | None = None
    why: str = ""
    best: Any = None
    several: bool = False
    alike: bool = False
    endless: bool = False

    @property
    def blind(self) -> bool:
        """Whether an output that ignores the input does as well as any."""
        if self.value is None or self.chance is None:
            return False
        return self.alike or self.chance - self.value <= CONVERGED * max(abs(self.chance), abs(self.value), CONVERGED)

    @property
    def blindness(self) -> str:
        """What it means that the loss is blind."""
        if self.alike:
            return "all targets of these examples are the same, which an output that ignores the input can give"
        lead = "the targets differ, yet an output that ignores the input does as well as any"
        return f"{lead} ({self.value:.4g}): compare the shapes of output and target, see L205"


class Free:
    """An output whose numbers are free, but for examples of one group, which share theirs."""

    def __init__(self, template: Any, size: int, groups: Sequence[int], domains: dict[int, Domain]) -> None:
        self.template, self.groups, self.size = template, torch.as_tensor(groups), size
        self.domains = domains
        self.numbers: dict[int, Tensor] = {}
        self.rows: dict[int, tuple[int, Tensor]] = {}
        for place, tensor in enumerate(tensors(template)):
            if place in domains:
                self.add(place, tensor.detach())

    def add(self, place: int, tensor: Tensor) -> None:
        """Frees one tensor of the output."""
        start = self.domains[place].start(torch.nan_to_num(tensor.float() if tensor.itemsize < 4 else tensor))
        axis = sample_axis(tensor, self.size)
        rows = self.groups.to(tensor.device)
        if axis is None and tensor.dim():
            alike = len(set(self.groups.tolist())) == 1
            axis, rows = 0, torch.arange(tensor.shape[0], device=tensor.device) * (not alike)
        if axis is not None:
            first = torch.stack([(rows == group).nonzero()[0, 0] for group in range(int(rows.max()) + 1)])
            start = start.index_select(axis, first)
            self.rows[place] = (axis, rows)
        self.numbers[place] = start.clone().requires_grad_(True)

    def output(self) -> Any:
        """The output as the loss takes it."""
        place = iter(range(len(tensors(self.template))))

        def put(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            index = next(place)
            if index not in self.numbers:
                return leaf.detach()
            value = self.domains[index].into(self.numbers[index])
            if index in self.rows:
                value = value.index_select(*self.rows[index])
            return value.to(leaf.dtype)

        return transform(self.template, put)


def floor(setup: Setup, look: Look, groups: Sequence[int]) -> Floor:
    """The floor of the loss on the tiny batch; examples of one group have the same input."""
    if setup.step_fn is not None or setup.loss_fn is None:
        return Floor(why="the loss is computed where its output cannot be seen")
    try:
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            return searched(setup, look, groups)
    except SetupError:
        raise
    except Exception as error:
        return Floor(why=f"the loss of a free output raised {type(error).__name__}: {error}")


def searched(setup: Setup, look: Look, groups: Sequence[int]) -> Floor:
    """The floor by search, first among the outputs the loss is made for, then among those like the model's."""
    if isinstance(setup.loss_fn, nn.Module):
        setup = replace(setup, loss_fn=deepcopy(setup.loss_fn))
    used, operations = read_by(setup, look)
    alike = all(len(set(part)) == 1 for part in rows_of(look.batch.targets, look.size))
    if not used:
        return Floor(why="the loss has no gradient for the output")
    found = tensors(look.output)
    if sum(found[place].numel() for place in used) > MOST_NUMBERS:
        return Floor(why=f"an output of more than {MOST_NUMBERS:,} numbers is too large to search")
    for choose in (lambda tensor: intended(tensor, operations), observed):
        domains = {place: choose(found[place]) for place in used}
        value, best = lowest(setup, look, Free(look.output, look.size, groups, domains))
        if value is not None:
            chance, _ = lowest(setup, look, Free(look.output, look.size, [0] * look.size, domains))
            return Floor(zeroed(value, chance), chance, "", best, len(used) > 1, alike)
    return Floor(why="the loss falls without end where outputs are free", several=len(used) > 1, endless=True)


def zeroed(value: float, chance: float | None) -> float:
    """Zero for what the search leaves of it."""
    return 0.0 if chance is not None and abs(value) < NOTHING * abs(chance) else value


def read_by(setup: Setup, look: Look) -> tuple[list[int], set[str]]:
    """Which tensors of the output the loss reads, and the names of the operations it is made of."""
    every = {i: free() for i, t in enumerate(tensors(look.output)) if t.is_floating_point()}
    output = Free(look.output, look.size, range(look.size), every)
    loss = setup.loss(output.output(), look.batch)
    if not loss.requires_grad:
        return [], set()
    gradients = torch.autograd.grad(loss, list(output.numbers.values()), allow_unused=True, retain_graph=True)
    used = [place for place, gradient in zip(output.numbers, gradients, strict=True) if gradient is not None]
    return used, {node.name for node in read(loss.grad_fn, []).nodes}


def lowest(setup: Setup, look: Look, output: Free) -> tuple[float | None, Any]:
    """The lowest loss that L-BFGS finds from where the model starts, with its output; None where there is none."""
    own = list(setup.loss_fn.parameters()) if isinstance(setup.loss_fn, nn.Module) else []
    numbers = [*output.numbers.values(), *(p for p in own if p.requires_grad)]
    seen: list[float] = []

    def closure() -> Tensor:
        for one in numbers:
            one.grad = None
        loss = setup.loss(output.output(), look.batch)
        seen.append(float(loss.detach()))
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    after = [improved(numbers, closure, seen) for _ in range(2)]
    if not math.isfinite(after[1]) or (after[1] < 0 and after[0] - after[1] > CONVERGED * (seen[0] - after[1])):
        return None, None
    with torch.no_grad():
        return after[1], output.output()


def improved(numbers: list[Tensor], closure: Callable[[], Tensor], seen: list[float]) -> float:
    """The lowest loss seen after another round of the search."""
    search = torch.optim.LBFGS(
        numbers, max_iter=ITERATIONS, tolerance_grad=1e-12, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )
    search.step(closure)  # type: ignore[no-untyped-call]
    return min((value for value in seen if not math.isnan(value)), default=math.nan)
