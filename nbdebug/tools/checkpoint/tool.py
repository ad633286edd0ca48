"""Entry point of the check of a checkpoint: the state and the next steps after saving, and after loading."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau

from nbdebug.exceptions import SetupError
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.tools.checkpoint.reading import UnreadableCheckpoint, newest_other_checkpoint, read_checkpoint
from nbdebug.tools.checkpoint.result import (
    FAULTY,
    RANDOM_STATE,
    CheckpointCheck,
    NextSteps,
    PartCheck,
    PartStatus,
    Verdict,
)
from nbdebug.tools.checkpoint.state_parts import (
    StatePart,
    architecture_difference,
    find_states,
    first_difference,
    generator_states,
    has_generator_state,
    non_finite_tensor,
    state_parts,
    without_prefix,
)
from nbdebug.training.model_copy import ensure_train_mode
from nbdebug.training.trainer import BatchStream, Trainer
from nbdebug.views.late_screen import LateScreen

_STEPS_BEFORE, _STEPS_AFTER = 3, 2  # of saving; each changes all state
_SEED = 0
_MIN_UPDATE = 1e-3  # of the change of the weights: less is rounding
_States = dict[str, Mapping[Any, Any]]


def check_checkpoint(
    setup: Setup,
    path: str | Path | None = None,
    *,
    save: Callable[[str], Any] | None = None,
    load: Callable[[str], Any] | None = None,
) -> CheckpointCheck:
    """Check whether training resumes from a checkpoint as it would have continued.

    With ``save``, the setup trains some steps, calls ``save(path)`` and trains further; from the state before, it calls
    ``load(path)`` and trains on the same batches. With ``path``, a file is compared with the setup. Without ``load``,
    each state that the file contains is loaded with ``load_state_dict()``. Raises SetupError if there is neither a path
    nor ``save``; exceptions of ``save`` and ``load`` are raised.
    """
    if (path is None) == (save is None):
        raise SetupError(
            f"check_checkpoint got {'neither a path nor save' if path is None else 'a path and save'}; expected one of "
            "them. Pass the path of a checkpoint, or your function save(path)."
        )
    started = time.perf_counter()
    with LateScreen("Checkpoint") as screen:
        with TemporaryDirectory() as folder, Preserve(*setup.mutable_objects, loaders=_loaders(setup)):
            ensure_train_mode(setup)
            file = Path(path) if path is not None else Path(folder) / "checkpoint.pt"
            result = _Check(setup, file, save, load, screen).run()
            shown = str(file) if path is not None else "The file that save() has written"
        result = replace(result, path=shown, seconds=time.perf_counter() - started)
        screen.finish(result)
    return result


def _loaders(setup: Setup) -> tuple[Any, ...]:
    return setup.train_loader, setup.val_loader


class _Check:
    """The check of one file; must live inside a Preserve."""

    def __init__(
        self,
        setup: Setup,
        file: Path,
        save: Callable[[str], Any] | None,
        load: Callable[[str], Any] | None,
        screen: LateScreen,
    ) -> None:
        self.setup, self.file, self.save, self.load, self.screen = setup, file, save, load, screen
        self.parts, self.notes = state_parts(setup), list[str]()
        self.batches: list[Batch] = []
        self.trained_steps = 0
        self.rejections: dict[str, str] = {}  # of load_state_dict(), by part

    def run(self) -> CheckpointCheck:
        """Return the result; its path is filled in by the caller."""
        before, generators_before = self._states(), generator_states()
        self.batches = self._read_batches()
        with self._preserved():
            with self._moved_loader():
                if self.save is not None:
                    self._train(self.batches[:_STEPS_BEFORE])
                    generators_saved = generator_states()
                    self._save()
                saved = self._states()
            continued = self._continue()
        try:
            content = read_checkpoint(self._written())
        except UnreadableCheckpoint as fault:
            if self.load is None or self.save is None:
                return self._unusable("unusable", str(fault))
            self.notes.append(f"Its content was not inspected: it {fault}.")
            content = None
        states = find_states(content, self.parts)
        if unfit := self._weights_fault(states):
            return self._unusable(*unfit)
        if self.save is None and self.load is not None:
            saved, continued = self._expected(states)
            self._train(self.batches[:_STEPS_BEFORE])  # so that all state differs from what load() ought to restore
            before = self._states()
        generators = generator_states()
        self._load(states)
        loaded, resumed = self._states(), generator_states()
        checks = [self._part_check(part, before, saved, loaded, states, content) for part in self.parts]
        if self.save is not None:
            used = {name for name, state in generators_before.items() if generators_saved[name] != state}
            checks.append(self._random_check(used, generators_saved, generators, resumed, content))
        steps = self._compare(continued, self._continue(), saved["model"]) if continued is not None else None
        return CheckpointCheck(_verdict(checks, steps), "", tuple(checks), steps=steps, notes=tuple(self.notes))

    def _preserved(self) -> Preserve:
        return Preserve(*self.setup.mutable_objects, loaders=_loaders(self.setup))

    def _read_batches(self) -> list[Batch]:
        """Return batches for all steps; none if only a file is compared, which needs no step."""
        if self.save is None and self.load is None:
            return []
        if not self.setup.has_training_data or not self.setup.optimizers:
            raise SetupError(
                "the setup has no training data or no optimizer; expected both, since some steps are trained around "
                "save() and load(). Pass them to Debugger."
            )
        restored = Preserve(loaders=_loaders(self.setup)) if self.has_loader_state else nullcontext()
        with restored, self._read(_STEPS_BEFORE + _STEPS_AFTER) as batches:
            return batches

    @contextmanager
    def _read(self, count: int) -> Iterator[list[Batch]]:
        """Yield the next batches, and release the loader afterwards."""
        stream = BatchStream(self.setup, _SEED)
        try:
            yield list(islice(stream, count))
        finally:
            stream.close()

    @property
    def has_loader_state(self) -> bool:
        """Check whether the loader has a position that can be saved, which the steps before saving must change."""
        return any(part.owner is self.setup.train_loader for part in self.parts)

    def _moved_loader(self) -> AbstractContextManager[Any]:
        """Read as many batches of a loader with a position as the steps before saving take."""
        moves = self.save is not None and self.has_loader_state
        return self._read(_STEPS_BEFORE) if moves else nullcontext()

    def _train(self, batches: list[Batch]) -> tuple[float, ...]:
        """Train a step on each batch, with a step of every scheduler, and return the losses."""
        trainer, losses = Trainer(self.setup, self.setup.optimizers, iter(batches)), []
        for _ in batches:
            self.screen.report(f"{self.trained_steps} training steps")
            self.trained_steps += 1
            with torch.enable_grad(), UserCodeErrors(lambda: "in a training step"):
                losses.append(trainer.step())
            for scheduler in self.setup.schedulers:
                scheduler.step(*([losses[-1]] if isinstance(scheduler, ReduceLROnPlateau) else []))
        return tuple(losses)

    def _save(self) -> None:
        """Call the user's ``save``, twice, to see whether the second call replaces the first file."""
        assert self.save is not None
        inodes = []
        for _ in range(2):
            self.save(str(self.file))
            inodes.append(self.file.stat().st_ino if self.file.is_file() else None)
        if inodes[0] is not None and inodes[0] == inodes[1]:
            self.notes.append(
                "save() overwrites an existing file in place: a process that is killed meanwhile leaves neither the "
                "old nor the new checkpoint. Write to another name in the same folder, then call os.replace()."
            )

    def _written(self) -> Path:
        """Return the file to inspect; ``save`` may have added a suffix to its name, or written a folder."""
        if self.save is None or self.file.exists():
            return self.file
        others = list(self.file.parent.iterdir())
        return others[0] if len(others) == 1 else self.file.parent

    def _states(self) -> _States:
        return {part.name: part.copied_state() for part in self.parts}

    def _continue(self) -> tuple[tuple[float, ...], list[Tensor], list[Tensor]] | None:
        """Return losses of the next steps, outputs before them and weights after them; restores nothing."""
        batches = self.batches[_STEPS_BEFORE:]
        if not batches:
            return None
        outputs: list[Tensor] = []
        model = self.setup.eager_model
        if self.setup.step_fn is None:
            with in_mode(model, False), torch.no_grad(), UserCodeErrors(lambda: "in eval mode"):
                outputs = [t.clone() for t in tree_tensors(self.setup.predict(batches[0])) if t.is_floating_point()]
        seed_all(_SEED)  # the state of the generators is compared by itself
        losses = self._train(batches)
        return losses, outputs, [p.detach().clone() for p in model.parameters()]

    def _weights_fault(self, states: _States) -> tuple[Verdict, str] | None:
        """Return a fault of the weights in the file: those of another model, or not finite; remove a prefix of names.

        Whether ``save`` and ``load`` fit each other is shown by the state after loading.
        """
        if "model" not in states:
            return None
        stored, prefix = without_prefix(states["model"])
        own = self.setup.eager_model.state_dict()
        if prefix and not set(own) & set(states["model"]):
            states["model"] = stored
            self.notes.append(
                f"All names in the checkpoint begin with {prefix!r}, as those of a wrapped model do; remove it: "
                f"state = {{name.removeprefix({prefix!r}): value for name, value in state.items()}}"
            )
        difference = architecture_difference(own, states["model"])
        if difference and self.save is None:
            return "another architecture", f"belongs to another architecture: {difference}"
        if name := non_finite_tensor(states["model"]):
            return "unusable", f"contains weights that are not finite: {name}"
        return None

    def _unusable(self, verdict: Verdict, fault: str) -> CheckpointCheck:
        is_file = verdict == "unusable" and self.save is None
        other = newest_other_checkpoint(self.file, self._is_of_model) if is_file else None
        return CheckpointCheck(verdict, "", fault=fault, alternative=str(other or ""), notes=tuple(self.notes))

    def _is_of_model(self, content: Any) -> bool:
        """Check whether a checkpoint has the weights of this model."""
        state = find_states(content, self.parts).get("model", {})
        return not architecture_difference(self.setup.eager_model.state_dict(), without_prefix(state)[0])

    def _expected(self, states: _States) -> tuple[_States, Any]:
        """Return the state after loading all that the file contains, and the next steps from there."""
        with self._preserved():
            self._load_states(states)
            return self._states(), self._continue()

    def _load(self, states: _States) -> None:
        """Call the user's ``load``, or load each state that the file contains; a loop sets train mode itself."""
        if self.load is None:
            self._load_states(states)
        else:
            self.load(str(self.file))
        ensure_train_mode(self.setup)

    def _load_states(self, states: _States) -> None:
        for part in self.parts:
            if part.name not in states:
                continue
            try:
                part.owner.load_state_dict(states[part.name])
            except Exception as error:
                self.rejections[part.name] = f"{type(error).__name__}: {error}".partition("\n")[0]

    def _part_check(
        self, part: StatePart, before: _States, saved: _States, loaded: _States, states: _States, content: Any
    ) -> PartCheck:
        """Compare the state of a part after loading with the one that was saved."""
        difference = first_difference(saved[part.name], loaded[part.name])
        is_stored = part.name in states
        status: PartStatus
        if part.name in self.rejections:
            status, difference = "rejected", self.rejections[part.name]
        elif not difference and (
            first_difference(before[part.name], saved[part.name]) or (is_stored and not self.load)
        ):
            status = "restored"
        elif content is None or (is_stored and not difference):
            status = "not loaded" if difference else "unknown"
        elif not is_stored:
            status = "missing" if difference or part.is_needed else "not needed"
        elif self.load is None:
            status = "stored" if self.save is None else "changed"
        else:
            is_untouched = not first_difference(before[part.name], loaded[part.name])
            status = "not loaded" if is_untouched else "changed"
        if status == "missing" and self.save is None:
            difference = ""  # there is no state to compare with
        return PartCheck(part.name, status, difference, part.code)

    def _random_check(
        self, used: set[str], saved: dict[str, int], before: dict[str, int], loaded: dict[str, int], content: Any
    ) -> PartCheck:
        """Compare the states of the generators that the steps have used."""
        differing = [name for name in sorted(used) if loaded[name] != saved[name]]
        if not differing:
            return PartCheck(RANDOM_STATE, "restored" if used else "not needed")
        is_untouched = all(loaded[name] == before[name] for name in differing)
        status: PartStatus = "not loaded" if has_generator_state(content) else "missing"
        status = status if is_untouched else "changed"
        self.notes.append("Without the random state, dropout and the order of the samples continue otherwise.")
        return PartCheck(RANDOM_STATE, status, ", ".join(differing))

    def _compare(self, continued: Any, resumed: Any, start: Mapping[str, Tensor]) -> NextSteps:
        """Compare the next steps."""
        (saved_losses, saved_outputs, saved_weights), (losses, outputs, weights) = continued, resumed
        origins = [start[name] for name, _ in self.setup.eager_model.named_parameters()]
        change = sum(float((a - b).double().square().sum()) for a, b in zip(saved_weights, origins, strict=True)) ** 0.5
        error = sum(float((a - b).double().square().sum()) for a, b in zip(saved_weights, weights, strict=True)) ** 0.5
        output = None
        if saved_outputs:
            largest = max(float(t.double().abs().max()) for t in saved_outputs)
            output = max(
                float((a.double() - b.double()).abs().max()) / max(largest, 1e-30)
                for a, b in zip(saved_outputs, outputs, strict=True)
            )
        return NextSteps(saved_losses, losses, output, error / max(change, 1e-30))


def _verdict(checks: list[PartCheck], steps: NextSteps | None) -> Verdict:
    """Return the verdict on the parts and the next steps."""
    faulty = [check for check in checks if check.status in FAULTY and check.name != RANDOM_STATE]
    stored = [check for check in checks if check.status in ("restored", "stored")]
    if not faulty:
        differs = steps is not None and max(steps.update, steps.output or 0.0) > _MIN_UPDATE
        return "incomplete" if differs else "complete"
    is_weights = {check.name for check in stored} <= {"model", RANDOM_STATE} and "model" not in {c.name for c in faulty}
    return "weights only" if is_weights and all(check.status == "missing" for check in faulty) else "incomplete"
