"""Tests of M326: values that are normalized over positions, and models that normalize them over other axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.rules.model.attention_networks import TOKENS, attention_setup
from tests.rules.rule_findings import rule_faults, rule_findings


class Apply(nn.Module):
    """A layer that applies a function, around another layer if there is one."""

    def __init__(self, function: Callable[..., Tensor], layer: nn.Module | None = None) -> None:
        super().__init__()
        self.function, self.layer = function, layer

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x) if self.layer is None else self.function(self.layer, x)


def transposed(layer: nn.Module, x: Tensor) -> Tensor:
    y: Tensor = layer(x.transpose(1, 2)).transpose(1, 2)
    return y


def centered(layer: nn.Module, x: Tensor) -> Tensor:
    y: Tensor = layer(x - x.mean(1, keepdim=True))
    return y


def standardized(x: Tensor) -> Tensor:
    return (x - x.mean(-2, keepdim=True)) / (x.std(-2, keepdim=True) + 1e-5)


def scaled(x: Tensor) -> Tensor:
    return x * x.square().mean(1, keepdim=True).rsqrt()


def with_norm(make: Callable[[], nn.Module], **options: bool) -> Setup:
    setup = attention_setup("torch", **options)
    setup.eager_model.get_submodule("norms")[1] = make()  # type: ignore[index]
    return setup


OVER_POSITIONS = {
    "layer norm": lambda: Apply(transposed, nn.LayerNorm(6)),
    "instance norm": lambda: Apply(transposed, nn.InstanceNorm1d(16, affine=True)),
    "groups of one": lambda: Apply(transposed, nn.GroupNorm(16, 16)),
    "centered before": lambda: Apply(centered, nn.LayerNorm(16)),
    "by hand": lambda: Apply(standardized),
    "root mean square": lambda: Apply(scaled),
}


@pytest.mark.parametrize("post_norm", [False, True])
@pytest.mark.parametrize("norm", OVER_POSITIONS)
def test_normalization_over_positions_fires(norm: str, post_norm: bool) -> None:
    (finding,) = rule_faults(with_norm(OVER_POSITIONS[norm], post_norm=post_norm), "M326")
    assert finding.evidence["positions"] == 6


class Mixer(nn.Module):
    """A classifier of sequences: what embeds them, what mixes the positions, and a head."""

    def __init__(self, embed: nn.Module, mix: nn.Module, places: Tensor | None = None) -> None:
        super().__init__()
        self.embed, self.mix, self.places, self.head = embed, mix, places, nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        scores: Tensor = self.head(self.mix(x if self.places is None else x + self.places).mean(1))
        return scores


class Products(nn.Module):
    """An attention whose keys are normalized in some way: as linear, efficient or cross-covariance attention does."""

    def __init__(self, normalize: Callable[[Tensor], Tensor], axis: int = -1) -> None:
        super().__init__()
        self.normalize, self.axis, self.layers = normalize, axis, nn.ModuleList(nn.Linear(16, 16) for _ in range(3))
        self.norm = nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (layer(self.norm(x)) for layer in self.layers)
        key = self.normalize(key)
        if self.axis == 1:
            return x + (query.transpose(1, 2) @ key).softmax(-1) @ value.transpose(1, 2) @ x
        return x + query @ (key.transpose(1, 2) @ value)


def rotated(x: Tensor) -> Tensor:
    angle = torch.arange(x.shape[1])[:, None] / 100 ** (torch.arange(8) / 8)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * angle.cos() - second * angle.sin(), first * angle.sin() + second * angle.cos()], -1)


def encoder(norm_first: bool) -> nn.Module:
    return nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, norm_first=norm_first)


def convolved(norm: nn.Module) -> nn.Module:
    """Convolutions with a normalization over positions, before an attention."""
    layers = nn.Sequential(nn.Conv1d(16, 16, 3, padding=1), norm, nn.ReLU())
    return nn.Sequential(Apply(transposed, layers), encoder(True))


SINUSOIDS = torch.stack([torch.sin(torch.arange(6) / 10 ** (k / 8) + k % 2) for k in range(16)], dim=1)
MIXERS: dict[str, Callable[[], nn.Module]] = {
    "pre-norm": lambda: Mixer(nn.Embedding(12, 16), encoder(True), nn.Parameter(torch.randn(6, 16))),
    "post-norm, sinusoids": lambda: Mixer(nn.Embedding(12, 16), encoder(False), SINUSOIDS),
    "linear attention": lambda: Mixer(nn.Embedding(12, 16), Products(lambda key: F.elu(key) + 1)),
    "keys by softmax over positions": lambda: Mixer(nn.Embedding(12, 16), Products(partial(torch.softmax, dim=1))),
    "unit keys": lambda: Mixer(nn.Embedding(12, 16), Products(partial(F.normalize, dim=-1))),
    "rotary positions": lambda: Mixer(nn.Embedding(12, 16), Products(rotated)),
    "batch norm over positions": lambda: Mixer(nn.Embedding(12, 16), convolved(nn.BatchNorm1d(16))),
    "instance norm of convolutions": lambda: Mixer(nn.Embedding(12, 16), convolved(nn.InstanceNorm1d(16))),
    "batch norm in a Transformer": lambda: Mixer(
        nn.Embedding(12, 16), nn.Sequential(encoder(True), Apply(transposed, nn.BatchNorm1d(16)), encoder(True))
    ),
}


@pytest.mark.parametrize("name", MIXERS)
def test_other_normalizations_do_not_fire(name: str) -> None:
    setup = minimal_setup(MIXERS[name](), TOKENS, TOKENS[:, 0] % 3, nn.CrossEntropyLoss())
    assert rule_findings(setup, "M326") == []


def test_permutations_of_the_same_tokens_do_not_fire() -> None:
    """Each sample has all tokens, so that the mean over positions is the same before any normalization."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.stack([torch.randperm(6, generator=generator) for _ in range(64)])
    setup = minimal_setup(MIXERS["pre-norm"](), tokens, tokens[:, 0] % 3, nn.CrossEntropyLoss())
    assert rule_findings(setup, "M326") == []


def test_series_that_are_standardized_over_time_do_not_fire() -> None:
    """Kim et al. 2022 normalize each series of the input, so that its level does not matter."""
    x = torch.randn(64, 6, 4, generator=torch.Generator().manual_seed(0)).cumsum(1)
    model = Mixer(nn.Sequential(Apply(standardized), nn.Linear(4, 16)), encoder(True))
    assert rule_findings(minimal_setup(model, x, TOKENS[:, 0] % 3, nn.CrossEntropyLoss()), "M326") == []


def test_centered_series_inside_the_model_are_a_note() -> None:
    """Autoformer centers what its layers return for the seasonal part."""
    x = torch.randn(64, 6, 4, generator=torch.Generator().manual_seed(0))
    model = Mixer(nn.Sequential(nn.Linear(4, 16), Apply(centered, nn.Linear(16, 16))), encoder(True))
    (finding,) = rule_findings(minimal_setup(model, x, TOKENS[:, 0] % 3, nn.CrossEntropyLoss()), "M326")
    assert finding.severity == "note"
