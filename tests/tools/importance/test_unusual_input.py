"""What cannot be measured is said; what can be is."""

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

X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


def setup_of(x: Tensor = X, y: Tensor = Y, model: nn.Module | None = None, **given: Any) -> Setup:
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    return Setup(model or nn.Linear(4, 2), loader, loader, loss_fn=nn.CrossEntropyLoss(), **given)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"samples": 0}, "samples is 0"),
        ({"repeats": -1}, "repeats is -1"),
        ({"method": "magic"}, "method is 'magic'"),
        ({"metric": "magic"}, "metric is 'magic'"),
        ({"metric": "R²"}, "expected auto, accuracy, loss"),
        ({"target": [1, 2]}, "target is a list"),
        ({"target": 7}, "target is 7"),
        ({"background": torch.zeros(3, 9)}, "background of input has samples of shape"),
        ({"loader": "test"}, "loader is 'test'"),
        ({"samples": 2.5}, "samples is 2.5"),
        ({"repeats": None}, "repeats is None"),
        ({"target": True}, "target is a bool"),
        ({"method": "auto", "target": 7}, "target is 7"),
        ({"method": "auto", "target": "dog"}, "target is 'dog'"),
        ({"background": torch.full((3, 4), float("nan"))}, "background sample 0 is not finite"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], said: str) -> None:
    if "target" in options or "metric" in options:
        options = {"method": "expected_gradients_fast", **options}
    with pytest.raises(SetupError, match=said):
        importance(setup_of(), **options)


def test_samples_that_are_no_numbers_are_left_out() -> None:
    x = X.clone()
    x[3, 1] = float("nan")
    found = importance(setup_of(x), repeats=1)
    assert len(found) == 59
    assert "1 of 60 samples contain NaN or Inf and are left out" in found.notes
    with pytest.raises(SetupError, match="all 60 samples contain NaN"):
        importance(setup_of(x * float("nan")))


def test_an_alias_of_a_method_is_accepted() -> None:
    assert importance(setup_of(), method="quick", repeats=0).method == "expected_gradients_fast"


def test_a_constant_feature_counts_for_nothing() -> None:
    x = X.clone()
    x[:, 2] = 5
    found = importance(setup_of(x), repeats=2)
    assert found.size.value[2] == pytest.approx(0, abs=1e-9)
    assert (found.metric_drop.value[2], found.metric_drop.low[2], found.metric_drop.high[2]) == (0, 0, 0)
    assert not found.significant[2]
    assert any("constant" in note and "column 2" in note for note in found.notes)


def test_one_class_and_one_sample_have_words() -> None:
    model = nn.Linear(4, 2)
    with torch.no_grad():
        model.bias[:] = torch.tensor([9.0, -9.0])
    found = importance(setup_of(y=torch.zeros(60).long(), model=model), repeats=2)
    assert any("same class" in note for note in found.notes)
    assert not found.significant.any()
    assert found.skill_alone(0) != found.skill_alone(0)
    alone = importance(setup_of(), samples=1)
    assert len(alone) == 1
    assert np.isnan(alone.size.low).all()
    assert "a single sample has no interval" in alone.notes
    assert alone.view().html()


def test_names_of_the_wrong_number_and_too_few_samples_are_told_of() -> None:
    with pytest.raises(SetupError, match="feature_names has 2 names; expected 4"):
        importance(setup_of(feature_names=["a", "b"]))
    found = importance(setup_of(), samples=500, repeats=1)
    assert "samples is 500, but only 60 are available" in found.notes


def test_a_loader_that_ends_gives_its_first_samples_and_keeps_them() -> None:
    def once() -> Iterator[Any]:
        yield from zip(X.split(20), Y.split(20), strict=True)

    setup = Setup(nn.Linear(4, 2), once(), loss_fn=nn.CrossEntropyLoss())
    found = importance(setup, samples=30, repeats=1)
    assert len(found) == 30
    assert found.keys is None
    assert sum(len(x) for x, _ in setup.train_loader) == 60


def test_without_targets_there_are_attributions() -> None:
    loader = DataLoader(TensorDataset(X), batch_size=16)
    found = importance(Setup(nn.Linear(4, 2), loader))
    assert found.attributions is not None
    assert any("nothing was permuted" in note for note in found.notes)


def test_true_classes_and_outputs_of_another_form_can_be_explained() -> None:
    setup = setup_of()
    true = importance(setup, target="true", repeats=0)
    assert (true.classes == Y[true.keys].numpy()).all()
    masks = setup_of(torch.randn(20, 3, 8, 8), torch.zeros(20, 8, 8).long(), nn.Conv2d(3, 2, 1))
    assert importance(masks, repeats=0).attributions is None
    found = importance(masks, repeats=0, score=lambda output: output.mean((2, 3)))
    assert found.attributions is not None


def test_what_has_no_gradient_is_explained_otherwise() -> None:
    class Hard(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x: Tensor) -> Tensor:
            step = (x[:, :1] > 0).float() * self.scale.detach()
            return torch.cat([1 - step, step], 1)

    found = importance(setup_of(model=Hard()), samples=6, background=X[:6], repeats=2)
    assert found.method == "shapley"
    assert found.order[0] == 0


@pytest.mark.parametrize("at", [0, 3, 12])
def test_an_interrupt_changes_nothing_and_a_stop_gives_what_there_is(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = setup_of(model=nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 2)))
    setup.model.train()
    before, calls = fingerprint(setup.model, loaders=[setup.train_loader]), 0

    def strike(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == at + 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(
        tools.ImportanceRun, "_progress_callback", lambda self, what, total: lambda done: bool(strike())
    )
    with pytest.raises(KeyboardInterrupt):
        importance(setup)
    before.check()

    class Stopped(LiveScreen):
        """A screen in a notebook that shows nothing."""

        def __init__(self) -> None:
            pass

        stopped = False

        def update(self, view: Any) -> None:
            """Nothing."""

        def finish(self, result: Any) -> None:
            """Nothing."""

        def __exit__(self, *_: object) -> None:
            """Nothing."""

    calls = 0
    monkeypatch.setattr(tools, "show_view", lambda view: Stopped())
    found = importance(setup)
    assert found.stopped
    assert found.attributions is not None
    assert len(found.attributions) == (60 if at else 32)
    assert np.isfinite(found.drop).sum() == min(max(at - 1, 0), 4)
    assert any("stopped early" in note for note in found.notes)
    before.check()


def test_nothing_changes_and_twice_is_the_same() -> None:
    setup = setup_of(model=nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 2)))
    setup.model.train()
    before = fingerprint(setup.model, loaders=[setup.train_loader])
    one, other = importance(setup), importance(setup)
    before.check()
    assert one.to_frame().equals(other.to_frame())
