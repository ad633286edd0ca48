"""Tests of the trained model when a watched loop has ended: a tiny batch to memorize, and predictions of samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.loop_monitor.summary import LoopSummary
from nbdebug.loss_curves.run_summary import RunSummary, get_run_summary
from nbdebug.measurements import Measurements
from nbdebug.predictions.collection import collect_predictions
from nbdebug.preserve import Preserve
from nbdebug.records import Record
from nbdebug.report import Report
from nbdebug.rule_engine.checkup import judge_result
from nbdebug.setup import Setup
from nbdebug.setup.loaders import get_visited_indices, is_map_style
from nbdebug.setup.losses import named_logits
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.tools.errors import Errors
from nbdebug.tools.overfit import Overfit, overfit_within

_MAX_ROWS, _MIN_STEPS = 2000, 30
_MIN_FULL_STEPS = 5  # steps of a whole batch that must fit into the time; those of a tiny batch are shorter
# Half of the loss of a constant prediction: a model that gets there has shown that it can learn, and the tiny batch
# has nothing to add. The rule on underfitting uses the same half.
_LEARNED_SHARE = 0.5
_SLICE_SEARCH, _BASELINES = "E704", "E709"  # these take longer than all other rules on predictions together
_QUALITY_RULES = frozenset({"E703"})  # what a better model would have, not a mistake in this one


@dataclass
class FinalTests:
    """The tests after one run of a setup; ``spent_seconds`` is what they took.

    Each takes up to ``seconds`` of the processor time of this thread, so that the load of the machine does not change
    the verdict.
    ``optimizer_count`` optimizers stepped, and ``seconds_per_step`` is the mean duration of a step of the loop.
    """

    setup: Setup
    record: Record
    loop: LoopSummary
    optimizer_count: int
    seconds_per_step: float
    seconds: float
    spent_seconds: float = 0.0

    def run(self) -> dict[str, Report]:
        """Return the report of each test by the tool that repeats it; the user's objects stay as they are."""
        started = time.perf_counter()
        reports = {}
        for name, test in (("overfit", self.memorize_tiny_batch), ("errors", self.predict_samples)):
            value = self.attempt(test)
            reports[name] = self.judge(name, value)
            self.spent_seconds = time.perf_counter() - started
        return reports

    def attempt(self, test: Callable[[], Any]) -> Any:
        """Return the result of a test, or the reason why there is none."""
        try:
            self.check_loop()
            return test()
        except (NotChecked, SetupError) as reason:
            return NotChecked(str(reason))
        except Exception as error:
            return NotChecked(f"the test raised {type(error).__name__}: {error}")

    def check_loop(self) -> None:
        """Raise NotChecked for a loop in which the loss of the setup does not tell what the model should do."""
        if self.setup.loss_fn is None and self.setup.step_fn is None:
            raise NotChecked("needs loss_fn= and a train_loader, to test the model when the loop has ended")
        if self.optimizer_count > 1:
            raise NotChecked("several optimizers take turns, so one loss does not tell what the model should do")
        if not any(parameter.requires_grad for parameter in self.setup.eager_model.parameters()):
            raise NotChecked("no parameter of the model requires a gradient now")
        if not self.loop.reaches_model:
            raise NotChecked("the loop did not train this model")
        if not self.summary.is_finite:
            raise NotChecked("the loss of the run is not finite")
        if not self.summary.loss_is_known or self.summary.reference is None:
            raise NotChecked("the loop does not minimize the loss of the setup, or that loss has no lower bound")
        if self.summary.step_count < _MIN_STEPS:
            raise NotChecked(f"the run of {self.summary.step_count} steps is too short to judge the model")

    @property
    def summary(self) -> RunSummary:
        """The summary of the run."""
        return get_run_summary(self.record)

    @property
    def has_learned(self) -> bool:
        """True if the loss is far below that of a constant prediction."""
        share = self.summary.remaining_share
        return self.summary.has_converged or (share is not None and share < _LEARNED_SHARE)

    def memorize_tiny_batch(self) -> Overfit:
        """Return the result of the tiny-batch test; raise NotChecked if it is needless or takes too long."""
        if self.has_learned:
            raise NotChecked(
                f"the run itself shows that the model can learn: its loss ended at {self.summary.end_text}"
            )
        if _MIN_FULL_STEPS * self.seconds_per_step > self.seconds:
            step_text = f"a step takes {1000 * self.seconds_per_step:.0f} ms"
            raise NotChecked(f"{step_text}, too long for a test of {self.seconds:.1f} s; run dbg.overfit()")
        return overfit_within(self.setup, self.seconds)

    def predict_samples(self) -> Errors:
        """Return the predictions of up to 2,000 random validation samples, or else training samples."""
        loader = self.setup.resolve_loader(None)
        if not is_map_style(loader):
            raise NotChecked("the loader cannot be read by index, and is not read again; run dbg.errors()")
        if self.record.about.get("target_variance") == 0 or len(self.record.about.get("label_counts", "ab")) < 2:
            raise NotChecked("all targets are equal, so there is nothing to predict")
        deadline = time.thread_time() + self.seconds
        with Preserve(*self.setup.mutable_objects, loaders=(self.setup.train_loader, self.setup.val_loader)):
            Measurements(self.setup)["torch_loss_kind"]  # raises NotChecked for a loss whose output is no prediction
            output = self.setup.predict(next(self.setup.batches(1)))
            if named_logits(output) is None and sum(tensor.dim() > 0 for tensor in tree_tensors(output)) > 1:
                raise NotChecked("the model returns several tensors, and which of them is the prediction is unknown")
            table = collect_predictions(self.setup, _loader_of_sample(loader), lambda _: time.thread_time() > deadline)
        return Errors(table, table.headline())

    def judge(self, name: str, value: Any) -> Report:
        """Return the findings on one result; what only a better model would have is a note."""
        is_poor = not isinstance(value, NotChecked) and not self.has_learned
        report = judge_result(self.setup, (_SLICE_SEARCH, *([] if is_poor else [_BASELINES])), **{name: value})
        findings = [
            replace(finding, severity="note") if finding.code in _QUALITY_RULES else finding for finding in report
        ]
        return replace(report, findings=tuple(findings))


def _loader_of_sample(loader: DataLoader[Any]) -> DataLoader[Any]:
    """Return a loader of random samples of the same dataset, collated likewise, without worker processes."""
    if loader.batch_sampler is None:
        return DataLoader(loader.dataset, batch_size=None, sampler=loader.sampler, collate_fn=loader.collate_fn)
    indices = np.asarray(get_visited_indices(loader))
    sample = np.random.default_rng(0).permutation(indices)[:_MAX_ROWS].tolist()
    return DataLoader(loader.dataset, loader.batch_size or 32, sampler=sample, collate_fn=loader.collate_fn)
