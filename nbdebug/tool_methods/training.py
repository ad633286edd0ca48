"""Tools that train copies of the setup, as methods of a Debugger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nbdebug.options import check_option_names
from nbdebug.tool_methods.tool_runner import ToolRunner, without_self

if TYPE_CHECKING:
    from nbdebug.options import Groups, Mode
    from nbdebug.tools.batch_size import BatchSize
    from nbdebug.tools.compare_optimizers import OptimizerComparison
    from nbdebug.tools.lr_range import LrRange
    from nbdebug.tools.overfit import Overfit
    from nbdebug.tools.treatments import Treatments


class TrainingMethods(ToolRunner):
    """Each tool that trains copies of the model, run on the setup."""

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
