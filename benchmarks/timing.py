"""CPU time, wall time and ratios of functions that are compared.

The functions run in alternation, so a change in the speed of the machine affects all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import numpy as np

Task = Callable[[], Any]


def cpu_seconds(task: Task) -> float:
    """Return the CPU seconds of one call."""
    start = time.process_time()
    task()
    return time.process_time() - start


def wall_seconds(task: Task) -> float:
    """Return the wall seconds of one call."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def microseconds_per_call(task: Task, calls: int = 2000) -> float:
    """Return the mean CPU time of many calls, in microseconds."""
    start = time.process_time()
    for _ in range(calls):
        task()
    return (time.process_time() - start) / calls * 1e6


def measure_rounds(tasks: Mapping[str, Task], rounds: int) -> dict[str, list[float]]:
    """Return the CPU seconds of each task in each round; every second round reverses the order of the tasks."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for i in range(rounds):
        for name in list(tasks) if i % 2 == 0 else list(tasks)[::-1]:
            seconds[name].append(cpu_seconds(tasks[name]))
    return seconds


def describe_ratios(tasks: Mapping[str, Task], rounds: int) -> dict[str, str]:
    """Return the median milliseconds of each task, and its ratio to the first task: median (minimum – maximum)."""
    seconds = measure_rounds(tasks, rounds)
    baseline = next(iter(seconds.values()))
    lines = {}
    for name, times in seconds.items():
        ratios = [time / max(base, 1e-9) for time, base in zip(times, baseline, strict=True)]
        lines[name] = f"{median(times) * 1e3:9.2f} ms {median(ratios):8.2f} ({min(ratios):.2f} – {max(ratios):.2f})"
    return lines


def describe_bootstrapped_ratios(tasks: Mapping[str, Task], rounds: int) -> dict[str, str]:
    """Return the same with a 90% bootstrap interval of the median ratio.

    The order in a round is random, so that no task always runs with the caches that one other task leaves.
    """
    rng = np.random.default_rng(0)
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name in rng.permutation(list(tasks)):
            seconds[name].append(cpu_seconds(tasks[name]))
    baseline, lines = np.array(next(iter(seconds.values()))), {}
    for name, times in seconds.items():
        ratios = np.array(times) / baseline
        low, high = np.quantile([np.median(rng.choice(ratios, rounds)) for _ in range(500)], (0.05, 0.95))
        lines[name] = f"{np.median(times) * 1e3:9.2f} ms {np.median(ratios):8.3f} ({low:.3f} – {high:.3f})"
    return lines


def print_lines(lines: Mapping[str, str]) -> None:
    """Print one line per name."""
    for name, line in lines.items():
        print(f"  {name:16} {line}", flush=True)
