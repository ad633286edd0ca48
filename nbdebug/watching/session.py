"""One run under watch: what is done at each event of the user's loop."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.graph.source import Line
from nbdebug.loop import Follower
from nbdebug.numbers import MOST, Sampler
from nbdebug.preserve import blocks
from nbdebug.probes.batches import batches, comes_from
from nbdebug.probes.loss_call import loss_call
from nbdebug.probes.loss_calls import loss_calls
from nbdebug.probes.losses import Roots, backwards
from nbdebug.probes.modes import passes
from nbdebug.probes.outputs import Outputs
from nbdebug.probes.scaling import scaling
from nbdebug.probes.steps import every_step
from nbdebug.record import Record
from nbdebug.replay import Ring
from nbdebug.setup import Setup
from nbdebug.watching.described import described
from nbdebug.watching.fixed import Fixed
from nbdebug.watching.lens import Lens
from nbdebug.watching.look import Look
from nbdebug.watching.meter import Meter
from nbdebug.watching.places import Match, Places
from nbdebug.watching.recorder import Number, Recorder, kept, total
from nbdebug.watching.resting import Resting
from nbdebug.watching.strides import Strides, root

THOROUGH = 8  # looks of a fixed rhythm, of which one asks for dead units and the largest values


class Session:
    """Hears the events of a loop and fills a record; after each whole step ``boundary`` is true once."""

    def __init__(self, setup: Setup, meter: Meter, match: Match = None) -> None:
        self.setup, self.meter = setup, meter
        self.record = Record(about=described(setup))
        self.follower, self.recorder = Follower(setup), Recorder(self.record)
        watched = Places(setup.eager, match)
        self.most, self.looks = MOST if meter.every is None else MOST // 4, 0
        sampler = Sampler(list(watched.parameters.values()), self.most)
        self.watched, self.lens = watched, Lens(watched, sampler, self.record)
        self.strides, self.outputs = Strides(watched, sampler), Outputs(setup.eager, self.take, watched.picks)
        self.fixed = Fixed.of(setup)
        self.record.about.update(self.fixed.about)
        self.record.modules = watched.layers(set())
        self.measure(0)
        self.fixed.spent = 0.0
        self.boundary = self.ended = self.pulled = False
        self.losses: list[Number] = []
        self.iterator: weakref.ref[Any] | None = None
        self.skipped, self.ring = 0, Ring(setup)
        self.lines: dict[str, Line] = {}
        self.batches = int(self.record.about.get("batches_per_epoch", 0))
        self.rests = Resting(self)
        self.prepare()

    def probes(self, between: Callable[[], None]) -> list[AbstractContextManager[None]]:
        """All that listens, each with its cost counted and its failures kept to itself.

        ``between`` is called after each whole step, and may end the loop by raising.
        """
        timed, follower, setup = self.meter.timed, self.follower, self.setup
        done, losses = timed("steps", self.step_done), timed("losses", self.backward_done)
        targets = timed("replay", self.ring.loss_called, always=False)

        def then(act: Callable[[Any], None]) -> Callable[[Any], None]:
            def call(*given: Any) -> None:
                act(*given)
                if self.boundary:
                    self.boundary = False
                    between()

            return call

        return [
            backwards(timed("backward", self.backward_begins), then(losses)),
            every_step(timed("gradients", self.step_begins, always=False), then(done)),
            *follower.probes(self.meter.guarded),
            passes(setup.model, timed("passes", self.passes), timed("outputs", follower.passed), follower.wants_output),
            scaling(timed("replay", self.ring.scaled)),
            loss_call(setup.loss_fn, self.called),
            loss_calls(setup.loss_fn, targets, timed("evaluations", self.evaluated)),
            batches(timed("batches", self.drawn)),
        ]

    def called(self, line: Line) -> None:
        """The loss was called, for the first time, at a line of the user's."""
        self.lines["loss"] = line

    def prepare(self) -> None:
        """Makes ready for the next step: a look, where one is due."""
        self.strides.look, self.strides.square = None, None
        self.meter.next_step(self.recorder.step)
        self.follower.rest(not self.meter.following)
        self.ring.resting = self.follower.resting
        self.meter.asleep &= self.follower.resting
        self.ring.asleep = self.meter.asleep
        if self.meter.looking and self.lens.wants():
            self.looks += 1
            thorough = self.meter.every is None or self.looks % THOROUGH == 1
            self.strides.look = Look(self.recorder.step, self.most, thorough)
            self.strides.extremes.next(thorough)
            self.outputs.open()
        else:
            self.strides.settle()
            self.outputs.close()

    def take(self, place: str, module: nn.Module, output: Tensor) -> None:
        """An output of a submodule, on a step that is looked at."""
        look, begun = self.strides.look, time.perf_counter()
        if look is not None and len(blocks) <= self.meter.outside:
            self.meter.attempt("activations", look.take, place, module, output)
        self.meter.spent += time.perf_counter() - begun

    def drawn(self, given: tuple[Any, Any, float]) -> None:
        """A batch was drawn from some loader."""
        self.follower.drawn(given)
        iterator, batch, seconds = given
        if not comes_from(iterator, self.setup.train_loader):
            return
        if not self.meter.asleep:
            self.meter.attempt("replay", self.ring.batch_drawn, batch)
        self.recorder.waited += seconds
        if self.iterator is None or self.iterator() is not iterator:
            # Held weakly: a loader's workers end with its iterator.
            self.iterator, self.recorder.epoch = weakref.ref(iterator), self.recorder.epoch + 1
            self.record.note(self.recorder.step, "epoch", f"epoch {self.recorder.epoch}")

    def passes(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The model is about to be called."""
        training = torch.is_grad_enabled()
        if training and module.training and not self.meter.asleep:
            self.meter.attempt("replay", self.ring.forward_begins, module, args, kwargs)
        if not (training and self.follower.resting) or self.follower.modes.split == "val":
            self.follower.modes.begins()

    def evaluated(self, loss: Tensor) -> None:
        """The user's own loss of a batch that is not trained on."""
        self.recorder.evaluation.append(kept(loss))

    def backward_begins(self, roots: Roots) -> bool:
        """A backward pass is about to run; True where its end need not be told of."""
        if self.follower.resting and self.rests.backward(roots):
            return True
        self.skips()
        self.recorder.evaluated()
        self.follower.backward_begins(roots)
        self.losses = [kept(self.follower.plain(one)) for one in roots if one.numel() == 1]
        self.meter.attempt("replay", self.ring.backward_begins, roots, total(self.losses))
        return False

    def backward_done(self, roots: Roots) -> None:
        """A backward pass has run; where no optimizer is known, it counts as a step."""
        self.pulled = True
        self.follower.backward_done()
        self.meter.attempt("replay", self.ring.backward_done)
        if not self.follower.concerned:
            return
        self.recorder.row.losses += self.losses
        self.ended = self.ended or bool(self.batches and self.follower.backwards % self.batches == 0)
        if not self.follower.steppers:
            self.step_begins(None)
            self.strides.after(None)
            self.end_of_step(None)

    def step_begins(self, optimizer: torch.optim.Optimizer | None, *_: Any) -> None:
        """An optimizer is about to step."""
        if self.follower.resting and self.rests.step_begins(optimizer):
            return
        if optimizer is not None and not self.follower.concerns(optimizer):
            return
        if optimizer is not None:
            self.follower.step_begins(optimizer)
            self.clipped(optimizer)
        self.pulled = False
        if self.meter.norming:
            begun = time.perf_counter()
            self.strides.norm(optimizer)
            now = time.perf_counter()
            self.meter.norms.took(now - begun, now)
        if self.strides.look is not None:
            self.strides.gradients(optimizer)
        if optimizer is not None:
            self.meter.attempt("replay", self.ring.step_begins, optimizer, self.strides.finite)
        if self.strides.look is not None:
            self.strides.before()

    def step_done(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """An optimizer has stepped; a step of the first one ends a row. A closure has made its gradients only now."""
        if self.meter.asleep:
            return self.rests.slept(optimizer)
        if (self.follower.resting and self.rests.step_done(optimizer)) or not self.follower.concerns(optimizer):
            return
        self.follower.step_done(optimizer)
        self.meter.attempt("replay", self.ring.step_done, optimizer)
        if self.pulled and self.strides.look is not None:
            self.strides.look.gradients, self.strides.square = None, None
            self.strides.norm(optimizer)
            self.strides.gradients(optimizer)
        if self.strides.look is not None:
            self.strides.after(optimizer, self.meter.every == 1 and self.follower.resting)
        if optimizer is self.follower.first:
            self.end_of_step(optimizer)

    def clipped(self, optimizer: torch.optim.Optimizer) -> None:
        """Keeps the norm that clipping has found before this step, and by how much it shortened it."""
        clip = self.follower.steppers[id(optimizer)].interval.clip
        if clip is not None and clip.norm is not None:
            self.recorder.row.numbers["raw_gradient_norm"] = kept(clip.norm)
            self.recorder.row.numbers["clip_scale"] = kept((clip.limit / (clip.norm + 1e-6)).clamp(max=1.0))

    def skips(self) -> None:
        """Ends the rows of steps that a GradScaler has left out since the last backward pass."""
        count, recorder = self.follower.scalers.skipped, self.recorder
        if count == self.skipped:
            return
        self.skipped = count
        if recorder.row.losses:
            recorder.row.numbers["skipped"] = 1.0
            recorder.next_row()
        elif recorder.waiting:
            recorder.waiting[-1].numbers["skipped"] = 1.0
        self.record.note(recorder.step - 1, "skipped", "the GradScaler left this step out")

    def end_of_step(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Closes the row of a step, and writes what was looked at."""
        now = time.perf_counter()
        if self.strides.square is not None:
            self.recorder.row.numbers["gradient_norm"] = root(self.strides.square)
        if self.strides.look is not None:
            self.meter.attempt("layers", self.lens.write, self.strides.look)
        self.recorder.finish(optimizer, now)
        self.boundary = True
        self.epoch_ends()
        self.prepare()

    def epoch_ends(self) -> None:
        """Measures the fixed samples, where an epoch has ended and they have not taken too much yet."""
        if not self.ended or self.meter.must_save(time.perf_counter()):
            return
        if self.fixed.spent + self.fixed.cost <= self.meter.budget / 2 * self.meter.elapsed:
            self.measure(self.recorder.step - 1)

    def measure(self, step: int) -> None:
        """Measures the fixed samples now."""
        self.ended, self.measured = False, step
        if row := self.fixed.measured():
            self.record.evaluations.append(step, row, "fixed")

    def fetch(self) -> None:
        """Brings in the numbers and the looks that wait."""
        self.recorder.fetch()
        begun = time.perf_counter()
        self.meter.attempt("layers", self.strides.settle)
        self.meter.attempt("layers", self.lens.flush)
        self.meter.looks.owes(time.perf_counter() - begun)

    def close(self) -> None:
        """Brings in all that still waits, once the probes are closed."""
        self.outputs.close()
        self.skips()
        self.recorder.evaluated()
        if self.recorder.row.losses:
            self.recorder.next_row()
        self.fetch()
        if self.recorder.step - 1 > self.measured:
            self.measure(self.recorder.step - 1)
        places = {one.partition("|")[2].split("#")[0].split("[")[0] for one in self.record.drawn if one[:3] == "act"}
        self.record.modules = self.watched.layers(places)
        if self.fixed.trouble:
            self.record.about["not measured"] = f"fixed samples ({self.fixed.trouble})"

    @property
    def rates(self) -> list[float]:
        """The learning rates of the steps."""
        return [float(one) for one in self.record.series("lr")[1]]
