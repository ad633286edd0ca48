"""The tools as methods of a Debugger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from torch import nn

from nbdebug.options import check_option_names
from nbdebug.report import ReportLog
from nbdebug.result import Result
from nbdebug.rule_engine import checkup as checkups
from nbdebug.setup import Setup
from nbdebug.setup.notebook_names import NotebookNames
from nbdebug.watching.watch import Watch

if TYPE_CHECKING:
    from pathlib import Path

    from nbdebug.inference.outputs import Target
    from nbdebug.options import Decode, Groups, Method, Metric, Mode, Package, Space
    from nbdebug.tools.batch_size import BatchSize
    from nbdebug.tools.compare_optimizers import OptimizerComparison
    from nbdebug.tools.data import DataProfile
    from nbdebug.tools.errors import Errors
    from nbdebug.tools.explain import Explanation
    from nbdebug.tools.importance import Importance
    from nbdebug.tools.lr_range import LrRange
    from nbdebug.tools.overfit import Overfit
    from nbdebug.tools.treatments import Treatments

_AnyResult = TypeVar("_AnyResult", bound=Result)


class ToolMethods:
    """Each tool, run on the setup; its result is stored, and the rules judge it."""

    setup: Setup
    reports: ReportLog
    results: dict[str, Result]
    watched: Watch | None
    log: list[str]
    notebook_names: NotebookNames

    def _use_setup(self) -> Setup:
        """Return the setup for a tool, after saying so if its names in the notebook hold other objects now."""
        if (notice := self.notebook_names.notice(self)) is not None:
            print(notice)
        return self.setup

    def _keep(self, name: str, result: _AnyResult, *, judge: bool = True) -> _AnyResult:
        self.results[name] = result
        if judge:
            self.reports[name] = checkups.judge_result(self.setup, **{name: result})
        return result

    @check_option_names()
    def overfit(self, *, examples: int = 16, steps: int = 300, seed: int = 0) -> Overfit:
        """Check whether a copy of the model can memorize a tiny batch, and if not, what was ruled out.

        Raises SetupError for a setup that cannot be run.

        Args:
            examples: Number of examples, 2 to 64.
            steps: Maximum number of training steps in total, up to 300.
            seed: Seed of the random numbers.
        """
        from nbdebug.tools.overfit import overfit

        return self._keep("overfit", overfit(self._use_setup(), examples=examples, steps=steps, seed=seed))

    @check_option_names()
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
        """Sweep the learning rate, and recommend one with its interval.

        The constant rate and the peak of one-cycle are recommended apart; that of your scheduler leads.
        Only ``apply()`` of the result changes the optimizer, and adds to ``log``. Raises SetupError if a step fails.

        Args:
            start: Lowest learning rate.
            end: Highest learning rate.
            steps: Training steps of each sweep, at least 10.
            seeds: Number of sweeps, each with another batch order.
            mode: Spacing of the rates, "exp" or "linear".
            val: Use the loss of a validation batch instead of the training loss.
            optimizer: An optimizer, a list, or a class or function of the parameters; by default yours, else Adam.
            groups: "scale" keeps the ratios of the parameter groups, "same" gives all groups the same rate.
            accumulate: Batches per step.
            max_norm: Norm at which the gradient is clipped; None for no clipping.
            confirm: Training steps, such as 200, at rates around the recommended one, to keep the best; 0 for none.
        """
        from nbdebug.tools.lr_range import SweepPlan, lr_range

        plan = SweepPlan("lr", start, end, steps, seeds, mode, val, groups, accumulate, max_norm, confirm)
        return self._keep("lr_range", lr_range(self._use_setup(), plan, optimizer, self.log.append))

    @check_option_names()
    def momentum_range(self, start: float = 0.5, end: float = 0.99, steps: int = 100, *, seeds: int = 3) -> LrRange:
        """Sweep the momentum (or Adam's first beta) at the present learning rate, compared to the present value.

        Args:
            start: Lowest momentum.
            end: Highest momentum, below 1.
            steps: Training steps of each sweep, at least 10.
            seeds: Number of sweeps, each with another batch order.
        """
        from nbdebug.tools.lr_range import SweepPlan, lr_range

        plan = SweepPlan("momentum", start, end, steps, seeds, "linear", groups="same")
        return self._keep("momentum_range", lr_range(self._use_setup(), plan, log=self.log.append), judge=False)

    @check_option_names()
    def weight_decay_range(self, start: float = 1e-6, end: float = 1.0, steps: int = 100, *, seeds: int = 3) -> LrRange:
        """Sweep the weight decay at the present learning rate, compared to the present value; groups without stay so.

        Args:
            start: Lowest weight decay.
            end: Highest weight decay.
            steps: Training steps of each sweep, at least 10.
            seeds: Number of sweeps, each with another batch order.
        """
        from nbdebug.tools.lr_range import SweepPlan, lr_range

        plan = SweepPlan("weight_decay", start, end, steps, seeds)
        return self._keep("weight_decay_range", lr_range(self._use_setup(), plan, log=self.log.append), judge=False)

    @check_option_names()
    def compare_optimizers(
        self,
        optimizers: Any = None,
        schedules: Any = None,
        *,
        steps: int = 200,
        seeds: int = 3,
        rates: Mapping[str, float] | None = None,
        accumulate: int = 1,
        max_norm: float | None = None,
    ) -> OptimizerComparison:
        """Compare optimizers and schedules: which converge, which are stable, and which are significantly better.

        Every optimizer runs with every schedule, from your weights and on the same batches. Raises SetupError for
        candidates that cannot be run.

        Args:
            optimizers: Names ("SGD", "SGD+momentum", "AdamW", "yours" ...), classes, functions that make one of the
                parameters, or instances, whose settings are used; a dict names them.
            schedules: Names ("constant", "one-cycle", "cosine", "step", "linear", "all") or functions of the optimizer
                and the number of steps; a dict names them.
            steps: Training steps of each run.
            seeds: Number of runs of each candidate, each with another batch order.
            rates: Learning rates by name; by default a short range test finds those of names and classes.
            accumulate: Batches per step.
            max_norm: Norm at which the gradient is clipped; None for no clipping.
        """
        options = without_self(locals())
        from nbdebug.tools.compare_optimizers import compare_optimizers

        return self._keep("compare_optimizers", compare_optimizers(self._use_setup(), **options), judge=False)

    @check_option_names()
    def treatments(self, *, steps: int = 150, seeds: int = 3) -> Treatments:
        """Find what cures poor learning, by trying changes of data, loss, optimizer and model on copies.

        Args:
            steps: Training steps of each treatment; the setup without treatment gets four times as many.
            seeds: Number of runs, each with another batch order.
        """
        from nbdebug.tools.treatments import treatments

        trained_steps = self.watched.result.steps if self.watched and self.watched.result else 0
        return self._keep(
            "treatments", treatments(self._use_setup(), steps=steps, seeds=seeds, trained_steps=trained_steps)
        )

    @check_option_names()
    def data(
        self, *, samples: int | None = 2000, seconds: float = 20.0, seed: int = 0, reference: Any = None
    ) -> DataProfile:
        """Profile what enters the model: structure, statistics, drift, duplicates and suspect labels of both splits.

        The order of the loaders is untouched. Raises SetupError for a loader that is empty or cannot be read.

        Args:
            samples: Number of samples of each split, drawn at random if they can be read by index; None for all.
            seconds: Time limit of reading, in seconds; with ``samples=None``, only for loaders of unknown length.
            seed: Seed of the draw.
            reference: A loader of other data, with which the training split is compared too.
        """
        options = without_self(locals())
        from nbdebug.tools.data import data

        return self._keep("data", data(self._use_setup(), **options), judge=False)

    @check_option_names()
    def batch_size(
        self, *, start: int = 8, most: int | None = None, seconds: float = 30.0, noise: bool = True
    ) -> BatchSize:
        """Measure memory and samples per second of a training step at growing batch sizes, and suggest a size.

        Sizes double until memory, data, ``most`` or the time end. Raises SetupError for a setup that cannot be run.

        Args:
            start: First batch size, in samples.
            most: Largest batch size, in samples; None for no limit.
            seconds: Approximate time limit, in seconds.
            noise: Measure the gradient noise scale, too.
        """
        options = without_self(locals())
        from nbdebug.tools.batch_size import batch_size

        return self._keep("batch_size", batch_size(self._use_setup(), **options), judge=False)

    @check_option_names()
    def errors(
        self,
        loader: Any = None,
        *,
        index: Any = None,
        metadata: Any = None,
        properties: bool = True,
        embed: str | nn.Module | None = None,
        render: Callable[[Any], Any] | None = None,
        decode: Decode = None,
        tags: str | Path | None = None,
    ) -> Errors:
        """Browse the errors of the model on a loader, and the samples behind each number.

        Raises SetupError for a setup that cannot be run.

        Args:
            loader: "val", "train" or a loader; by default the validation loader, if there is one.
            index: Dataset indices of the samples, for a loader that does not provide them.
            metadata: A DataFrame or a mapping of columns, with one row per sample of the dataset.
            properties: Measure brightness, length and similar properties of the inputs.
            embed: A layer, or its path, whose output is kept as an embedding.
            render: ``render(sample)``, which displays a sample.
            decode: A function or a sequence that turns token ids into text.
            tags: Path of a CSV file that stores tags and notes.
        """
        options = without_self(locals())
        from nbdebug.tools.errors import errors

        return self._keep("errors", errors(self._use_setup(), **options))

    @check_option_names()
    def explain(
        self,
        sample: Any,
        method: Method = "auto",
        target: Target = "predicted",
        *,
        background: Any = "data",
        loader: Any = None,
        space: Space = "logits",
        score: Callable[[Any], Any] | None = None,
        decode: Any = None,
        completeness: float | None = None,
        error: float | None = None,
        standard_error: float | None = None,
        nodes: int | None = None,
        most: int | None = None,
        layer: str | nn.Module | None = None,
        size: int | None = None,
        stride: int | None = None,
        samples: int | None = None,
        passes: int | None = None,
        permutations: int | None = None,
        evaluations: int | None = None,
        package: Package | None = None,
    ) -> Explanation:
        """Explain a prediction: the contribution of each input value, with its error and a reliability check.

        An option of one method is refused by others; None is its default. Raises SetupError for unusable samples.

        Args:
            sample: Index of a sample in the dataset of ``loader``, several indices, or a sample itself.
            method: Attribution method; "auto" chooses one for the model.
            target: "predicted", "true", or the index or name of a class.
            background: Samples to compare with, or "data" (training samples), "mean", "zeros" or "shuffled".
            loader: "val", "train" or a loader; by default the validation loader, if there is one.
            space: Explain "logits" or the "probability".
            score: ``score(output)``, which returns samples × classes of an output of another form.
            decode: A function, a tokenizer, a list or a dictionary that turns token ids into text.
            completeness: Largest relative error of the sum, 0.01 by default (expected_gradients, integrated_gradients).
            error: Largest relative error, 0.03 (expected_gradients, integrated_gradients) or 0.05 (shapley) by default.
            standard_error: Largest relative standard error of a sampled background, 0.05 by default
                (expected_gradients, integrated_gradients).
            nodes: Initial quadrature nodes per line, 6 by default (expected_gradients, integrated_gradients).
            most: Largest number of nodes per line, 128 or more by default (expected_gradients, integrated_gradients).
            layer: The layer or its path, by default the last suitable one (gradcam).
            size: Side of a patch in pixels or steps, by default 1/8 of the longest side (occlusion, lime).
            stride: Distance of patches in pixels or steps, by default half of ``size`` (occlusion).
            samples: Number of perturbations, 1000 by default for lime (lime, kernel).
            passes: Initial passes over the background, 2 by default (shapley).
            permutations: Number of feature permutations, 10 by default (permutation).
            evaluations: Number of model evaluations, 500 by default (partition).
            package: "captum" or "shap"; by default the first that is installed (deepshap).
        """
        options = without_self(locals())
        from nbdebug.tools.explain import explain

        return self._keep("explain", explain(self._use_setup(), **options), judge=False)

    @check_option_names()
    def importance(
        self,
        loader: Any = None,
        *,
        samples: int | None = None,
        background: Any = None,
        target: Target = "predicted",
        method: Method = "auto",
        metric: Metric = "auto",
        repeats: int = 5,
        decode: Any = None,
        score: Callable[[Any], Any] | None = None,
    ) -> Importance:
        """Measure feature importance: mean attributions and permutation importance, with 95 % intervals.

        ``compare(before)`` of the result shows what has changed. Raises SetupError for options that cannot be used.

        Args:
            loader: "val", "train" or a loader; by default the validation loader, if there is one.
            samples: Number of samples, by default 500, or fewer of large ones.
            background: Samples to compare with; by default 100 training samples.
            target: "predicted", "true" or a class.
            method: Attribution method; "auto" chooses one for the model.
            metric: "accuracy", "R²" or "loss" (negated); "auto" chooses one by the task.
            repeats: Number of permutations of each feature; 0 for none.
            decode: A function, a tokenizer, a list or a dictionary that turns token ids into text.
            score: ``score(output)``, which returns samples × classes of an output of another form.
        """
        options = without_self(locals())
        from nbdebug.tools.importance import importance

        return self._keep("importance", importance(self._use_setup(), **options))


def without_self(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a method without its object."""
    return {name: value for name, value in arguments.items() if name != "self"}
