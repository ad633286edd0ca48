"""Tests of ``importance()`` on unusual data, loaders and models, and of its interruption."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.tools.importance import importance
from nbdebug.tools.importance import tool as tools
from nbdebug.views.live import LiveScreen
from tests.preserve.fingerprint import fingerprint
from tests.tools.importance.setups import X, Y, classifier_setup


def test_importance_leaves_out_samples_with_nan() -> None:
    x = X.clone()
    x[3, 1] = float("nan")
    result = importance(classifier_setup(x), repeats=1)
    assert len(result) == 59
    assert "1 of 60 samples contain NaN or Inf and are left out" in result.notes
    with pytest.raises(SetupError, match="all 60 samples contain NaN"):
        importance(classifier_setup(x * float("nan")))


def test_importance_accepts_alias_of_method() -> None:
    assert importance(classifier_setup(), method="quick", repeats=0).method == "expected_gradients_fast"


def test_importance_of_constant_feature_is_zero_and_noted() -> None:
    x = X.clone()
    x[:, 2] = 5
    result = importance(classifier_setup(x), repeats=2)
    assert result.size.value[2] == pytest.approx(0, abs=1e-9)
    assert (result.metric_drop.value[2], result.metric_drop.low[2], result.metric_drop.high[2]) == (0, 0, 0)
    assert not result.significant[2]
    assert any("constant" in note and "column 2" in note for note in result.notes)


def test_importance_of_one_class_or_one_sample_is_noted() -> None:
    model = nn.Linear(4, 2)
    with torch.no_grad():
        model.bias[:] = torch.tensor([9.0, -9.0])
    result = importance(classifier_setup(y=torch.zeros(60).long(), model=model), repeats=2)
    assert any("same class" in note for note in result.notes)
    assert not result.significant.any()
    assert result.skill_alone(0) != result.skill_alone(0)
    single = importance(classifier_setup(), samples=1)
    assert len(single) == 1
    assert np.isnan(single.size.low).all()
    assert "a single sample has no interval" in single.notes
    assert single.view().html()


def test_importance_refuses_wrong_feature_names_and_notes_missing_samples() -> None:
    with pytest.raises(SetupError, match="feature_names has 2 names; expected 4"):
        importance(classifier_setup(feature_names=["a", "b"]))
    result = importance(classifier_setup(), samples=500, repeats=1)
    assert "samples is 500, but only 60 are available" in result.notes


def test_importance_of_generator_uses_first_samples_and_keeps_all() -> None:
    def batches() -> Iterator[Any]:
        yield from zip(X.split(20), Y.split(20), strict=True)

    setup = Setup(nn.Linear(4, 2), batches(), loss_fn=nn.CrossEntropyLoss())
    result = importance(setup, samples=30, repeats=1)
    assert len(result) == 30
    assert result.keys is None
    assert sum(len(x) for x, _ in setup.train_loader) == 60


def test_importance_without_targets_has_attributions_only() -> None:
    loader = DataLoader(TensorDataset(X), batch_size=16)
    result = importance(Setup(nn.Linear(4, 2), loader))
    assert result.attributions is not None
    assert any("nothing was permuted" in note for note in result.notes)


def test_importance_of_true_class_and_of_scored_masks() -> None:
    setup = classifier_setup()
    of_true_class = importance(setup, target="true", repeats=0)
    assert (of_true_class.classes == Y[of_true_class.keys].numpy()).all()
    masks = classifier_setup(torch.randn(20, 3, 8, 8), torch.zeros(20, 8, 8).long(), nn.Conv2d(3, 2, 1))
    assert importance(masks, repeats=0).attributions is None
    result = importance(masks, repeats=0, score=lambda output: output.mean((2, 3)))
    assert result.attributions is not None


def test_importance_of_model_without_gradient_uses_shapley() -> None:
    class StepFunction(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x: Tensor) -> Tensor:
            step = (x[:, :1] > 0).float() * self.scale.detach()
            return torch.cat([1 - step, step], 1)

    result = importance(classifier_setup(model=StepFunction()), samples=6, background=X[:6], repeats=2)
    assert result.method == "shapley"
    assert result.order[0] == 0


@pytest.mark.parametrize("call_index", [0, 3, 12])
def test_importance_interrupt_changes_no_state_and_stop_returns_partial_result(
    call_index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = classifier_setup(model=nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 2)))
    setup.model.train()
    before, calls = fingerprint(setup.model, loaders=[setup.train_loader]), 0

    def interrupt_at_call(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == call_index + 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(
        tools.ImportanceRun, "_progress_callback", lambda self, what, total: lambda done: bool(interrupt_at_call())
    )
    with pytest.raises(KeyboardInterrupt):
        importance(setup)
    before.check()

    class StoppableScreen(LiveScreen):
        """A notebook screen that displays nothing."""

        def __init__(self) -> None:
            pass

        stopped = False

        def update(self, view: Any) -> None:
            pass

        def finish(self, result: Any) -> None:
            pass

        def __enter__(self) -> StoppableScreen:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    calls = 0
    monkeypatch.setattr(tools, "show_view", lambda view: StoppableScreen())
    result = importance(setup)
    assert result.stopped
    assert result.attributions is not None
    assert len(result.attributions) == (60 if call_index else 32)
    assert np.isfinite(result.drop).sum() == min(max(call_index - 1, 0), 4)
    assert any("stopped early" in note for note in result.notes)
    before.check()


def test_importance_changes_no_state_and_is_reproducible() -> None:
    setup = classifier_setup(model=nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 2)))
    setup.model.train()
    before = fingerprint(setup.model, loaders=[setup.train_loader])
    first, second = importance(setup), importance(setup)
    before.check()
    assert first.to_frame().equals(second.to_frame())
