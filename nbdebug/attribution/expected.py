"""Expected gradients: SHAP values by gradients, without sampling noise.

Integrated gradients (Sundararajan et al. 2017, arXiv:1703.01365) averaged over a background (Erion et al. 2021,
arXiv:1906.10670). Where others draw points on the lines at random, here every line to the background is integrated by
Gauss–Legendre quadrature, with twice the nodes until the attributions add up to what they explain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nbdebug.attribution.bounds import QUICK, USUAL, VALUES, Bounds
from nbdebug.attribution.cuts import cut_at, refuse_flat, refuse_missing
from nbdebug.attribution.found import Found, refuse_nan
from nbdebug.attribution.kept import kept
from nbdebug.attribution.lines import Rule, Sums, along, ends, gauss, shifted
from nbdebug.attribution.problem import Problem
from nbdebug.attribution.refusals import BLACK_BOX, NotDifferentiable
from nbdebug.attribution.watch import expect

LINES = (16, 512)  # to begin with


GRADIENTS = (32, 200)  # of a sample in quick mode, by its size; shap and Captum draw 200
ENOUGH = 48  # nodes a line after which an error is no longer one of too few


def quick(problem: Problem) -> Found:
    """The same with two nodes a line, or more where there are few lines; at other places on each line."""
    count = len(background(problem)[0])
    gradients = max(GRADIENTS[0], min(GRADIENTS[1], VALUES // values_of(problem)))
    nodes = max(QUICK.nodes, gradients // lines_of(problem, count, QUICK)[1])
    return expected_gradients(problem, replace(QUICK, nodes=nodes, most=nodes), shifted)


def expected_gradients(problem: Problem, bounds: Bounds = USUAL, rule: Callable[[int], Rule] = gauss) -> Found:
    """Attributions to the parts against the whole background, or as much of it as the error asks for."""
    count = len(background(problem)[0])
    problem.kept = kept(problem)
    everyone = torch.arange(problem.size)
    order, first = lines_of(problem, count, bounds)
    shared = outputs_of_background(problem) if problem.alone else None
    state = State(problem, everyone, bounds, shared, rule)
    state.take(order[:first])
    # What sampling costs grows fourfold at most: an error that has not halved twice by then is told, not chased.
    while len(state.picks) < min(count, 4 * first) and state.share_of_error(count) > bounds.standard_error:
        state.take(order[len(state.picks) : 2 * len(state.picks)])
    return state.found(count)


def background(problem: Problem) -> list[Tensor]:
    """The background of each part; raises NotDifferentiable where there are no parts."""
    found = [part.background for part in problem.parts if part.background is not None]
    if not found:
        raise NotDifferentiable(f"the model is no torch.nn.Module; expected one with gradients. {BLACK_BOX}.")
    return found


def outputs_of_background(problem: Problem) -> Tensor:
    """The outputs at the beginning of each line, which all samples share."""
    found: list[Tensor] = []
    parts = [part.background for part in problem.parts if part.background is not None]

    def work(start: int, stop: int) -> None:
        owners = torch.zeros(stop - start, dtype=torch.long, device=problem.home)
        with torch.no_grad():
            found.append(problem.at([one[start:stop] for one in parts], owners).clone())

    problem.chunks().over(len(parts[0]), work)
    return torch.cat(found)


def lines_of(problem: Problem, count: int, bounds: Bounds) -> tuple[Tensor, int]:
    """The order in which background samples are taken, and how many to begin with: all that can be paid for."""
    first = max(LINES[0], min(LINES[1], VALUES // (bounds.nodes * values_of(problem))))
    if count <= first:
        return torch.arange(count), count
    return torch.randperm(count, generator=torch.Generator().manual_seed(0)), first


def values_of(problem: Problem) -> int:
    """The numbers in all parts of a sample."""
    return max(1, sum(part.values[0].numel() for part in problem.parts))


@dataclass
class State:
    """The sums so far."""

    problem: Problem
    samples: Tensor
    bounds: Bounds
    shared: Tensor | None
    rule: Callable[[int], Rule]

    def __post_init__(self) -> None:
        self.sums = Sums.zeros(self.problem, len(self.samples))
        self.picks = torch.zeros(0, dtype=torch.long)
        self.begins = torch.zeros(len(self.samples), 0, dtype=torch.float64)
        self.score = self.problem.scores[self.samples]
        self.nodes = 0

    def take(self, picks: Tensor) -> None:
        """Adds the lines from some more of the background, each sample's with as many nodes as it needs."""
        begins = ends(self.problem, self.samples, picks, self.shared)
        gaps = self.score.unsqueeze(1) - begins
        size = self.size(gaps)
        todo, nodes = torch.arange(len(self.samples)), self.bounds.nodes
        most = self.bounds.last(len(picks), values_of(self.problem))
        while len(todo):
            expect(len(todo) * len(picks) * nodes)
            sums = along(self.problem, self.samples[todo], picks, self.rule(nodes))
            refuse_nan(self.problem, sums.first)
            refuse_missing(self.problem, sums.missing)
            missed = (total(sums.first) / len(picks) - gaps[todo].mean(1)).abs() / size[todo]
            good = (missed <= self.bounds.completeness) & (share(sums.error, sums.first) <= self.bounds.error)
            good |= torch.tensor(2 * nodes > most)
            self.sums.add(todo[good], sums.of(good))
            self.nodes, todo, nodes = max(self.nodes, nodes), todo[~good], 2 * nodes
        self.picks = torch.cat([self.picks, picks])
        self.begins = torch.cat([self.begins, begins], 1)

    def size(self, gaps: Tensor) -> Tensor:
        """How far scores lie from those of the background; no less than a float32 can tell."""
        return gaps.square().mean(1).sqrt().clamp_min(1e-9).maximum(1e-4 * self.score.abs())

    def errors(self) -> list[Tensor]:
        """The standard error of each attribution over the lines taken, as if each were drawn anew."""
        count = len(self.picks)
        if count < 2:
            return [torch.full_like(one, float("nan")) for one in self.sums.first]
        return [
            ((second - first.square() / count).clamp_min(0) / (count - 1) / count).sqrt()
            for first, second in zip(self.sums.first, self.sums.second, strict=True)
        ]

    def share_of_error(self, count: int) -> float:
        """The standard error of a typical sample over its attribution, both as lengths of vectors."""
        values, errors = (flat(one) for one in (self.sums.first, self.errors()))
        shares = errors.norm(dim=1) / (values / len(self.picks)).norm(dim=1).clamp_min(1e-12)
        return float(shares.nanmedian()) * self.left(count)

    def left(self, count: int) -> float:
        """What sampling without replacement leaves of an error: nothing when all were taken."""
        return float((1 - len(self.picks) / count) ** 0.5)

    def found(self, count: int) -> Found:
        """The means with their errors; raises NotDifferentiable where they stand for nothing."""
        taken = len(self.picks)
        values = [one / taken for one in self.sums.first]
        gaps = self.score.unsqueeze(1) - self.begins
        error = (total(values) - gaps.mean(1)).abs() / self.size(gaps)
        refuse_flat(values, gaps)
        errors = self.errors()
        lines = share(self.sums.error, self.sums.first)
        good = (error <= self.bounds.completeness) & (lines <= self.bounds.error)
        found = Found(
            values, self.begins.mean(1), error, lines, [one.nan_to_num(0) * self.left(count) for one in errors],
            errors, self.nodes, taken, bool(good.all()),
        )  # fmt: skip
        self.say(found, count)
        return found

    def say(self, found: Found, count: int) -> None:
        """Notes on what is not exact; raises NotDifferentiable where a layer is the reason."""
        if not found.converged:
            self.say_incomplete(found)
        if len(self.picks) < count:
            left = self.share_of_error(count)
            found.converged = found.converged and left <= self.bounds.standard_error
            found.notes.append(f"{len(self.picks)} of {count} background samples were taken; standard error {left:.1%}")
        if count == 1:
            found.notes.append("the background is one sample: these are integrated gradients against it")

    def say_incomplete(self, found: Found) -> None:
        """By how much the sum misses, and why."""
        enough = self.rule is gauss and found.nodes >= ENOUGH
        if enough and (where := cut_at(self.problem)):
            raise NotDifferentiable(
                f"{where}, and without it the attributions do not add up to the score; expected operations that a "
                f"gradient gets through. Take it away. {BLACK_BOX}."
            )
        why = (
            ": the score has steps, or part of it goes past the gradient (detach, rounding, randomness, other samples "
            "of the batch)"
        )
        missed, error = (float(one.max()) for one in (found.completeness, found.error) if one is not None)
        found.notes.append(
            f"in the worst sample the sum misses {missed:.1%} of what it explains, and the error is {error:.1%}, with "
            f"{found.nodes} nodes a line{why if enough else '; more nodes make it less'}"
        )


def total(values: list[Tensor]) -> Tensor:
    """The sum of all attributions of each sample."""
    return flat(values).sum(1)


def flat(values: list[Tensor]) -> Tensor:
    """All attributions of each sample in a row."""
    return torch.cat([one.reshape(len(one), -1) for one in values], 1)


def share(errors: list[Tensor], values: list[Tensor]) -> Tensor:
    """The length of the errors over that of the attributions, for each sample."""
    found: Tensor = torch.linalg.vector_norm(flat(errors), dim=1)
    length: Tensor = torch.linalg.vector_norm(flat(values), dim=1)
    return found / length.clamp_min(1e-12)
