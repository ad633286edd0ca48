"""What it costs to watch a training loop: nbdebug beside W&B and TensorBoard, as ratios to the bare loop.

    python benchmarks/watch.py [--model mlp,resnet,transformer] [--variants watch,wandb] [--steps 300] [--rounds 3]
    python benchmarks/watch.py --model mlp --profile watch

One model is trained in one process, one thread for torch, bare and by a variant in turns: bare, variant, variant, bare,
then the other way about with a new model, so that a machine that becomes slower is slower for both. It is one model,
since of two that are equal one may be 3 % slower all along by where in memory it lies. They take turns by
blocks of steps, not by steps: while it is open a watch stands in ``backward`` of everybody, and one that keeps to a
share of the time must not count that of the other loop as its own. So it is opened for each block, and the first steps
of each block (as many in the bare ones) are not timed: there a watch finds out what it may cost.

The mean step is given by the CPU time of the process, which others on the machine disturb least, with the lowest and
the highest of the rounds, and by the clock on the wall. "bare-again" is a second bare loop: how far it is off is noise.
The result is the same where a model that nobody has watched comes to the same losses and weights, bit for bit.
The slowest steps are compared with the slowest of the bare loop, by CPU time. Memory is the peak of a fresh process
above that of a bare one, and how much of it imports take; W&B works in a helper process too, whose time is not counted.
Nothing is drawn: the live view of a notebook comes on top, at most ten times a second.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, median

import torch
from models import ALLOCATOR, STEPS, Run, start
from peers import VARIANTS, Variant, bare
from sampling import sampled

BARE = Variant("bare", bare)
COLUMNS = f"{'':16} {'steps':>6} {'CPU':>7} {'of the rounds':>15} {'wall':>7} {'99.9 %':>7} {'worst':>7} "
COLUMNS += f"{'MiB':>7} {'imports':>7} {'helper':>7}  same result"


@dataclass
class Timed:
    """The times of a variant and of the bare loop beside it: CPU and wall seconds of each step, by round."""

    bare: list[list[tuple[float, float]]] = field(default_factory=list)
    watched: list[list[tuple[float, float]]] = field(default_factory=list)
    same: bool = False

    @property
    def count(self) -> int:
        """How many steps of the variant were timed."""
        return sum(map(len, self.watched))

    def ratios(self, clock: int) -> list[float]:
        """The mean step against the bare one, round by round."""
        pairs = zip(self.watched, self.bare, strict=True)
        return [mean(one[clock] for one in a) / mean(one[clock] for one in b) for a, b in pairs]

    def slowest(self, share: float) -> float:
        """The step that such a share of all are faster than, against the slowest bare one."""
        steps = sorted(cpu for block in self.watched for cpu, _ in block)
        return steps[min(int(share * len(steps)), len(steps) - 1)] / max(cpu for block in self.bare for cpu, _ in block)


def block(run: Run, variant: Variant, steps: int, first: int) -> list[tuple[float, float]]:
    """The times of the steps of one block, after some that are not timed."""
    gc.collect()
    with variant.open(run) as after:
        run.steps(first, after)
        return run.steps(steps, after)


def timed(model: str, variant: Variant, steps: int, first: int, rounds: int) -> Timed:
    """A model that is trained bare and watched by turns, and a new one in each round."""
    found = Timed()
    for number in range(rounds):
        run = start(model)
        block(run, BARE, 2, 1)
        a, b = (BARE, variant) if number % 2 == 0 else (variant, BARE)
        times: dict[Variant, list[tuple[float, float]]] = {a: [], b: []}
        for one in (a, b, b, a):
            times[one] += block(run, one, steps, first)
        found.bare.append(times[BARE])
        found.watched.append(times[variant])
        if number == 0:
            twin = start(model)
            twin.steps(len(run.losses), lambda step, loss: None)
            found.same = run.same_as(twin)
    return found


def resident() -> tuple[int, int]:
    """The resident memory of this program, the highest and that of now, in KiB; needs /proc."""
    status = Path("/proc/self/status").read_text().splitlines()
    highest, now = (next(line.split()[1] for line in status if line.startswith(word)) for word in ("VmHWM", "VmRSS"))
    return int(highest), int(now)


def helpers() -> int:
    """The resident memory of the processes that this one started, in KiB, where it can be known."""
    if find_spec("psutil") is None:
        return 0
    import psutil

    return sum(one.memory_info().rss for one in psutil.Process().children(recursive=True)) // 2**10


def measure(model: str, name: str) -> None:
    """Prints the peak of a run of one variant, what is held before its first step, and what its helpers hold."""
    torch.set_num_threads(1)
    run, variant = start(model), VARIANTS.get(name, BARE)
    with variant.open(run) as after:
        opened = resident()[1]
        run.steps(STEPS[model][0], after)
        helping = helpers()
    print(resident()[0], opened, helping)


@cache
def memory(model: str, name: str) -> tuple[int, ...]:
    """The same, from a fresh process; zeros where memory cannot be read."""
    if not Path("/proc/self/status").exists():
        return 0, 0, 0
    command = [sys.executable, __file__, "--measure", model, name]
    said = subprocess.check_output(command, text=True, env={**os.environ, **ALLOCATOR})
    return tuple(int(one) for one in said.split()[-3:])


def row(model: str, variant: Variant, steps: int, first: int, rounds: int) -> str:
    """One line of the table, without the name; why not, where a variant cannot be run."""
    absent = [package for package in variant.packages if find_spec(package) is None]
    if absent:
        return f"left out: {', '.join(absent)} is not installed"
    if variant.multiple > 1:
        steps, rounds = -(-steps // variant.multiple) * variant.multiple, -(-rounds // 3)
    found = timed(model, variant, max(steps // 5, 1) if variant.slow else steps, first, rounds)
    cpu, wall, held = (
        found.ratios(0),
        found.ratios(1),
        zip(memory(model, variant.name), memory(model, "bare"), strict=True),
    )
    times = f"{found.count:6} {median(cpu):7.3f} {f'{min(cpu):.3f} – {max(cpu):.3f}':>15} {median(wall):7.3f}"
    slow = f"{found.slowest(0.999):7.2f} {found.slowest(1):7.2f}"
    added = " ".join(f"{(one - base) / 2**10:7.1f}" for one, base in held)
    return f"{times} {slow} {added}  {'yes' if found.same else 'NO'}"


def main() -> None:
    """One table for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=",".join(STEPS), help="of mlp, resnet, transformer")
    parser.add_argument("--variants", default=",".join(VARIANTS), help=f"of {', '.join(VARIANTS)}")
    parser.add_argument("--steps", type=int, help="timed steps of a block")
    parser.add_argument("--first", type=int, help="steps of a block before those")
    parser.add_argument("--rounds", type=int, default=5, help="of four blocks each")
    parser.add_argument("--profile", metavar="VARIANT", help="where its own time goes, by lines")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.measure:
        return measure(*given.measure)
    for model in given.model.split(","):
        steps, first = STEPS[model]
        first = first if given.first is None else given.first
        if given.profile:
            print(sampled(start(model), VARIANTS[given.profile], given.steps or 3 * steps, first))
            continue
        print(f"\n{model}\n{COLUMNS}", flush=True)
        for name in given.variants.split(","):
            told = row(model, VARIANTS[name], given.steps or steps, first, given.rounds)
            print(f"{name:16} {told}", flush=True)


if __name__ == "__main__":
    main()
