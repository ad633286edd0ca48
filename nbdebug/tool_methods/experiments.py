"""Tools that test one hypothesis on copies of the setup, as methods of a Debugger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbdebug.finding import Finding
from nbdebug.options import check_option_names
from nbdebug.report import Report
from nbdebug.setup import Setup
from nbdebug.tool_methods.tool_runner import ToolRunner, without_self

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

    from nbdebug.options import Budget
    from nbdebug.parallel import Backend
    from nbdebug.tools.bisect import Bisection
    from nbdebug.tools.ladder import Ladder
    from nbdebug.tools.try_fix import Ablation, TriedFix
    from nbdebug.tools.tune import Tuning
    from nbdebug.tools.tune.study import Sampler


class ExperimentMethods(ToolRunner):
    """Each tool that changes copies of the setup, to see what the change does."""

    @check_option_names()
    def try_fix(
        self,
        change: str | Finding | Callable[[Any], Any],
        *,
        steps: int = 150,
        seeds: int = 5,
        score: Callable[[Any], float] | None = None,
        checkup: Budget | None = "standard",
        build: Callable[[], Any] | None = None,
        workers: int | None = None,
        backend: Backend | None = None,
    ) -> TriedFix:
        """Train copies with and without one change, with the same batches and matched seeds, and compare them.

        Only ``apply()`` of the result changes the optimizer, and adds to ``log``. Raises SetupError for several
        changes, for one that does not alter the setup, and for a setup that cannot be run.

        Args:
            change: A finding or its code, a built-in change such as "learning rate=0.01", or ``change(copy)``, which
                changes the copy or returns another Debugger.
            steps: Training steps of each run.
            seeds: Number of matched pairs of runs, 2 to 16.
            score: ``score(copy)``, which returns a number of which a higher one is better; by default the accuracy, the
                explained variance, or the decrease of the loss.
            checkup: Budget of the checkups that list the findings that vanish and appear; None for no checkup.
            build: ``build()``, which creates the setup from its start and returns a Debugger, or ``debugger, train``,
                where ``train()`` is the loop; for a finding whose fix changes lines of it. By default the cells of the
                notebook, or the script, up to the watched loop.
            workers: Number of processes that train copies at the same time; by default copies are trained in this one.
            backend: "process", or "ray" for the cluster of Ray that is connected, or else Ray on this machine; alone,
                it starts a worker for each processor.
        """
        options = without_self(locals())
        findings = tuple(self.findings) if isinstance(change, str) else ()
        return self._try_fix(self._use_setup(), findings=findings, **options)

    def _try_from_page(self, finding: Finding) -> TriedFix:
        """Try the fix of a finding after a click on its page, which displays the outcome."""
        return self._try_fix(self.setup, finding)

    def _try_fix(self, setup: Setup, change: Any, **options: Any) -> TriedFix:
        from nbdebug.tools.try_fix import try_fix
        from nbdebug.tools.try_fix.own_program import find_own_program

        line = self.watched.line if self.watched else None
        options |= {"log": self.log.append, "find_program": lambda: find_own_program(self, line)}
        return self._keep("try_fix", try_fix(setup, change, **options), judge=False)

    @check_option_names()
    def ablation(
        self,
        changes: Sequence[str | Finding | Callable[[Any], Any]],
        *,
        steps: int = 150,
        seeds: int = 5,
        score: Callable[[Any], float] | None = None,
        workers: int | None = None,
        backend: Backend | None = None,
    ) -> Ablation:
        """Train copies with all changes, without any, and without each of them: which ones matter?

        Raises SetupError for fewer than two changes, for one that does not alter the setup, and for a setup that cannot
        be run.

        Args:
            changes: 2 to 12 changes as for ``try_fix``, in the order in which they are applied.
            steps: Training steps of each run.
            seeds: Number of matched runs of each arm, 2 to 16.
            score: ``score(copy)``, which returns a number of which a higher one is better; by default the accuracy, the
                explained variance, or the decrease of the loss.
            workers: Number of processes that train copies at the same time; by default copies are trained in this one.
            backend: "process", or "ray" for the cluster of Ray that is connected, or else Ray on this machine; alone,
                it starts a worker for each processor.
        """
        options = without_self(locals())
        from nbdebug.tools.try_fix import ablation

        result = ablation(self._use_setup(), findings=tuple(self.findings), **options)
        return self._keep("ablation", result, judge=False)

    @check_option_names()
    def bisect(
        self,
        changes: Sequence[str | Finding | Callable[[Any], Any]] | None = None,
        *,
        samples: bool = False,
        checkpoints: Sequence[Any] | None = None,
        reference: Any = None,
        configs: Sequence[Mapping[str, Any]] | None = None,
        configure: Callable[[Any, dict[str, Any]], Any] | None = None,
        fails: Callable[[Any], bool] | None = None,
        score: Callable[[Any], float] | None = None,
        steps: int = 150,
        runs: int = 40,
    ) -> Bisection:
        """Find what makes training fail: a change, a key, samples, a checkpoint, or what differs from a good one.

        If the runs do not suffice, the result names the candidates that are left. Raises SetupError unless exactly one
        of ``changes``, ``samples``, ``checkpoints``, ``reference`` and ``configs`` is passed, and for a setup that
        cannot be run.

        Args:
            changes: Changes as for ``try_fix``, in their order; with all of them the score is lower than without any.
            samples: True to look for the fewest training samples with which training fails.
            checkpoints: Paths of state dictionaries, or dictionaries, in their order; the last one fails.
            reference: A known-good model, its state dictionary or the path of one, whose modules are swapped with
                yours; or a known-good dataset, whose samples are.
            configs: A good configuration and a bad one, as dictionaries; each key that differs is a candidate.
            configure: ``configure(copy, config)``, which sets a copy up by a configuration, or returns another setup.
            fails: ``fails(copy)``, which returns whether a copy fails, for samples after training on them; by default
                if the loss or a weight is not finite, or, with a reference, if the loss is nearer to yours.
            score: ``score(copy)``, a number of which a higher one is better, for changes and keys; by default the
                accuracy, the explained variance, or the decrease of the loss.
            steps: Training steps of each run; with ``samples``, the most that a run may take for one epoch.
            runs: Largest number of runs.
        """
        options = without_self(locals())
        from nbdebug.tools.bisect import bisect

        findings = tuple(self.findings) if changes is not None else ()
        return self._keep("bisect", bisect(self._use_setup(), findings=findings, **options), judge=False)

    @check_option_names()
    def ladder(
        self,
        *,
        models: Mapping[str, nn.Module] | None = None,
        steps: int = 300,
        seeds: int = 3,
        initialize: bool = True,
        workers: int | None = None,
        backend: Backend | None = None,
    ) -> Ladder:
        """Compare learners of growing capacity with your model, and your model on parts of the data.

        A constant, a linear model, a kernel ridge regression, fully connected networks of growing width and depth,
        your own ``models``, then copies of your model on 25, 50 and 100% of the samples: where does capacity stop
        helping, and would more data help? A last copy learns the labels of a randomly initialized one. Raises
        SetupError without a validation loader, and for a setup that cannot be run.

        Args:
            models: Models to compare, by name, such as yours at other widths and depths.
            steps: Training steps of each network and each copy.
            seeds: Number of matched runs of each, 2 to 16.
            initialize: Start from new weights; False starts from the present ones, as for fine-tuning.
            workers: Number of processes that train copies at the same time; by default copies are trained in this one.
            backend: "process", or "ray" for the cluster of Ray that is connected, or else Ray on this machine; alone,
                it starts a worker for each processor.
        """
        options = without_self(locals())
        from nbdebug.tools.ladder import ladder

        return self._keep("ladder", ladder(self._use_setup(), **options), judge=False)

    @check_option_names()
    def tune(
        self,
        space: Mapping[Any, Sequence[Any]],
        budget: int = 30,
        *,
        sampler: Sampler = "tpe",
        steps: int = 150,
        seeds: int = 5,
        score: Callable[[Any], float] | None = None,
        path: str | Path | None = None,
        workers: int | None = None,
        backend: Backend | None = None,
    ) -> Tuning:
        """Search settings by short trials on copies, and confirm the best ones by longer matched runs.

        A checkup precedes the search. Raises SetupError if it finds an error, without Optuna, for a space that cannot
        be searched, and for a setup that cannot be run.

        Args:
            space: Values by setting: the name of a built-in change of ``try_fix``, or a function ``set(copy, value)``,
                with a list of choices or a tuple of the ends of a range. They are applied in their order.
            budget: Number of trials, including those of an earlier search in the same file.
            sampler: "tpe", which learns from earlier trials, "random", or "grid" over lists.
            steps: Training steps of each trial; the confirmation takes four times as many.
            seeds: Number of matched pairs of runs of the confirmation, 2 to 16.
            score: ``score(copy)``, which returns a number of which a higher one is better; by default the accuracy, the
                explained variance, or the decrease of the loss.
            path: SQLite file of the trials, from which a search that was ended goes on.
            workers: Number of processes that train copies at the same time; by default copies are trained in this one.
            backend: "process", or "ray" for the cluster of Ray that is connected, or else Ray on this machine; alone,
                it starts a worker for each processor.
        """
        options = without_self(locals())
        from nbdebug.tools.tune import tune

        def keep_report(report: Report) -> None:
            self.reports["checkup"] = report

        return self._keep("tune", tune(self._use_setup(), on_report=keep_report, **options), judge=False)
