"""The Debugger class: a setup, its checkup, its watched loop and its findings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import torch
from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.options import check_option_names
from nbdebug.report import Report, ReportLog, merge_reports
from nbdebug.result import Result
from nbdebug.rule_engine import checkup as checkups
from nbdebug.rule_engine.agreed_report import agree_on_report
from nbdebug.setup import Setup
from nbdebug.setup.notebook_names import NotebookNames
from nbdebug.source.location import get_calling_line
from nbdebug.tool_methods import ToolMethods
from nbdebug.tool_methods.tool_runner import without_self
from nbdebug.views.live import print_in_script
from nbdebug.watching.watch import Watch

if TYPE_CHECKING:
    from pathlib import Path

    from nbdebug.finding import Finding
    from nbdebug.options import Budget, StopOn
    from nbdebug.rule_engine.rule_registry import Options
    from nbdebug.tools.provenance.state_history import StateHistory
    from nbdebug.tools.summary import Summary
    from nbdebug.watching.optimizer_steps import Match

_AnyResult = TypeVar("_AnyResult", bound=Result)


class Debugger(ToolMethods):
    """The debugger of one training setup.

    No tool changes the objects that it is given. Raises SetupError for objects that cannot be used.

    Args:
        model: The model.
        train_loader: The training loader, or another iterable of batches.
        val_loader: The validation loader.
        loss_fn: The loss, called with output and target.
        optimizer: The optimizer, or a list of them. A wrapper such as SAM or Lookahead stands for those inside it.
        scheduler: The learning-rate scheduler, or a list of them. One that your loop steps is found without it.
        task: "classification", "binary", "multi-label", "regression", "language-model" ...; inferred by default.
        class_names: Names of the classes, in the order of the outputs.
        feature_names: Names of the input columns.
        forward: ``forward(model, inputs)``, which calls the model.
        unpack: ``unpack(batch)``, which returns ``(inputs, target)``.
        step_fn: ``step_fn(batch)``, which returns the loss of a whole batch.
        device: The device of the batches; by default that of the model.
        extra_state: Everything else that a step changes, such as a GradScaler or averaged weights.
    """

    @check_option_names()
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
        self._take(without_self(locals()))

    def _take(self, arguments: Mapping[str, Any], read: Callable[..., Mapping[str, Any]] = dict) -> None:
        """Make the setup from what ``read`` makes of the user's arguments, and note their names in the notebook."""
        self._read = read
        self.setup = Setup.of(**read(**arguments))
        self.notebook_names = NotebookNames.of(arguments, sys._getframe(1))
        self.begin()

    def refresh(self) -> Debugger:
        """Take the objects that the names of the setup hold now, forget all results, and return this Debugger.

        Raises SetupError without names in a notebook, such as in a script or for objects made in a function.
        """
        if not (arguments := self.notebook_names.refreshed_arguments()):
            raise SetupError("the setup has no names in a notebook; expected some. Create another Debugger.")
        names = self.notebook_names.names
        self._take(arguments, self._read)
        self.notebook_names.names = {**self.notebook_names.names, **names}
        return self

    @classmethod
    def of(cls, setup: Setup) -> Debugger:
        """Create a Debugger of an existing setup."""
        self = cls.__new__(cls)
        self.setup, self.notebook_names = setup, NotebookNames()
        self.begin()
        return self

    @classmethod
    def from_lightning(
        cls, module: Any, train_dataloaders: Any = None, val_dataloaders: Any = None, datamodule: Any = None
    ) -> Debugger:
        """Create a Debugger of a LightningModule and its data, with the arguments of ``Trainer.fit``.

        One training step runs, to find the model and the loss inside it. Raises SetupError without training data.
        """
        from nbdebug.trainer_setups.lightning import read_lightning

        self = cls.__new__(cls)
        data = {"train_dataloaders": train_dataloaders, "val_dataloaders": val_dataloaders, "datamodule": datamodule}
        self._take({"module": module, **data}, read_lightning)
        return self

    @classmethod
    def from_trainer(cls, trainer: Any) -> Debugger:
        """Create a Debugger of a ``transformers.Trainer``, with an optimizer like the one that it will make.

        One training step runs, to find the loss inside it. Other trainers are read by the adapter of an installed
        package. Raises SetupError for an object without one.
        """
        from nbdebug.trainer_setups.package_adapters import read_any_trainer

        self = cls.__new__(cls)
        self._take({"trainer": trainer}, read_any_trainer)
        return self

    def begin(self) -> None:
        """Forget all results and findings."""
        self.reports = ReportLog()
        self.results: dict[str, Result] = {}
        self.watched: Watch | None = None
        self.state_history: StateHistory | None = None
        self.log: list[str] = []

    @property
    def train_loader(self) -> Any:
        """The training loader; a one-shot iterator is replaced by one that also yields the inspected batches."""
        return self.setup.train_loader

    @property
    def val_loader(self) -> Any:
        """The validation loader, replaced likewise."""
        return self.setup.val_loader

    @check_option_names()
    def checkup(
        self,
        budget: Budget = "standard",
        *,
        select: Iterable[str] | None = None,
        ignore: Iterable[str] = (),
        options: Options | None = None,
    ) -> Report:
        """Check the setup with every rule that needs no training, and report mistakes with their line and fix.

        Raises SetupError if the setup cannot be run and no finding explains why. In a distributed run, the rank that
        calls it first makes the checkup, without collective operations, and all others return its report.

        Args:
            budget: "quick" runs only rules that need one pass over one batch; "thorough" also runs the overfit test,
                and ``treatments()`` if the setup learns poorly without an explanation.
            select: Codes or prefixes of codes of the rules to run; by default all.
            ignore: Codes or prefixes of codes of the rules to skip.
            options: Options of rules by code, such as ``{"L208": {"excess": 2.0}}``.
        """
        keep = partial(self.reports.__setitem__, "checkup")
        check = partial(
            checkups.checkup,
            self._use_setup(),
            keep,
            try_fix=self._try_from_page,
            budget=budget,
            select=select,
            ignore=ignore,
            options=options,
            disproved=self.reports["watch"].disproved if "watch" in self.reports else None,
        )
        report = agree_on_report("checkup", get_calling_line(sys._getframe(1)), check)
        keep(report)
        report = report.with_stated_consequences()
        self._note("checkup", report)
        print_in_script(report.headline)
        return report

    def summary(self) -> Summary:
        """Summarize the model: shapes, parameters, optimizer group and findings of each submodule.

        Runs the model once on the first batch; a model that raises is shown as far as it ran.
        """
        from nbdebug.tools.summary import summary

        return self._keep("summary", summary(self._use_setup(), self.findings if self.reports else None), judge=False)

    @check_option_names()
    def watch(
        self,
        *,
        budget: float | None = None,
        every: int | None = None,
        match: Match = None,
        save: str | Path | None = None,
        trackers: Any = (),
        stop_on: StopOn | None = None,
        on_finding: Callable[[Finding], Any] | Literal["pause"] | None = None,
        final_tests: bool = True,
    ) -> Watch:
        """Return a block for your own training loop: every layer, live, and the findings of the rules.

        Layer statistics are sampled so that they take at most 1% of the run time, or every ``every`` steps. The loss
        and the state needed to replay the step are recorded at every step (under 1 ms). If that alone exceeds 1%,
        sampling is reduced to 0.25%. Raises SetupError for options that cannot be used.

        Args:
            budget: Share of the run time that watching may take, 0 to 1. It is enforced after some hundred steps, if
                necessary by recording only the loss of most steps.
            every: Sample the layers every so many steps, instead of within a budget.
            match: Layers to watch: a glob over paths, a compiled regular expression, a module type, or a list of these.
            save: Path of a file that grows with the run, for ``nbdebug.load``, or URL of a folder such as
                "s3://bucket/runs/42", for ``nbdebug.attach``.
            trackers: Runs of trackers that get the record and the findings: a ``SummaryWriter``, or what
                ``mlflow.start_run()``, ``wandb.init()`` or ``trackio.init()`` returns, or a list of these.
            stop_on: End the run at an "error", or also at a "warning".
            on_finding: A function called with each new finding, or "pause".
            final_tests: Test the trained model when the loop has ended, for up to two seconds a test.
        """
        options = without_self(locals())
        self.watched = Watch(self._use_setup(), self.reports, notice=self.notebook_names.notice(self), **options)
        self.watched.on_result = self._end_watched_run
        if self.state_history is not None:
            self.state_history.update(self.setup, is_watched=False)
        return self.watched

    def _end_watched_run(self, result: Result) -> None:
        if self.state_history is not None:
            self.state_history.update(self.setup, is_watched=True)
        self._note("watch", result)

    @property
    def findings(self) -> Report:
        """All findings so far, by rank and without repetition; those about the loss at its line in a watched loop."""
        line = self.watched.loss_line if self.watched else None
        notice = self.notebook_names.notice(self) if self.reports else None
        report = replace(merge_reports(self.reports.values()), title="Findings", subject=str(notice or ""))
        report = report.with_trials(self._try_from_page)
        report = report.with_loss_location(line.where()) if line else report
        return report.with_stated_consequences()

    def _repr_html_(self) -> str:
        """Return the model as a tree: shapes, modes, optimizer groups, gradients, memory and findings."""
        from nbdebug.tools.summary import summary
        from nbdebug.tools.summary.model_tree import model_tree

        return model_tree(summary(self.setup, self.findings if self.reports else None, reads_values=False))

    def __repr__(self) -> str:
        optimizers = ", ".join(type(optimizer).__name__ for optimizer in self.setup.optimizers) or "no optimizer"
        return f"<nbdebug.Debugger of {type(self.setup.eager_model).__name__}, {optimizers}: {self.findings.summary}>"
