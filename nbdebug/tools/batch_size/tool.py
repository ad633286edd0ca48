"""The tool: sizes, noise scale, suggestion."""

from __future__ import annotations

import time
from math import ceil
from typing import Any

from torch.utils.data import RandomSampler

from nbdebug.exceptions import SetupError
from nbdebug.preserve import Preserve
from nbdebug.setup import Setup
from nbdebug.setup.users_code import users_code
from nbdebug.tools.batch_size import memory, picture
from nbdebug.tools.batch_size.noise_scale import noise_scale
from nbdebug.tools.batch_size.result import BatchSize, NoiseScale
from nbdebug.tools.batch_size.search import Search
from nbdebug.tools.batch_size.step import Steps
from nbdebug.tools.batch_size.supply import Supply, users_size
from nbdebug.tools.batch_size.verdict import judge
from nbdebug.tools.overfit.examples import to_train_mode
from nbdebug.views.screen import LiveScreen, Screen, show

START, SECONDS = 8, 30.0
SHARE_OF_NOISE = 0.25


def batch_size(
    setup: Setup, *, start: int = START, most: int | None = None, seconds: float = SECONDS, noise: bool = True
) -> BatchSize:
    """What a training step costs at each batch size, doubling from ``start`` until memory, data or time end.

    Steps are made with the user's own optimizers on the user's own samples, and nothing is changed afterwards; on CUDA
    the peak of ``max_memory_allocated`` begins anew. An interrupt in a notebook is a Stop: it gives what was measured
    so far. Elsewhere it is raised. Raises SetupError for a set-up that cannot be run.
    """
    check(start, most, seconds)
    with Preserve(*setup.owned, loaders=(setup.train_loader, setup.val_loader)):
        to_train_mode(setup)
        finder = Finder(setup, start, most, seconds, noise)
        with show(picture.view(finder.result(), live=True)) as screen:
            finder.run(screen)
            result = finder.result()
            screen.finish(result)
    return result


class Finder:
    """The batch-size finder under way; must live inside a Preserve."""

    def __init__(self, setup: Setup, start: int, most: int | None, seconds: float, noise: bool) -> None:
        self.setup, self.seconds, self.wanted = setup, seconds, noise
        self.started = time.perf_counter()
        self.steps, self.supply = Steps(setup), Supply(setup)
        self.search = Search(self.steps, self.supply, start, most, self.started + seconds)
        self.noise = NoiseScale(why="it was not asked for")

    def run(self, screen: Screen) -> None:
        """The noise scale, at the weights that no step has changed yet, then the sizes, until done or stopped."""
        try:
            if self.wanted:
                self.noise = self.measured_noise(screen)
            self.search.run(lambda: self.seen(screen))
            self.search.again(lambda: self.seen(screen))
            if screen.stopped:
                self.search.ended = "stopped"
        except KeyboardInterrupt:
            self.search.ended = "interrupted"
            if not isinstance(screen, LiveScreen):
                raise

    def measured_noise(self, screen: Screen) -> NoiseScale:
        """The noise scale, or why it cannot be had."""
        try:
            with users_code(lambda: "while the noise of its gradient was measured"):
                return noise_scale(self.steps, self.supply, SHARE_OF_NOISE * self.seconds, lambda: screen.stopped)
        except SetupError as error:
            if not memory.is_out_of_memory(error.__cause__ or error):
                raise
            return NoiseScale(why="its gradients do not fit into memory")
        finally:
            self.steps.clear()
            memory.free(self.steps.device)

    def seen(self, screen: Screen) -> bool:
        """Shows what there is; whether the user pressed Stop."""
        if isinstance(screen, LiveScreen):
            screen.update(picture.view(self.result(), live=True))
        return screen.stopped

    def result(self) -> BatchSize:
        """What is known now, as plain data."""
        sizes, ended = self.search.sizes, self.search.ended or "data"
        now = users_size(self.setup)
        found = judge(sizes, ended, self.search.failed, self.search.capacity, now, self.noise)
        on_device = self.steps.device.type == "cuda"
        return BatchSize(
            sizes=sizes,
            suggestion=found.suggestion,
            headline=found.headline,
            reasons=found.reasons,
            notes=tuple(self.notes(found.suggestion)),
            ended=ended,
            failed=self.search.failed,
            now=now,
            noise=self.noise,
            device=str(self.steps.device),
            measured_by=memory.BY_ALLOCATOR if on_device else memory.BY_FOLLOWING,
            capacity=self.search.capacity,
            resident=memory.size_of(self.steps.held),
            reading=self.supply.seconds_a_sample,
            shuffled=isinstance(getattr(self.setup.train_loader, "sampler", None), RandomSampler),
            seconds=time.perf_counter() - self.started,
        )

    def notes(self, suggestion: int | None) -> list[str]:
        """How it was measured, and what the loader must keep up with."""
        by = memory.BY_ALLOCATOR if self.steps.device.type == "cuda" else memory.BY_FOLLOWING
        said = [f"Memory was measured {by}."]
        if not self.setup.optimizers:
            said.append("No optimizer was given: neither its state nor its step is counted.")
        if not self.supply.collates:
            said.append("The loader gives whole batches: the rows of its first one were used over and over.")
        chosen = next((one for one in self.search.sizes if one.size == suggestion), None)
        if chosen is not None and (workers := ceil(self.supply.seconds_a_sample * chosen.throughput)) > 1:
            said.append(f"At that throughput reading keeps {workers} processes busy: see num_workers.")
        return said


def check(start: Any, most: Any, seconds: Any) -> None:
    """Refuses numbers that cannot be."""
    for name, value, least in (("start", start, 1), ("most", most, start)):
        if value is None and name == "most":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            said = f"{name} is {value!r}; expected a whole number of at least {least}."
            raise SetupError(f"{said} Leave it out for the default.")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise SetupError(f"seconds is {seconds!r}; expected a number above 0. Leave it out for {SECONDS:g}.")
