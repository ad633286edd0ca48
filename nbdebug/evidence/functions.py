"""The user's own autograd functions: what each was called with, and its gradient beside finite differences."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import slow_measurement
from nbdebug.exceptions import NotChecked
from nbdebug.graph import Graph
from nbdebug.graph.node import Node
from nbdebug.graph.source import is_library
from nbdebug.preserve import seed_all
from nbdebug.setup import Setup
from nbdebug.setup.trees import tensors

COORDINATES = 6
STEPS = (1e-4, 1e-6)
KINK = 1e-3


@dataclass(frozen=True)
class Slope:
    """One coordinate of one input: the gradient that backward gave, and the finite difference."""

    given: float
    found: float

    @property
    def error(self) -> float:
        """The difference, relative to the larger of the two."""
        return abs(self.given - self.found) / max(abs(self.given), abs(self.found), 1e-12)


@dataclass(frozen=True)
class Checked:
    """One function of the user's, with the slopes of each input that wants a gradient, by position.

    ``unchanged`` is the input that it gives back as it is, if one is; ``failure`` says why there are no slopes.
    """

    function: type[Function]
    node: Node
    slopes: dict[int, list[Slope]]
    unchanged: int | None = None
    failure: str = ""


@slow_measurement
def functions(setup: Setup, first_pass: Pass, graph: Graph) -> list[Checked]:
    """The gradients of the user's own autograd functions beside central differences, in float64."""
    nodes = {kind: node for node in reversed(graph.nodes) if (kind := written_by_user(node)) is not None}
    calls: dict[type[Function], tuple[Any, ...]] = {}
    with recorded(list(nodes), calls):
        if nodes:
            setup.run(first_pass.batch)
    return [checked(kind, nodes[kind], given) for kind, given in calls.items()]


def written_by_user(node: Node) -> type[Function] | None:
    """The user's autograd function behind a node, if it is one."""
    kind = getattr(type(node.function), "_forward_cls", None)
    try:
        return kind if kind is not None and not is_library(inspect.getfile(kind)) else None
    except (TypeError, OSError):
        return kind


@contextmanager
def recorded(kinds: list[type[Function]], calls: dict[type[Function], tuple[Any, ...]]) -> Iterator[None]:
    """A block in which the arguments of the first call of each function are kept in ``calls``."""
    before = {kind: vars(kind).get("forward") for kind in kinds}
    for kind in kinds:
        setattr(kind, "forward", staticmethod(noting(kind, kind.forward, calls)))  # noqa: B010
    try:
        yield
    finally:
        for kind, own in before.items():
            if own is None:
                delattr(kind, "forward")
            else:
                setattr(kind, "forward", own)  # noqa: B010


def noting(
    kind: type[Function], forward: Callable[..., Any], calls: dict[type[Function], tuple[Any, ...]]
) -> Callable[..., Any]:
    """The same forward, which keeps a copy of what it is called with the first time."""
    first = 0 if kind.setup_context is not Function.setup_context else 1

    def noted(*args: Any) -> Any:
        calls.setdefault(kind, tuple(kept(one) for one in args[first:]))
        return forward(*args)

    return noted


def kept(argument: Any) -> Any:
    """A copy of a tensor, in float64 where it has a fraction; anything else as it is."""
    if not isinstance(argument, Tensor):
        return argument
    wanted = argument.requires_grad and argument.is_floating_point()
    copy = argument.detach().clone()
    return (copy.double() if copy.is_floating_point() else copy).requires_grad_(wanted)


def checked(kind: type[Function], node: Node, args: tuple[Any, ...]) -> Checked:
    """Both gradients of one call; what the function raises in float64 is kept as the reason that there are none."""
    try:
        outputs = called(kind, args)
        first = next(place for place, one in enumerate(args) if isinstance(one, Tensor))
        unchanged = first if len(outputs) == 1 and torch.equal(outputs[0], args[first]) else None
        return Checked(kind, node, dict(slopes(kind, args, outputs)), unchanged)
    except NotChecked as reason:
        return Checked(kind, node, {}, failure=str(reason))
    except Exception as error:
        return Checked(kind, node, {}, failure=f"it raised {type(error).__name__} in float64: {error}")


def called(kind: type[Function], args: tuple[Any, ...]) -> list[Tensor]:
    """The outputs with a fraction, for copies of the arguments and the same random numbers each time."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        seed_all(0)
        copies = (one.clone() if isinstance(one, Tensor) else one for one in args)
        result = kind.apply(*copies)  # type: ignore[no-untyped-call]
    return [one for one in tensors(result) if one.is_floating_point()]


def slopes(kind: type[Function], args: tuple[Any, ...], outputs: list[Tensor]) -> Iterator[tuple[int, list[Slope]]]:
    """For each input that wants a gradient, some coordinates from its least to its largest, away from kinks."""
    generator = torch.Generator().manual_seed(0)
    pulls = [torch.rand(one.shape, generator=generator, dtype=torch.float64) + 0.5 for one in outputs]
    pulls = [
        torch.ones_like(one) if one.numel() == 1 else pull.to(one) for one, pull in zip(outputs, pulls, strict=True)
    ]
    wanted = [place for place, one in enumerate(args) if isinstance(one, Tensor) and one.requires_grad]
    if not wanted:
        raise NotChecked("none of its inputs wants a gradient")

    def score() -> Tensor:
        return torch.stack([(one * pull).sum() for one, pull in zip(called(kind, args), pulls, strict=True)]).sum()

    gradients = torch.autograd.grad(score(), [args[place] for place in wanted], allow_unused=True)
    for place, gradient in zip(wanted, gradients, strict=True):
        ranks = torch.linspace(0, args[place].numel() - 1, min(COORDINATES, args[place].numel())).long()
        order = args[place].detach().flatten().argsort(stable=True)[ranks].tolist()
        given = torch.zeros_like(args[place]) if gradient is None else gradient
        pairs = ((given.reshape(-1)[at].item(), difference(score, args[place], at)) for at in order)
        yield place, [Slope(one, other) for one, other in pairs if other is not None]


def difference(score: Callable[[], Tensor], tensor: Tensor, at: int) -> float | None:
    """The central difference by one coordinate; None at a kink, where two steps disagree."""
    flat = tensor.detach().view(-1)
    value = flat[at].item()
    found: list[float] = []
    for step in STEPS:
        step *= max(1.0, abs(value))
        ends: list[float] = []
        for end in (value + step, value - step):
            flat[at] = end
            ends.append(score().item())
        flat[at] = value
        found.append((ends[0] - ends[1]) / (2 * step))
    agree = abs(found[0] - found[1]) <= KINK * max(abs(found[0]), abs(found[1]), 1e-6)
    return found[0] if agree else None
