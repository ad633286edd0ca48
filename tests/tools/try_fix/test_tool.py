"""Tests of trials of one change, paired by seed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.tools.try_fix import TriedFix
from nbdebug.tools.try_fix.matched_run import MatchedRun
from tests.preserve.fingerprint import fingerprint
from tests.tools.try_fix.programs import blobs, debugger, sgd

QUICK: dict[str, Any] = {"steps": 24, "seeds": 3, "checkup": None}


@pytest.fixture(scope="module")
def low_rate() -> TriedFix:
    return debugger(optimizer=sgd(1e-5)).try_fix("learning rate=0.3", steps=24, seeds=5, checkup=None)


def test_change_that_repairs_is_a_gain_whose_interval_excludes_zero(low_rate: TriedFix) -> None:
    assert low_rate.verdict == "helps"
    assert low_rate.helps
    assert low_rate.metric == "validation accuracy"
    differences = [after.score - before.score for before, after in zip(low_rate.before, low_rate.after, strict=True)]
    assert low_rate.difference.value == pytest.approx(np.mean(differences))
    assert low_rate.difference.low > 0.05
    assert low_rate.difference.p == low_rate.difference.smallest_p == 2 / 2**5
    assert str(low_rate.difference) in low_rate.headline
    assert "the sign-flip p is at least 0.062" in low_rate.to_text()


def test_change_that_harms_is_a_loss() -> None:
    result = debugger(optimizer=sgd(0.3)).try_fix("learning rate=1e-6", **QUICK)
    assert result.verdict == "harms"
    assert result.difference.high < 0


def test_change_without_effect_leaves_each_run_as_it_is() -> None:
    result = debugger().try_fix("clipping=1000", **QUICK)
    assert result.verdict == "no effect"
    assert all(before.scores == after.scores for before, after in zip(result.before, result.after, strict=True))
    assert not result.helps


def draw_numbers(copy: Any) -> None:
    torch.rand(7)


def recorded_targets(dbg: Debugger, change: Callable[[Any], None]) -> list[list[int]]:
    """The targets of each training step of the runs with a change, in which the loss records them."""
    targets: list[list[int]] = []

    def record(output: torch.Tensor, target: torch.Tensor, loss_fn: Any) -> torch.Tensor:
        targets.append(target.tolist())
        loss: torch.Tensor = loss_fn(output, target)
        return loss

    def changed(copy: Any) -> None:
        copy.change_loss(record)
        change(copy)

    dbg.try_fix(changed, **QUICK)
    return targets


def test_runs_of_one_seed_see_the_same_batches_however_many_random_numbers_the_model_draws() -> None:
    def add_dropout(copy: Any) -> None:
        copy.model = nn.Sequential(*copy.model, nn.Dropout(0.1))

    dbg = debugger(layers=(nn.Dropout(0.5),))
    without, with_dropout = (recorded_targets(dbg, change) for change in (lambda copy: None, add_dropout))
    assert without == with_dropout
    assert without[:24] != without[24:48]  # another seed has another order


def test_change_that_only_draws_random_numbers_has_no_effect() -> None:
    result = debugger(layers=(nn.Dropout(0.5),)).try_fix(draw_numbers, **QUICK)
    assert result.verdict == "no effect"


def test_diverged_runs_count_as_having_learned_nothing() -> None:
    result = debugger().try_fix(lambda copy: copy.optimizer.param_groups[0].update(lr=1e30), **QUICK)
    assert result.verdict == "harms"
    assert {run.ended for run in result.after} == {"diverged"}
    assert all(run.score == 0.0 for run in result.after)
    assert "3 of 3 runs diverge" in result.view().html()


def test_score_of_run_is_mean_of_its_last_two_scores() -> None:
    assert MatchedRun(0, [0, 1, 2], [0.0, 0.5, 1.0]).score == 0.75


def test_code_of_finding_tries_its_fix_and_lists_findings_that_vanish() -> None:
    dbg = debugger(nn.Softmax(1))
    assert [finding.code for finding in dbg.checkup() if finding.severity == "error"] == ["L201"]
    result = dbg.try_fix("L201", steps=24, seeds=3)
    assert result.verdict == "helps"
    assert "L201" in [finding.code for finding in result.vanished]
    assert not result.appeared
    assert "vanished: error L201" in result.to_text()
    assert isinstance(dbg.setup.eager_model[-1], nn.Softmax)  # type: ignore[index]


def test_change_that_adds_a_fault_lists_it_as_appeared() -> None:
    def add_softmax(copy: Any) -> None:
        copy.model = nn.Sequential(*copy.model, nn.Softmax(1))

    result = debugger().try_fix(add_softmax, steps=10, seeds=2)
    assert result.change == "add softmax"
    assert "L201" in [finding.code for finding in result.appeared]


def test_finding_passes_as_change_and_function_may_return_another_debugger() -> None:
    dbg = debugger(nn.Softmax(1))
    finding = next(finding for finding in dbg.checkup() if finding.code == "L201")
    assert dbg.try_fix(finding, **QUICK).verdict == "helps"
    other = debugger()
    before = fingerprint(other.setup.model, None, other.setup.optimizers[0], None, loaders=[other.setup.train_loader])
    result = dbg.try_fix(lambda copy: other, **QUICK)
    assert result.verdict == "helps"
    before.check()


def test_new_layer_is_trained() -> None:
    def widen(copy: Any) -> None:
        copy.model[0] = nn.Linear(8, 16)

    weights: list[torch.Tensor] = []

    def score(copy: Any) -> float:
        weights.append(copy.model[0].weight.clone())
        return 0.0

    debugger().try_fix(widen, score=score, **QUICK)
    first, last = weights[9], weights[17]  # of the first run with the change, after 9 scores of the one without it
    assert not torch.equal(first, last)


def test_own_score_decides() -> None:
    result = debugger().try_fix("learning rate=1e-9", score=lambda copy: -copy.model[0].weight.std().item(), **QUICK)
    assert result.metric == "your score"
    assert result.verdict in ("helps", "harms", "undecided")
    with pytest.raises(nbdebug.SetupError, match=r"^score is nan; expected a finite"):
        debugger().try_fix("clipping", score=lambda copy: float("nan"), **QUICK)


def test_imbalanced_classes_are_scored_by_balanced_accuracy() -> None:
    result = debugger(positive=0.06, optimizer=sgd(0.02)).try_fix("class weights", steps=40, seeds=3, checkup=None)
    assert result.metric == "validation balanced accuracy"
    assert result.verdict == "helps"


def test_apply_sets_the_rate_in_your_optimizer_and_logs_it(low_rate: TriedFix) -> None:
    dbg = debugger(optimizer=sgd(1e-5, momentum=0.9))
    optimizer = dbg.setup.optimizers[0]
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    dbg = Debugger(
        dbg.setup.model, dbg.train_loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer, scheduler=scheduler
    )
    result = dbg.try_fix("learning rate=0.3", **QUICK)
    assert optimizer.param_groups[0]["lr"] == 1e-5
    result.apply()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.3)
    assert scheduler.base_lrs == pytest.approx([0.3])
    assert dbg.log == ["SGD: lr of group 0: 1e-05 → 0.3, at your request"]
    assert "apply() sets lr of group 0" in result.to_text()
    assert pickle.loads(pickle.dumps(result)).headline == result.headline
    with pytest.raises(nbdebug.SetupError, match=r"^this result has no setup"):
        pickle.loads(pickle.dumps(result)).apply()


def test_apply_of_another_change_says_what_to_write() -> None:
    dbg = debugger()
    result = dbg.try_fix("activation=Tanh", **QUICK)
    with pytest.raises(nbdebug.SetupError, match=r"expected one\. Write it yourself: nn.Tanh\(\)"):
        result.apply()
    assert not dbg.log


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["clipping", "dropout"], r"^change is 2 changes; expected one.* use ablation"),
        ("learning rte", "^change is 'learning rte'; expected one of learning rate, schedule"),
        ("learning rate=fast", "^learning rate is 'fast'; expected a rate such as 0.01"),
        ("freeze=encoder", "^module is 'encoder'; expected one such as 0, 1"),
        ("dropout", "^the change 'dropout 0' does not alter this setup"),
        (3, "^change is an int; expected a name, a finding"),
        (lambda copy: 3, "^the function of the change returned an int; expected None"),
        (lambda copy: copy.nothing, "raised AttributeError in the change 'your function'"),
    ],
)
def test_invalid_change_raises(change: Any, message: str) -> None:
    with pytest.raises(nbdebug.SetupError, match=message):
        debugger().try_fix(change, **QUICK)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"steps": 2}, "^steps is 2; expected a whole number from 5"), ({"seeds": 1}, "^seeds is 1; expected .* from 2")],
)
def test_invalid_option_raises(options: dict[str, Any], message: str) -> None:
    with pytest.raises(nbdebug.SetupError, match=message):
        debugger().try_fix("clipping", **{**QUICK, **options})


def test_finding_whose_fix_is_in_the_loop_says_so() -> None:
    dbg = debugger()
    setup = dbg.setup
    with dbg.watch(final_tests=False):
        for _ in range(3):
            for x, y in setup.train_loader:
                nn.functional.cross_entropy(setup.model(x), y).backward()
                setup.optimizers[0].step()
    assert "O505" in [finding.code for finding in dbg.findings]
    with pytest.raises(nbdebug.SetupError, match=r"^the fix of O505 changes lines of your program"):
        dbg.try_fix("O505", **QUICK)


@pytest.mark.parametrize("failing", [False, True])
def test_trial_preserves_state(failing: bool) -> None:
    dbg = debugger(optimizer=sgd(1e-3, momentum=0.9), layers=(nn.BatchNorm1d(16),))
    passes: list[int] = []

    def fail_late(*_: Any) -> None:
        passes.append(1)
        if failing and len(passes) > 60:
            raise RuntimeError("the sixtieth pass fails")

    dbg.setup.model.register_forward_pre_hook(fail_late)
    before = fingerprint(
        dbg.setup.model, dbg.setup.loss_fn, dbg.setup.optimizers[0], None, loaders=[dbg.train_loader, dbg.val_loader]
    )
    if failing:
        with pytest.raises(nbdebug.SetupError, match="the sixtieth pass fails"):
            dbg.try_fix("weight decay=0.1", **QUICK)
    else:
        dbg.try_fix("weight decay=0.1", **QUICK)
    before.check()


class Uncopyable(nn.Sequential):
    """A model that deepcopy rejects."""

    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError("this model holds a handle")


def test_model_that_cannot_be_copied_is_trained_and_restored() -> None:
    torch.manual_seed(0)
    model = Uncopyable(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2), nn.Softmax(1))
    loader = torch.utils.data.DataLoader(blobs(320, 0), 16, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    dbg = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    dbg.checkup()
    before = fingerprint(model, None, optimizer, None, loaders=[loader])
    modules = list(model.modules())
    assert dbg.try_fix("L201", **QUICK).verdict == "helps"
    before.check()
    assert list(model.modules()) == modules


def test_result_has_table_figure_and_view(low_rate: TriedFix) -> None:
    frame = low_rate.to_frame()
    assert list(frame.columns) == ["changed", "seed", "step", "score"]
    assert len(frame) == 2 * 5 * 9
    assert [line.get_label() for line in low_rate.plot().get_lines()] == ["without the change", "learning rate 0.3"]
    state = low_rate.view().state()
    assert (state["verdict"], state["outcome"]) == ("helps", "clear")
    assert [panel["name"] for panel in state["panels"]] == ["without the change", "learning rate 0.3"]
    assert low_rate.code in state["code"]


def test_trial_without_validation_loader_scores_training_samples() -> None:
    model = nn.Linear(8, 2)
    loader = torch.utils.data.DataLoader(blobs(160, 0), 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    dbg = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    assert dbg.try_fix("learning rate=0.3", **QUICK).metric == "training accuracy"
