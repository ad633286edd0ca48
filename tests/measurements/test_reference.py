"""Tests of the reference measurement: which inputs and targets it can learn, and what it leaves unchanged."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.measurements import Measurements
from nbdebug.preserve import Preserve
from nbdebug.setup import Setup

X = torch.randn(300, 6, generator=torch.Generator().manual_seed(0))
CLASSES = (X[:, :2] > 0).long() @ torch.tensor([2, 1])
IMAGES = X[:, :1, None, None] + 0.1 * torch.randn(300, 1, 40, 40, generator=torch.Generator().manual_seed(1))


class Dropped(nn.Module):
    """An untrained network with dropout."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 8), nn.Dropout(0.5), nn.Linear(8, outputs))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def reference_of(x: Tensor, y: Tensor, model: nn.Module, loss_fn: Any, **loader_options: Any) -> Any:
    loader = DataLoader(TensorDataset(x, y), 32, **loader_options)
    setup = Setup(model, loader, loss_fn=loss_fn)
    return setup, Measurements(setup)["reference"]


CASES: dict[str, tuple[Tensor, Tensor, nn.Module, nn.Module]] = {
    "classes": (X, CLASSES, Dropped(6, 4), nn.CrossEntropyLoss()),
    "images": (IMAGES, (X[:, 0] > 0).long(), Dropped(1600, 2), nn.CrossEntropyLoss()),
    "one logit": (X, (X[:, :1] > 0).float(), Dropped(6, 1), nn.BCEWithLogitsLoss()),
    "multiple labels": (X, (X[:, :3] > 0).float(), Dropped(6, 3), nn.BCEWithLogitsLoss()),
    "values": (X, X[:, :2].sin(), Dropped(6, 2), nn.MSELoss()),
    "ignored labels": (X, torch.where(X[:, 2] > 1, -100, CLASSES), Dropped(6, 4), nn.CrossEntropyLoss()),
}


def hinge(scores: Tensor, signs: Tensor) -> Tensor:
    return (1 - scores * signs).clamp_min(0).mean()


def energy(scores: Tensor, signs: Tensor) -> Tensor:
    """Push scores together or apart, whatever their signs are."""
    return (signs * scores.square()).mean()


@pytest.mark.parametrize("loss_fn", [nn.SoftMarginLoss(), nn.functional.soft_margin_loss, hinge])
@pytest.mark.parametrize("outputs", [1, 3])
def test_reference_knows_targets_of_signs_of_a_margin_loss(loss_fn: Any, outputs: int) -> None:
    signs = X[:, :outputs].sign()
    model = nn.Linear(6, outputs)
    _, reference = reference_of(X, signs, model, loss_fn)
    rows = reference.rows()
    assert rows.targets.kind == "labels"
    assert torch.equal(torch.tensor(rows.targets.columns), (signs[rows.indices] > 0).float())
    with torch.no_grad():
        right = float((model(X).sign() == signs).float().mean())
    assert reference.comparison().network == pytest.approx(right)
    assert reference.comparison().reference > 0.85


@pytest.mark.parametrize(
    ("targets", "loss_fn"),
    [((X[:, :1] > 0).float(), nn.SoftMarginLoss()), (X[:, :1].sign(), energy)],
    ids=["targets of 0 and 1", "signs of pairs"],
)
def test_reference_of_a_loss_that_judges_no_signs_says_why(targets: Tensor, loss_fn: Any) -> None:
    with pytest.raises(NotChecked, match="none of torch's own"):
        reference_of(X, targets, nn.Linear(6, 1), loss_fn)


SERIES = torch.randn(300, 21, 1, generator=torch.Generator().manual_seed(2)).cumsum(1)


@pytest.mark.parametrize(
    ("x", "y"),
    [(SERIES[:, :-1], SERIES[:, 1:]), (SERIES[:, :-1, 0], SERIES[:, 1:, 0])],
    ids=["steps with one value", "rows of steps"],
)
def test_reference_of_targets_that_are_the_next_inputs_says_why(x: Tensor, y: Tensor) -> None:
    _, reference = reference_of(x, y, nn.Linear(x.shape[-1], x.shape[-1]), nn.MSELoss())
    with pytest.raises(NotChecked, match="later steps of the inputs"):
        reference.rows()


@pytest.mark.parametrize("target", [SERIES[:, 1:].square(), SERIES[:, 1:].roll(1, 0)], ids=["squares", "other rows"])
def test_reference_of_other_series_is_measured(target: Tensor) -> None:
    _, reference = reference_of(SERIES[:, :-1, 0], target[:, :, 0], nn.Linear(20, 20), nn.MSELoss())
    assert len(reference.rows().kept) == 300


@pytest.mark.parametrize("name", CASES)
def test_reference_beats_an_untrained_network_and_changes_nothing(name: str) -> None:
    x, y, model, loss_fn = CASES[name]
    setup, reference = reference_of(x, y, model, loss_fn, shuffle=True)
    weights, generator = [p.clone() for p in model.parameters()], torch.get_rng_state()
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader,)):
        comparison = reference.comparison()
        assert reference.comparison() is comparison
    assert comparison.is_better(0.1)
    assert comparison.rows == int((y >= 0).sum() if name == "ignored labels" else 300)
    assert all(torch.equal(p, weight) for p, weight in zip(model.parameters(), weights, strict=True))
    assert torch.equal(generator, torch.get_rng_state())
    assert all(module.training for module in model.modules())


class WithOwnLoss(nn.Module):
    """A model that takes its labels by name, for the loss that it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.loss_fn = Dropped(6, 4), nn.CrossEntropyLoss()

    def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        logits = self.net(x)
        return {"logits": logits} if labels is None else {"logits": logits, "loss": self.loss_fn(logits, labels)}


def test_reference_does_not_read_labels_that_the_model_takes() -> None:
    labels = torch.randint(0, 4, (300,), generator=torch.Generator().manual_seed(2))
    rows = [{"x": x, "labels": y} for x, y in zip(X, labels, strict=True)]
    setup = Setup(WithOwnLoss(), DataLoader(rows, 32), loss_fn=nn.CrossEntropyLoss())
    reference = Measurements(setup)["reference"].rows()
    assert [part.shape for part in reference.parts] == [(300, 6)]
    assert reference.prediction.score < 0.4


def test_reference_of_repeated_rows_uses_each_once() -> None:
    labels = torch.randint(0, 4, (300,), generator=torch.Generator().manual_seed(2))
    _, reference = reference_of(X.repeat(3, 1), labels.repeat(3), Dropped(6, 4), nn.CrossEntropyLoss())
    rows = reference.rows()
    assert len(rows.targets) == 300
    assert rows.prediction.score < 0.4


@pytest.mark.parametrize(
    ("x", "y", "outputs", "loss_fn", "reason"),
    [
        (X[:60], CLASSES[:60], 4, nn.CrossEntropyLoss(), "too few"),
        (X, torch.zeros(300, dtype=torch.long), 4, nn.CrossEntropyLoss(), "one class"),
        (X, torch.randn(300, 100), 100, nn.MSELoss(), "100 targets"),
        (X, X, 6, nn.MSELoss(), "reconstruction"),
    ],
)
def test_reference_of_targets_that_it_cannot_learn_says_why(
    x: Tensor, y: Tensor, outputs: int, loss_fn: nn.Module, reason: str
) -> None:
    with pytest.raises(NotChecked, match=reason):
        reference_of(x, y, Dropped(6, outputs), loss_fn)[1].comparison()
