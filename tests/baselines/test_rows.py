"""Which rows learners see and are asked for, what becomes of odd inputs, and that nothing of the user's changes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from nbdebug.baselines import measure_baselines
from nbdebug.baselines.input_features import MAX_COLUMNS, feature_matrix
from nbdebug.exceptions import SetupError
from nbdebug.rules.examples import mlp, rings, training_setup
from nbdebug.setup import Setup
from nbdebug.tools.errors import errors as browse
from tests.baselines.trained import browser_of, classes
from tests.clock import CLOCK


def test_nothing_of_the_users_changes() -> None:
    setup = classes()
    state = copy.deepcopy(setup.model.state_dict())
    order = setup.train_loader.generator.get_state()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    errors = browser_of(setup)
    torch.manual_seed(5)
    errors.baselines()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(setup.train_loader.generator.get_state(), order)
    assert all(torch.equal(value, state[name]) for name, value in setup.model.state_dict().items())
    assert setup.model.training


class ByHeart(nn.Module):
    """A model that looks up its training labels, which no linear one can."""

    def __init__(self, known: Tensor) -> None:
        super().__init__()
        self.known, self.weight = known, nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.one_hot(self.known[x[:, 0].long()], 2).float() * 5 + self.weight


def test_learners_are_never_asked_for_rows_that_they_learned() -> None:
    random = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 2, (400,), generator=random)
    noise = torch.randn(400, 200, generator=random)  # so many columns that every label is learned by heart
    noise[:, 0] = torch.arange(400)
    loader = DataLoader(TensorDataset(noise, labels), batch_size=50)
    setup = Setup(ByHeart(labels), loader, loss_fn=nn.CrossEntropyLoss())
    errors = browse(setup)
    found = measure_baselines(setup, errors.table, errors.dataset)
    linear = found.get("linear", "accuracy")
    assert linear is not None
    assert linear.rows == 200
    assert 0.3 < linear.value < 0.7
    assert "your model was trained on these rows" in found.notes[0]


class Slow(Dataset[Any]):
    """Samples that take their time."""

    def __init__(self, rows: int = 4000) -> None:
        self.x, self.y = rings(rows)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        CLOCK.passes(2e-3)
        return self.x[index], self.y[index]


def test_slow_data_are_read_for_as_long_as_there_is_time() -> None:
    loader = DataLoader(Slow(), batch_size=64, shuffle=True)
    setup = Setup(mlp(8, 8, 2), loader, DataLoader(Slow(600), 64), loss_fn=nn.CrossEntropyLoss())
    errors = browse(setup)
    errors.baselines(seconds=0.5)
    found = measure_baselines(setup, errors.table, errors.dataset, seconds=2.0)
    assert 20 < found.trained_on < 4000
    linear = found.get("linear", "accuracy")
    assert linear is not None
    assert linear.rows < 600
    assert any("time limit reached" in one for one in found.notes)


class Stream(IterableDataset[Any]):
    """Samples without places."""

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*rings(300), strict=True)


def test_a_stream_gives_the_labels_and_no_learner() -> None:
    setup = Setup(mlp(8, 8, 2), DataLoader(Stream(), 50), loss_fn=nn.CrossEntropyLoss())
    found = browse(setup).baselines()
    assert found.names == ("majority", "prior", "blind")
    assert found.trained_on == 300
    assert any("cannot be read by index" in one for one in found.notes)


def test_training_labels_that_do_not_fit_are_told() -> None:
    x, y = rings(200)
    loader = DataLoader(TensorDataset(x, y + 5), batch_size=50)
    setup = Setup(mlp(8, 8, 2), loader, DataLoader(TensorDataset(x, y), 50), loss_fn=nn.CrossEntropyLoss())
    found = browse(setup).baselines()
    assert found.names == ("majority", "prior", "blind")
    assert "could not be read" in found.notes[0]


INPUTS: dict[str, tuple[Tensor, int]] = {
    "pixels": (torch.rand(5, 1, 28, 28), 784),
    "large images": (torch.rand(5, 3, 224, 224), 3 * 18 * 18),
    "images with channels last": (torch.rand(5, 64, 64, 3), 3 * 18 * 18),
    "bytes": (torch.randint(0, 255, (5, 1, 8, 8), dtype=torch.uint8), 64),
    "tokens": (torch.randint(0, 500, (5, 40)), None),
    "many tokens": (torch.randint(0, 50_000, (5, 40)), MAX_COLUMNS),
    "categories": (torch.tensor([[0, 2], [1, 0], [2, 2], [0, 1], [1, 1]]), 3 + 2 * 3),
    "one category": (torch.tensor([0, 2, 1, 1, 0]), 3 + 3),
    "series": (torch.rand(5, 400, 9), MAX_COLUMNS),
    "with gaps": (torch.tensor([[1.0, float("nan")]] * 5), 2),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_of_any_kind_become_columns(name: str) -> None:
    given, columns = INPUTS[name]
    found = feature_matrix([given])
    assert found.shape == (5, columns if columns is not None else int(given.max()) + 1)
    assert np.isfinite(found).all()


def test_categories_and_numbers_stand_side_by_side() -> None:
    assert feature_matrix([torch.rand(5, 3), torch.tensor([[0], [1], [1], [0], [2]])]).shape == (5, 3 + 3 + 3)


def test_another_task_is_refused() -> None:
    x = torch.rand(64, 8)
    setup = training_setup(mlp(8, 8, 3), (x, x[:, :3].round()), (x, x[:, :3].round()), nn.BCEWithLogitsLoss())
    errors = browse(setup)
    with pytest.raises(SetupError, match="expected one class or one number per row"):
        errors.baselines()
