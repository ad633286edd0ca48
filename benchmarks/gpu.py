"""Cost of ``watch()`` on a GPU: ratios of step times, calls that wait for the device, and peak memory.

    python benchmarks/gpu.py [--models mlp,resnet,transformer] [--seconds 6] [--rounds 3] [--device cuda]

Each round trains one model in four blocks: bare, watched, watched, bare; the next round starts with the watched block.
The loop fetches no value from the device, so its steps are queued ahead; a block is timed until the device is idle. A
bare block takes about ``--seconds``.

100          The time of the first 100 steps of a block, with the opening of the watch, relative to a bare block.
later        The time of the other steps, relative to a bare block.
waits        The calls per step that wait for the device, as ``torch.cuda.set_sync_debug_mode`` reports them, beyond
             those of the bare loop.
memory       The peak of the allocated memory, relative to the bare loop.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from statistics import median

import torch
from models import Transformer, mlp, resnet
from torch import Tensor, nn

import nbdebug

_FIRST_STEPS = 100
_BATCHES = 8


class Run:
    """A model in training on a device; steps are queued without waiting for their losses."""

    def __init__(self, name: str, device: torch.device) -> None:
        torch.manual_seed(0)
        self.device = device
        model, x, classes = _create(name)
        self.model = model.to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 3e-4)
        self.loss_fn = nn.CrossEntropyLoss()
        x = x.to(device)
        self.batches = list(zip(x, torch.randint(0, classes, x.shape[:2], device=device), strict=True))
        self.autocasts = name == "transformer"
        self.losses: list[Tensor] = []

    def train(self, steps: int) -> None:
        """Train for some steps, and wait for the device at their end."""
        for _ in range(steps):
            x, y = self.batches[len(self.losses) % _BATCHES]
            self.optimizer.zero_grad()
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocasts):
                loss = self.loss_fn(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.detach())
        self.wait()

    def wait(self) -> None:
        """Wait until the device is idle."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def watch(self) -> nbdebug.Watch:
        """Return a watch of this run."""
        return nbdebug.watch(self.model, self.optimizer)


def _create(name: str) -> tuple[nn.Module, Tensor, int]:
    """Return a model, its inputs of shape (batches, samples, …), and the number of classes."""
    if name == "mlp":
        return mlp(), torch.randn(_BATCHES, 128, 784), 10
    if name == "resnet":
        return resnet(), torch.randn(_BATCHES, 512, 3, 32, 32), 10
    model = Transformer(8000, 10, 512, 8, feedforward=2048, length=256)
    return model, torch.randint(0, 8000, (_BATCHES, 64, 256)), 10


def _seconds(task: Callable[[], None]) -> float:
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def measure_block(run: Run, steps: int, *, is_watched: bool) -> tuple[float, float]:
    """Return the seconds of the first steps of a block, with the opening of the watch, and of the other steps."""
    run.wait()
    start = time.perf_counter()
    with run.watch() if is_watched else nullcontext():
        run.train(_FIRST_STEPS)
        first = time.perf_counter() - start
        later = _seconds(lambda: run.train(steps))
    return first, later


def count_waits(run: Run, steps: int, *, is_watched: bool) -> float:
    """Return the number of calls per step that wait for the device."""
    if run.device.type != "cuda":
        return 0.0
    with run.watch() if is_watched else nullcontext():
        run.train(_FIRST_STEPS)
        torch.cuda.set_sync_debug_mode("warn")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(steps):
                run.train(1)
        torch.cuda.set_sync_debug_mode("default")
    return sum("called a synchronizing" in str(warning.message) for warning in caught) / steps


def peak_memory(run: Run, steps: int, *, is_watched: bool) -> int:
    """Return the peak of the allocated bytes of some steps."""
    if run.device.type != "cuda":
        return 1
    torch.cuda.reset_peak_memory_stats(run.device)
    with run.watch() if is_watched else nullcontext():
        run.train(steps)
    return int(torch.cuda.max_memory_allocated(run.device))


def measure(name: str, device: torch.device, seconds: float, rounds: int) -> str:
    """Return the line of a model."""
    run = Run(name, device)
    run.train(_FIRST_STEPS)
    steps = max(int(seconds * _FIRST_STEPS / _seconds(lambda: run.train(_FIRST_STEPS))) - _FIRST_STEPS, _FIRST_STEPS)
    measure_block(run, _FIRST_STEPS, is_watched=True)
    first_ratios, later_ratios, milliseconds = [], [], []
    for number in range(rounds):
        order = (False, True, True, False) if number % 2 == 0 else (True, False, False, True)
        blocks = [(is_watched, measure_block(run, steps, is_watched=is_watched)) for is_watched in order]
        bare = [times for is_watched, times in blocks if not is_watched]
        watched = [times for is_watched, times in blocks if is_watched]
        first_ratios.append(sum(first for first, _ in watched) / sum(first for first, _ in bare))
        later_ratios.append(sum(later for _, later in watched) / sum(later for _, later in bare))
        milliseconds += [1e3 * later / steps for _, later in bare]
    waits = count_waits(run, _FIRST_STEPS, is_watched=True) - count_waits(run, _FIRST_STEPS, is_watched=False)
    memory = peak_memory(run, _FIRST_STEPS, is_watched=True) / peak_memory(run, _FIRST_STEPS, is_watched=False)
    low, high = min(later_ratios), max(later_ratios)
    ratios = f"{median(first_ratios):7.3f} {median(later_ratios):7.3f} ({low:.3f} – {high:.3f})"
    return f"{name:12} {median(milliseconds):8.2f} {steps:6} {ratios} {waits:7.2f} {memory:7.3f}"


def main() -> None:
    """Print one line per model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="mlp,resnet,transformer", help="comma-separated: mlp, resnet, transformer")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda":
        print(torch.cuda.get_device_name(device), "torch", torch.__version__)
    print(f"{'':12} {'ms':>8} {'steps':>6} {'100':>7} {'later':>7} {'min – max':>15} {'waits':>7} {'memory':>7}")
    for name in options.models.split(","):
        print(measure(name, device, options.seconds, options.rounds), flush=True)


if __name__ == "__main__":
    main()
