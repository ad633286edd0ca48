"""Tests of the built-in changes of what the model receives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.tools.try_fix.change import parse_change
from tests.tools.try_fix.test_catalog import inspect_copy

LINEAR = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))


def series_setup(x: Tensor, model: nn.Module = LINEAR, val: Tensor | None = None) -> Setup:
    """Two classes; the first input is ``x`` in training, and ``val`` in validation."""
    y = torch.arange(len(x)) % 2
    loaders = [DataLoader(TensorDataset(part, y), 8) for part in (x, x if val is None else val)]
    optimizers = (torch.optim.SGD(model.parameters(), lr=0.1),)
    return Setup(model, *loaders, loss_fn=nn.CrossEntropyLoss(), optimizers=optimizers)


def received(copy: TreatedSetup) -> Tensor:
    """Return what the model receives of the first training batch."""
    inputs: list[Tensor] = []
    copy.model[0].register_forward_pre_hook(lambda module, args: inputs.append(args[0]))  # type: ignore[index]
    copy.setup.predict(copy.batches[0])
    return inputs[0]


def validation_batch(copy: TreatedSetup) -> Any:
    return next(iter(copy.val_loader))


def test_window_ends_earlier_with_its_first_step_repeated() -> None:
    x = torch.randn(32, 4, 3)
    seen = inspect_copy(series_setup(x), "end window earlier=1", received)
    assert torch.equal(seen, torch.cat([x[:8, :1], x[:8, :3]], 1))


def test_tokens_are_shifted_behind_a_token_that_does_not_occur() -> None:
    x = torch.randint(0, 9, (32, 6))
    model = nn.Sequential(nn.Embedding(11, 2), nn.Flatten(), nn.Linear(12, 2))
    seen = inspect_copy(series_setup(x, model), "shift tokens=0", received)
    assert torch.equal(seen[:, 1:], x[:8, :-1])
    assert seen[:, 0].tolist() == [int(x.max()) + 1] * 8


def test_missing_values_are_filled_in_their_feature_and_standardized() -> None:
    x = torch.randn(32, 12) + 5
    x[::4, 3] = -999
    seen = inspect_copy(series_setup(x), "fill missing values=3:-999.0", received)
    assert seen[:, 3].abs().max() < 5
    assert torch.equal(seen[:, :3], x[:8, :3])


def test_validation_features_get_the_moments_of_training() -> None:
    x = torch.randn(32, 12)
    seen, _ = inspect_copy(series_setup(x, val=1000 * x + 7), "match validation", validation_batch)
    assert torch.allclose(seen, x[:8], atol=1e-4)


def test_validation_columns_and_classes_are_put_in_order() -> None:
    x = torch.randn(32, 3)
    model = nn.Sequential(nn.Linear(3, 2))
    columns, _ = inspect_copy(series_setup(x, model, x[:, [1, 2, 0]]), "order validation=2,0,1", validation_batch)
    assert torch.allclose(columns, x[:8], atol=1e-5)
    _, classes = inspect_copy(series_setup(x, model), "renumber validation=0>1,1>0", validation_batch)
    assert classes.tolist() == [1, 0] * 4


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.head(self.embed(tokens).mean(1))
        return scores


def collate_part(batch: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    """Sort the texts by length, and not their classes."""
    texts = sorted((text for text, _ in batch), key=len, reverse=True)
    return pad_sequence(texts, batch_first=True), torch.tensor([label for _, label in batch])


def test_samples_are_sorted_before_a_collate_function_sorts_a_part_of_them() -> None:
    samples = [(torch.full((2 + i % 5,), 1 + i % 2), i % 2) for i in range(32)]
    model = Pooled()
    loader = DataLoader(samples, 8, collate_fn=collate_part)  # type: ignore[arg-type]
    setup = Setup(
        model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(torch.optim.SGD(model.parameters(), lr=0.1),)
    )
    texts, labels = inspect_copy(setup, "sort before collation", lambda copy: next(iter(copy.train_loader)))
    assert (texts[:, 0] - 1).tolist() == labels.tolist()


@pytest.mark.parametrize(
    "change",
    ["order validation=0,0", "renumber validation=a>b", "fill missing values=x", "shift tokens=0.5"],
)
def test_values_that_cannot_be_read_are_refused(change: str) -> None:
    with pytest.raises(SetupError, match="expected"):
        parse_change(change)
