"""Cost of ``watch()``, W&B and TensorBoard, as ratios to the bare training loop.

    python benchmarks/watch.py [--models mlp,resnet,transformer] [--variants watch,wandb] [--steps 300] [--rounds 3]
    python benchmarks/watch.py --models mlp --profile watch

Each round trains one model on one thread, in four blocks of steps: bare, variant, variant, bare. The next round starts
with the variant and a new model, so a change in the speed of the machine affects both. All blocks of a round train the
same model, because the memory layout alone can make one of two equal models 3% slower.

The loops alternate by blocks, not by steps. An open watch also intercepts ``backward`` of the other loop, and a watch
with a budget must not count the time of the other loop. So each block opens the tracker again. The first steps of each
block are not timed, in bare blocks too; in these steps a watch measures its own cost.

CPU          The mean step by the CPU time of the process: median of the rounds, minimum and maximum.
wall         The mean step by wall time.
99.9 %, max  The 99.9th percentile and the slowest step, relative to the slowest bare step, by CPU time.
MiB          The peak memory of a fresh process above that of a bare run.
imports      The part of it that is in use before the first step.
helper       The memory of child processes, such as that of W&B. Their time is not counted.
same result  The losses and weights equal those of an unwatched model, bit for bit.

"bare-again" is a second bare loop; its deviation from 1 is noise. Nothing is displayed: the live view in a notebook
adds its own cost, at most ten times per second.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from statistics import mean, median

import torch
from optional_packages import missing_packages, skip_text
from process_memory import ALLOCATOR_ENVIRONMENT, current_resident_kib, peak_resident_kib
from sampling_profiler import profile
from trackers import BARE, VARIANTS, Variant
from training_run import BLOCK_SIZES, StepTime, TrainingRun, create_run

HEADER = f"{'':16} {'steps':>6} {'CPU':>7} {'min – max':>15} {'wall':>7} {'99.9 %':>7} {'max':>7} "
HEADER += f"{'MiB':>7} {'imports':>7} {'helper':>7}  same result"


@dataclass
class PairedTimes:
    """Step times of the bare loop and of a variant, one list per round."""

    bare: list[list[StepTime]] = field(default_factory=list)
    variant: list[list[StepTime]] = field(default_factory=list)
    same_result: bool = False

    @property
    def steps(self) -> int:
        """Number of timed steps of the variant."""
        return sum(map(len, self.variant))

    def cpu_ratios(self) -> list[float]:
        """Return the ratio of the mean CPU times in each round."""
        pairs = zip(self.variant, self.bare, strict=True)
        return [mean(step.cpu for step in variant) / mean(step.cpu for step in bare) for variant, bare in pairs]

    def wall_ratios(self) -> list[float]:
        """Return the ratio of the mean wall times in each round."""
        pairs = zip(self.variant, self.bare, strict=True)
        return [mean(step.wall for step in variant) / mean(step.wall for step in bare) for variant, bare in pairs]

    def quantile_ratio(self, quantile: float) -> float:
        """Return a quantile of the CPU times of the variant, relative to the slowest bare step."""
        times = sorted(step.cpu for steps in self.variant for step in steps)
        slowest_bare = max(step.cpu for steps in self.bare for step in steps)
        return times[min(int(quantile * len(times)), len(times) - 1)] / slowest_bare


def run_block(run: TrainingRun, variant: Variant, steps: int, warmup: int) -> list[StepTime]:
    """Return the step times of one block, without the warm-up."""
    gc.collect()
    with variant.track(run) as after_step:
        run.run_steps(warmup, after_step)
        return run.run_steps(steps, after_step)


def measure_times(model: str, variant: Variant, steps: int, warmup: int, rounds: int) -> PairedTimes:
    """Train bare and with the variant in alternating blocks; compare the first round with an unwatched run."""
    times = PairedTimes()
    for i in range(rounds):
        run = create_run(model)
        run_block(run, BARE, 2, 1)
        outer, inner = (BARE, variant) if i % 2 == 0 else (variant, BARE)
        by_variant: dict[Variant, list[StepTime]] = {BARE: [], variant: []}
        for block_variant in (outer, inner, inner, outer):
            by_variant[block_variant] += run_block(run, block_variant, steps, warmup)
        times.bare.append(by_variant[BARE])
        times.variant.append(by_variant[variant])
        if i == 0:
            unwatched = create_run(model)
            unwatched.run_steps(len(run.losses), lambda step, loss: None)
            times.same_result = run.is_equal(unwatched)
    return times


def child_resident_kib() -> int:
    """Return the resident memory of all child processes in KiB, or 0 without psutil."""
    if missing_packages(["psutil"]):
        return 0
    import psutil

    return sum(child.memory_info().rss for child in psutil.Process().children(recursive=True)) // 2**10


def print_memory(model: str, name: str) -> None:
    """Print the peak of a run, the memory before its first step, and the memory of its child processes, in KiB."""
    torch.set_num_threads(1)
    run, variant = create_run(model), VARIANTS.get(name, BARE)
    with variant.track(run) as after_step:
        before = current_resident_kib()
        run.run_steps(BLOCK_SIZES[model].steps, after_step)
        children = child_resident_kib()
    print(peak_resident_kib(), before, children)


@cache
def measure_memory(model: str, name: str) -> tuple[int, ...]:
    """Return what ``print_memory`` prints in a fresh process."""
    command = [sys.executable, __file__, "--memory", model, name]
    output = subprocess.check_output(command, text=True, env={**os.environ, **ALLOCATOR_ENVIRONMENT})
    return tuple(int(number) for number in output.split()[-3:])


def measure_row(model: str, variant: Variant, steps: int, warmup: int, rounds: int) -> str:
    """Return the row of a variant without its name, or the reason for skipping it."""
    if reason := skip_text(variant.packages):
        return reason
    if variant.interval > 1:
        steps, rounds = -(-steps // variant.interval) * variant.interval, -(-rounds // 3)
    times = measure_times(model, variant, max(steps // 5, 1) if variant.slow else steps, warmup, rounds)
    cpu, wall = times.cpu_ratios(), times.wall_ratios()
    cells = [f"{times.steps:6} {median(cpu):7.3f} {f'{min(cpu):.3f} – {max(cpu):.3f}':>15} {median(wall):7.3f}"]
    cells += [f"{times.quantile_ratio(quantile):7.2f}" for quantile in (0.999, 1)]
    memory = zip(measure_memory(model, variant.name), measure_memory(model, "bare"), strict=True)
    cells += [f"{(kib - bare_kib) / 2**10:7.1f}" for kib, bare_kib in memory]
    return f"{' '.join(cells)}  {'yes' if times.same_result else 'NO'}"


def main() -> None:
    """Print one table per model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(BLOCK_SIZES), help="comma-separated: mlp, resnet, transformer")
    variants_help = f"comma-separated: {', '.join(VARIANTS)}".replace("%", "%%")
    parser.add_argument("--variants", default=",".join(VARIANTS), help=variants_help)
    parser.add_argument("--steps", type=int, help="timed steps per block")
    parser.add_argument("--warmup", type=int, help="steps per block that are not timed")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of four blocks")
    parser.add_argument("--profile", metavar="VARIANT", help="print where the time of a variant is spent")
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.memory:
        return print_memory(*options.memory)
    for model in options.models.split(","):
        steps, warmup = BLOCK_SIZES[model]
        warmup = warmup if options.warmup is None else options.warmup
        if options.profile:
            print(profile(create_run(model), VARIANTS[options.profile], options.steps or 3 * steps, warmup))
            continue
        print(f"\n{model}\n{HEADER}", flush=True)
        for name in options.variants.split(","):
            row = measure_row(model, VARIANTS[name], options.steps or steps, warmup, options.rounds)
            print(f"{name:16} {row}", flush=True)


if __name__ == "__main__":
    main()
