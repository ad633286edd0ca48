"""Tests of measure_baselines() and Errors.baselines()."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from nbdebug.baselines.baselines import Baselines, measure_baselines
from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable
from nbdebug.rules.examples import mlp, rings, training_setup
from nbdebug.setup import Setup
from nbdebug.tools.errors.tool import errors_from_predictions
from tests.baselines.random_predictions import SCORES, TARGET
from tests.baselines.trained_models import collect_errors, train_classifier, train_regressor
from tests.clock import CLOCK


def test_baselines_of_classifier_include_all_models() -> None:
    baselines = collect_errors(train_classifier()).baselines()
    assert baselines.metrics == ("accuracy", "balanced accuracy", "log loss")
    assert baselines.names == ("majority", "prior", "blind", "linear", "nearest")
    assert baselines.notes == ()
    assert baselines.trained_on == 600
    assert baselines.rows == 400
    majority = baselines.get("majority", "accuracy")
    assert majority is not None
    assert majority.is_beaten


def test_baselines_of_regressor_include_all_models() -> None:
    baselines = collect_errors(train_regressor()).baselines()
    assert baselines.metrics == ("mean squared error", "mean absolute error")
    assert baselines.names == ("mean", "median", "blind", "linear", "nearest")
    assert all(scores.is_beaten for scores in baselines.comparisons if scores.name in ("mean", "median", "blind"))
    gains = baselines.to_frame().query("name == 'linear' and metric == 'mean squared error'")
    assert len(baselines.only["linear"]) > 0
    assert np.isfinite(gains.to_numpy()[0, 2:].astype(float)).all()


def test_baselines_of_predicted_labels_are_models_without_inputs() -> None:
    errors = errors_from_predictions(["b", "b", "a", "a"] * 20, ["b", "b", "a", "c"] * 20)
    baselines = errors.baselines()
    assert baselines.names == ("majority", "prior", "blind")
    assert baselines.metrics == ("accuracy", "balanced accuracy")
    assert "training rows" in baselines.notes[0]


def test_baselines_string_plot_and_html() -> None:
    baselines = collect_errors(train_classifier()).baselines()
    assert isinstance(baselines, Baselines)
    text = str(baselines)
    assert text.startswith("nbdebug baselines: accuracy ")
    assert "always 0" in text
    assert len(baselines.plot().patches) == 6
    html = baselines._repr_mimebundle_()["text/html"]
    assert "nearest" in html
    assert len(html) < 300_000


def test_baselines_are_measured_again_for_larger_time_budget_only() -> None:
    errors = collect_errors(train_classifier())
    first = errors.baselines(seconds=2.0)
    assert errors.baselines(seconds=1.0) is first
    assert errors.baselines(seconds=2.5) is not first


def test_baselines_exclude_rows_without_target() -> None:
    target = np.where(np.arange(300) < 20, -1, TARGET)
    errors = errors_from_predictions(SCORES.astype(np.float32), target)
    assert isinstance(errors.table, ClassificationTable)
    assert measure_baselines(None, errors.table).rows == 280


def test_baselines_preserve_model_loader_and_random_state() -> None:
    setup = train_classifier()
    state = copy.deepcopy(setup.model.state_dict())
    order = setup.train_loader.generator.get_state()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    errors = collect_errors(setup)
    torch.manual_seed(5)
    errors.baselines()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(setup.train_loader.generator.get_state(), order)
    assert all(torch.equal(value, state[name]) for name, value in setup.model.state_dict().items())
    assert setup.model.training


class LabelLookup(nn.Module):
    """A model that looks up its training labels; no linear model can."""

    def __init__(self, labels: Tensor) -> None:
        super().__init__()
        self.labels, self.weight = labels, nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.one_hot(self.labels[x[:, 0].long()], 2).float() * 5 + self.weight


def test_baselines_linear_model_is_scored_on_rows_outside_its_training() -> None:
    random = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 2, (400,), generator=random)
    noise = torch.randn(400, 200, generator=random)  # enough columns to fit every label
    noise[:, 0] = torch.arange(400)
    loader = DataLoader(TensorDataset(noise, labels), batch_size=50)
    setup = Setup(LabelLookup(labels), loader, loss_fn=nn.CrossEntropyLoss())
    errors = collect_errors(setup)
    baselines = measure_baselines(setup, errors.table, errors.dataset)
    linear = baselines.get("linear", "accuracy")
    assert linear is not None
    assert linear.rows == 200
    assert 0.3 < linear.value < 0.7
    assert "your model was trained on these rows" in baselines.notes[0]


class SlowDataset(Dataset[Any]):
    """Samples that take two milliseconds each."""

    def __init__(self, rows: int = 4000) -> None:
        self.x, self.y = rings(rows)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        CLOCK.advance(2e-3)
        return self.x[index], self.y[index]


def test_baselines_time_limit_reads_part_of_slow_data() -> None:
    loader = DataLoader(SlowDataset(), batch_size=64, shuffle=True)
    setup = Setup(mlp(8, 8, 2), loader, DataLoader(SlowDataset(600), 64), loss_fn=nn.CrossEntropyLoss())
    errors = collect_errors(setup)
    errors.baselines(seconds=0.5)
    baselines = measure_baselines(setup, errors.table, errors.dataset, seconds=2.0)
    assert 20 < baselines.trained_on < 4000
    linear = baselines.get("linear", "accuracy")
    assert linear is not None
    assert linear.rows < 600
    assert any("time limit reached" in note for note in baselines.notes)


class IterableRings(IterableDataset[Any]):
    """Samples without indices."""

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*rings(300), strict=True)


def test_baselines_of_iterable_dataset_are_models_without_inputs() -> None:
    setup = Setup(mlp(8, 8, 2), DataLoader(IterableRings(), 50), loss_fn=nn.CrossEntropyLoss())
    baselines = collect_errors(setup).baselines()
    assert baselines.names == ("majority", "prior", "blind")
    assert baselines.trained_on == 300
    assert any("cannot be read by index" in note for note in baselines.notes)


def test_baselines_of_mismatched_training_labels_add_note() -> None:
    x, y = rings(200)
    loader = DataLoader(TensorDataset(x, y + 5), batch_size=50)
    setup = Setup(mlp(8, 8, 2), loader, DataLoader(TensorDataset(x, y), 50), loss_fn=nn.CrossEntropyLoss())
    baselines = collect_errors(setup).baselines()
    assert baselines.names == ("majority", "prior", "blind")
    assert "could not be read" in baselines.notes[0]


def test_baselines_of_multilabel_task_raise_setup_error() -> None:
    x = torch.rand(64, 8)
    setup = training_setup(mlp(8, 8, 3), (x, x[:, :3].round()), (x, x[:, :3].round()), nn.BCEWithLogitsLoss())
    errors = collect_errors(setup)
    with pytest.raises(SetupError, match="expected one class or one number per row"):
        errors.baselines()
