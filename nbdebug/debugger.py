"""Debugger: a training set-up, the tools that are put to it, and all that they have said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from nbdebug.report import Report, merged
from nbdebug.result import Result
from nbdebug.setup import Setup
from nbdebug.setup.task import given
from nbdebug.setup.training import as_optimizers
from nbdebug.tools import checkup as checkups
from nbdebug.watching import Watch

if TYPE_CHECKING:
    from pathlib import Path

    from nbdebug.attribution.scores import Target
    from nbdebug.finding import Finding
    from nbdebug.tools.batch_size import BatchSize
    from nbdebug.tools.checkup import Budget
    from nbdebug.tools.contest import Contest
    from nbdebug.tools.errors import Errors
    from nbdebug.tools.explain import Explanation
    from nbdebug.tools.importance import Importance
    from nbdebug.tools.lr_range import LrRange
    from nbdebug.tools.lr_range.dial import Groups
    from nbdebug.tools.lr_range.result import Mode
    from nbdebug.tools.overfit import Overfit
    from nbdebug.tools.rounds import Options
    from nbdebug.tools.summary import Summary
    from nbdebug.watching.controls import StopOn
    from nbdebug.watching.places import Match


class Debugger:
    """The debugger of one training set-up.

    Give it the objects that you train with; what is left out is guessed, shown, and can be given. ``optimizer`` may be
    a list. ``forward(model, inputs)`` calls the model, ``unpack(batch)`` gives ``(inputs, target)``, ``step_fn(batch)``
    gives the loss of a whole batch. ``extra_state`` is all else that a step changes: a GradScaler, averaged weights.
    Nothing that is given is changed by any tool. Raises SetupError for objects that cannot be used.
    """

    def __init__(
        self,
        model: nn.Module,
        train_loader: Any,
        val_loader: Any = None,
        *,
        loss_fn: Callable[..., Any] | None = None,
        optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
        scheduler: Any = None,
        task: str | None = None,
        class_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        forward: Callable[..., Any] | None = None,
        unpack: Callable[[Any], Any] | None = None,
        step_fn: Callable[[Any], Any] | None = None,
        device: torch.device | str | None = None,
        extra_state: Iterable[Any] = (),
    ) -> None:
        self.setup = Setup(
            model,
            train_loader,
            val_loader,
            loss_fn=loss_fn,
            optimizers=as_optimizers(optimizer),
            scheduler=scheduler,
            task=given(task) if task is not None else None,
            class_names=list(class_names) if class_names is not None else None,
            feature_names=list(feature_names) if feature_names is not None else None,
            forward=forward,
            unpack=unpack,
            step_fn=step_fn,
            device=torch.device(device) if device is not None else None,
            extra_state=tuple(extra_state),
        )
        self.begin()

    @classmethod
    def of(cls, setup: Setup) -> Debugger:
        """The debugger of a set-up that is there already."""
        self = cls.__new__(cls)
        self.setup = setup
        self.begin()
        return self

    def begin(self) -> None:
        """Forgets what has been said."""
        self.reports: dict[str, Report] = {}
        self.results: dict[str, Result] = {}
        self.watched: Watch | None = None
        self.log: list[str] = []

    @property
    def train_loader(self) -> Any:
        """The training loader: yours, or for a one-shot iterator one that gives out what was looked at first."""
        return self.setup.train_loader

    @property
    def val_loader(self) -> Any:
        """The validation loader, likewise."""
        return self.setup.val_loader

    def checkup(
        self,
        budget: Budget = "standard",
        *,
        select: Iterable[str] | None = None,
        ignore: Iterable[str] = (),
        options: Options | None = None,
    ) -> Report:
        """What is wrong, where, how that is known and what to do, by every rule that needs no training.

        Raises SetupError when the set-up cannot be run and no finding says why; ``findings`` has the rest.
        """
        keep = partial(self.reports.__setitem__, "checkup")
        return checkups.checkup(self.setup, keep, budget=budget, select=select, ignore=ignore, options=options)

    def overfit(self, *, examples: int = 16, steps: int = 300, seed: int = 0) -> Overfit:
        """Whether the model can memorize 2 to 64 examples in at most 300 steps, and if not, what was ruled out.

        Raises SetupError for a set-up that cannot be run.
        """
        from nbdebug.tools.overfit import overfit

        result = overfit(self.setup, examples=examples, steps=steps, seed=seed)
        self.results["overfit"] = result
        self.reports["overfit"] = checkups.judged(self.setup, overfit=result)
        return result

    def lr_range(
        self,
        start: float = 1e-7,
        end: float = 10.0,
        steps: int = 100,
        *,
        seeds: int = 3,
        mode: Mode = "exp",
        val: bool = False,
        optimizer: Any = None,
        groups: Groups = "scale",
        accumulate: int = 1,
        max_norm: float | None = None,
        confirm: int = 0,
    ) -> LrRange:
        """What each learning rate from ``start`` to ``end`` does to the loss, which one to take, and how sure that is.

        ``val`` takes the loss of a validation batch; ``optimizer`` (one, a list, or a class) stands in for the
        set-up's, and Adam where it has none; groups keep their ratios, or have the ``"same"`` rate; a step learns
        ``accumulate`` batches, and clips the gradient at ``max_norm``; ``confirm`` trains so many steps, best 200, at
        the rate and at lower ones, and keeps the best. Nothing is changed but by ``apply()`` of the result, which
        ``log`` then tells. Raises SetupError for what cannot be run.
        """
        from nbdebug.tools.lr_range import Plan, lr_range

        plan = Plan("lr", start, end, steps, seeds, mode, val, groups, accumulate, max_norm, confirm)
        self.results["lr_range"] = result = lr_range(self.setup, plan, optimizer, self.log.append)
        self.reports["lr_range"] = checkups.judged(self.setup, lr_range=result)
        return result

    def momentum_range(self, start: float = 0.5, end: float = 0.99, steps: int = 100, *, seeds: int = 3) -> LrRange:
        """What each momentum does to the loss at the present rate, against your own; of Adam's kind the first beta."""
        from nbdebug.tools.lr_range import Plan, lr_range

        plan = Plan("momentum", start, end, steps, seeds, "linear", groups="same")
        self.results["momentum_range"] = result = lr_range(self.setup, plan, log=self.log.append)
        return result

    def weight_decay_range(self, start: float = 1e-6, end: float = 1.0, steps: int = 100, *, seeds: int = 3) -> LrRange:
        """What each weight decay does to the loss at the present rate, against your own; groups without stay so."""
        from nbdebug.tools.lr_range import Plan, lr_range

        result = lr_range(self.setup, Plan("weight_decay", start, end, steps, seeds), log=self.log.append)
        self.results["weight_decay_range"] = result
        return result

    def summary(self) -> Summary:
        """What each submodule is given and gives, holds and learns, who trains it, and the findings that name it.

        Runs the model once on the first batch; one that raises is shown as far as it came.
        """
        from nbdebug.tools.summary import summary

        result = summary(self.setup, self.findings if self.reports else None)
        self.results["summary"] = result
        return result

    def compare_optimizers(
        self, optimizers: Any = None, schedules: Any = None, *, steps: int = 200, seeds: int = 3, **asked: Any
    ) -> Contest:
        """Which optimizers and schedules converge, which are stable, and which are better beyond chance.

        ``optimizers`` are names ("SGD", "SGD+momentum", "AdamW", "yours" ...), classes, what makes one of parameters,
        or instances for their settings; ``schedules`` are names ("constant", "one-cycle", "cosine", "step", "linear",
        "all") or functions of optimizer and number of steps. Either may be a dict that names them. Every optimizer runs
        under every schedule, from your weights, on the same batches, for ``steps`` steps under each of ``seeds``; names
        and classes at a rate that a short range test finds, unless ``rates`` has one by name. ``accumulate`` and
        ``max_norm`` are as in ``lr_range``. Raises SetupError for what cannot take part or be run.
        """
        from nbdebug.tools.contest import compare_optimizers

        result = compare_optimizers(self.setup, optimizers, schedules, steps=steps, seeds=seeds, **asked)
        self.results["compare_optimizers"] = result
        return result

    def batch_size(
        self, *, start: int = 8, most: int | None = None, seconds: float = 30.0, noise: bool = True
    ) -> BatchSize:
        """What a training step takes at each batch size: memory and samples a second, and which size is suggested.

        Sizes double from ``start`` until memory, data, ``most`` or about ``seconds`` end; ``noise`` says whether the
        gradient-noise scale is measured too. Raises SetupError for a set-up that cannot be run.
        """
        from nbdebug.tools.batch_size import batch_size

        result = batch_size(self.setup, start=start, most=most, seconds=seconds, noise=noise)
        self.results["batch_size"] = result
        return result

    def errors(self, loader: Any = None, **options: Any) -> Errors:
        """What the model gets wrong on a loader, by default the validation loader, and the samples behind each number.

        Takes the options of ``nbdebug.tools.errors.errors``. Raises SetupError for what cannot be run.
        """
        from nbdebug.tools.errors import errors

        result = errors(self.setup, loader, **options)
        self.results["errors"] = result
        self.reports["errors"] = checkups.judged(self.setup, errors=result)
        return result

    def explain(self, sample: Any, method: str = "auto", target: Target = "predicted", **options: Any) -> Explanation:
        """Why the model says what it says of a sample, how exact that is, and whether to believe it.

        ``sample`` is a place in the data set of ``loader=`` (by default the validation loader, where there is one),
        several places, or a sample itself. Takes the options of ``nbdebug.tools.explain.explain``. Raises SetupError
        for what cannot be explained.
        """
        from nbdebug.tools.explain import explain

        result = explain(self.setup, sample, method, target, **options)
        self.results["explain"] = result
        return result

    def importance(self, loader: Any = None, **options: Any) -> Importance:
        """What the whole model goes by: mean attributions and what each feature is worth, with intervals.

        Takes the options of ``nbdebug.tools.importance.importance``. ``compare(before)`` of the result tells what has
        changed. Raises SetupError for what cannot be used.
        """
        from nbdebug.tools.importance import importance

        result = importance(self.setup, loader, **options)
        self.results["importance"] = result
        self.reports["importance"] = checkups.judged(self.setup, importance=result)
        return result

    def watch(
        self,
        *,
        budget: float | None = None,
        every: int | None = None,
        match: Match = None,
        save: str | Path | None = None,
        stop_on: StopOn | None = None,
        on_finding: Callable[[Finding], Any] | Literal["pause"] | None = None,
    ) -> Watch:
        """A block to put around your own training loop: every layer, live, and what the rules say of the run.

        Looks are made as often as one percent of the time allows, or at each ``every`` steps. What is kept of every
        step costs a fraction of a millisecond: its loss, and what it takes to run it again. Where that alone is more,
        a quarter of a percent is left for looks. A ``budget``, a share of the time, is kept after some hundred steps,
        if need be by keeping only the loss of most. ``match`` picks layers by glob, regular expression or kind;
        ``save`` is a file that grows with the run, for ``nbdebug.load``. A finding is only told of, unless ``stop_on``
        is "error" or "warning", or ``on_finding`` is a function that is given it, or "pause". Raises SetupError.
        """
        keep = partial(self.reports.__setitem__, "watch")
        options: dict[str, Any] = {"match": match, "save": save, "stop_on": stop_on, "on_finding": on_finding}
        self.watched = Watch(self.setup, keep, budget=budget, every=every, **options)
        return self.watched

    @property
    def findings(self) -> Report:
        """All that has been said so far, by rank, each thing once; of the loss at the line of a watched loop."""
        line = self.watched.loss_line if self.watched else None
        found = replace(merged(self.reports.values()), title="Findings")
        return found.at_loss(line.where()) if line else found

    def __repr__(self) -> str:
        """What is debugged, and how much was found."""
        optimizers = ", ".join(type(one).__name__ for one in self.setup.optimizers) or "no optimizer"
        return f"<nbdebug.Debugger of {type(self.setup.eager).__name__}, {optimizers}: {self.findings.summary}>"
