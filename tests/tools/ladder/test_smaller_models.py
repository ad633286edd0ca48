"""Tests of the user's model at a part of its width or depth."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.crashes.meta import clone_tensor, copy_model
from nbdebug.debugger import Debugger
from nbdebug.setup import Batch, Setup
from nbdebug.tools.ladder.smaller_models import _hidden_layers, _narrow, _repeated_blocks, _skip, smaller_models


class _Convolutional(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
        )
        self.head = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.body(images.reshape(-1, 1, 8, 8)).mean((2, 3)))  # type: ignore[no-any-return]


class _Attention(nn.Module):
    """A transformer whose queries, keys and values are one layer, and whose output are probabilities."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed, self.parts, self.out = nn.Linear(8, width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, rows: Tensor) -> Tensor:
        value = self.embed(rows.reshape(-1, 8, 8))
        q, k, v = (part.unflatten(2, (4, -1)).transpose(1, 2) for part in self.parts(self.norm(value)).chunk(3, 2))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.head((value + self.out(mixed)).mean(1)).softmax(1)  # type: ignore[no-any-return]


class _Recurrent(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.memory, self.head = nn.LSTM(8, width, batch_first=True), nn.Linear(width, 10)

    def forward(self, rows: Tensor) -> Tensor:
        return self.head(self.memory(rows.reshape(-1, 8, 8))[0][:, -1])  # type: ignore[no-any-return]


class _Denoiser(nn.Module):
    """Adds a correction to its input, so that its last layer makes the output although the input shines through."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.correction = nn.Linear(64, 32), nn.Linear(32, 64)

    def forward(self, rows: Tensor) -> Tensor:
        return rows + self.correction(self.hidden(rows).tanh())  # type: ignore[no-any-return]


class _Blocks(nn.Module):
    """Four equal blocks in a row, which take a second argument, and two experts that read the same input."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(_Block() for _ in range(4))
        self.experts = nn.ModuleList(nn.Linear(64, 64) for _ in range(2))

    def forward(self, rows: Tensor) -> Tensor:
        for block in self.blocks:
            rows = block(rows, 0.5)
        return sum(expert(rows) for expert in self.experts)[:, :10]  # type: ignore[index]


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, rows: Tensor, factor: float) -> Tensor:
        return rows + factor * self.layer(rows).relu()  # type: ignore[no-any-return]


def setup_of(model: nn.Module) -> tuple[Setup, Batch]:
    generator = torch.Generator().manual_seed(0)
    rows, classes = torch.rand(64, 64, generator=generator), torch.randint(0, 10, (64,), generator=generator)
    loader = DataLoader(TensorDataset(rows, classes), 64)
    setup = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss()).setup
    return setup, setup.split_batch(next(iter(loader)))


@pytest.mark.parametrize(
    ("model", "layers"),
    [
        (_Convolutional, ["body.0", "body.1", "body.3"]),
        (_Attention, ["embed", "parts", "out", "norm"]),
        (_Recurrent, ["memory"]),
        (_Denoiser, ["hidden"]),
    ],
)
def test_layers_of_the_output_keep_their_channels(model: Callable[[], nn.Module], layers: list[str]) -> None:
    torch.manual_seed(0)
    assert _hidden_layers(*setup_of(model())) == layers


@pytest.mark.parametrize("create", [_Convolutional, _Attention, _Recurrent])
def test_narrowed_model_has_the_parameters_and_the_outputs_of_a_narrow_one(create: Callable[[int], nn.Module]) -> None:
    torch.manual_seed(0)
    setup, batch = setup_of(create(32))
    model = copy_model(setup.eager_model, {}, clone_tensor)
    count = _narrow(setup, model, batch, _hidden_layers(setup, batch), 2)
    narrow = create(16)
    assert count == pytest.approx(sum(p.numel() for p in narrow.parameters()), rel=0.1)
    spreads = [setup.predict(batch, each).detach().std(0).mean().item() for each in (model, narrow)]
    assert 0.4 < spreads[0] / spreads[1] < 2.5


def test_fixed_channels_stay_at_zero_in_training() -> None:
    torch.manual_seed(0)
    setup, batch = setup_of(_Recurrent(32))
    model = copy_model(setup.eager_model, {}, clone_tensor)
    _narrow(setup, model, batch, ["memory"], 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(5):
        optimizer.zero_grad()
        nn.functional.cross_entropy(setup.predict(batch, model), batch.target).backward()
        optimizer.step()
    states = model.memory(batch.args[0].reshape(-1, 8, 8))[0]  # type: ignore[operator]
    assert bool((states[..., 1::4] == 0).all())
    assert not bool((states[..., ::4] == 0).any())


def test_each_second_block_of_a_chain_is_skipped_and_no_expert() -> None:
    torch.manual_seed(0)
    setup, batch = setup_of(_Blocks())
    blocks = _repeated_blocks(setup, batch)
    assert blocks == ["blocks.1", "blocks.3"]
    model = copy_model(setup.eager_model, {}, clone_tensor)
    _skip(model, blocks)
    assert setup.predict(batch, model).shape == (64, 10)
    assert smaller_models(setup, batch)[-1].parameters == 4 * 64 * 65


def test_model_that_reads_its_blocks_itself_is_not_shortened() -> None:
    class Reading(_Blocks):
        def forward(self, rows: Tensor) -> Tensor:
            return super().forward(rows) + self.blocks[1].layer.bias.sum()  # type: ignore[operator, union-attr]

    names = [size.change.name for size in smaller_models(*setup_of(Reading()))]
    assert names == ["a quarter of your width", "half of your width"]


def test_model_without_hidden_layers_has_no_smaller_size() -> None:
    assert smaller_models(*setup_of(nn.Linear(64, 10))) == []
