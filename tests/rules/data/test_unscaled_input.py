"""Tests of D104: the scale of inputs where they meet weights, in several styles of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings, setup_builder

X, Y = points()
CE = nn.CrossEntropyLoss()
IMAGES = torch.randint(0, 256, (64, 3, 8, 8), generator=torch.Generator().manual_seed(0)).float()
TABLE = X * torch.tensor([1.0, 50.0, 4e4, 1.0]) + torch.tensor([0.0, 200.0, 1e5, 2.0])


class FunctionalLinear(nn.Module):
    """A linear layer from a parameter, after a function of the input."""

    def __init__(self, prepare: Callable[[Tensor], Tensor] = lambda x: x) -> None:
        super().__init__()
        self.prepare = prepare
        self.weight = nn.Parameter(torch.randn(3, 4) / 2)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.prepare(x), self.weight)


class Scaled(nn.Module):
    """A layer that multiplies by a constant."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


class MatrixProduct(FunctionalLinear):
    """A linear layer by the matrix product operator."""

    def forward(self, x: Tensor) -> Tensor:
        return self.prepare(x) @ self.weight.t()


class RecurrentModel(nn.Module):
    """The last state of a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0][:, -1])


class AttentionModel(nn.Module):
    """Attention directly on the input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x, x, x)[0].mean(1))


class TokenModel(nn.Module):
    """An embedding of large token numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(5000, 8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.embedding(tokens).mean(1))


def image_model(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers, nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))


def dict_setup() -> Setup:
    batches = [{"pixels": IMAGES[i : i + 16], "labels": Y[i : i + 16]} for i in range(0, 64, 16)]
    return Setup(image_model(), batches, loss_fn=CE)


FRAMES = TABLE.unsqueeze(1).expand(64, 5, 4).contiguous()
FAULTY: dict[str, Callable[[], Any]] = {
    "table": setup_builder(network(3), TABLE),
    "functional": setup_builder(FunctionalLinear(), TABLE),
    "operator": setup_builder(MatrixProduct(), TABLE),
    "reduced precision": setup_builder(network(3).bfloat16(), TABLE.bfloat16()),
    "recurrent": setup_builder(RecurrentModel(), FRAMES),
    "attention": setup_builder(AttentionModel(), FRAMES),
    "8-bit images": setup_builder(image_model(), IMAGES),
    "8-bit images, flat": setup_builder(nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), IMAGES),
    "dictionary": dict_setup,
    "divided twice": setup_builder(image_model(), IMAGES / 255 / 255),
    "layer norm over columns of different scales": setup_builder(
        nn.Sequential(nn.LayerNorm(4, elementwise_affine=False), network(3)), TABLE
    ),
    "divided twice, then centered": setup_builder(image_model(), (IMAGES / 255 / 255 - 0.5) / 0.5),
    "level in forward": setup_builder(FunctionalLinear(lambda x: 0.02 * x + 5), X),
    "columns of different scales before batch norm": setup_builder(
        nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)), TABLE
    ),
}
HEALTHY: dict[str, Callable[[], Any]] = {
    "unit scale": setup_builder(network(3), X),
    "scaled in forward": setup_builder(FunctionalLinear(lambda x: (x - TABLE.mean(0)) / TABLE.std(0)), TABLE),
    "pixels scaled by a layer": setup_builder(image_model(nn.Identity()), IMAGES / 255),
    "batch norm first": setup_builder(nn.Sequential(nn.BatchNorm1d(4), network(3)), TABLE),
    "norm without weights first": setup_builder(
        nn.Sequential(nn.LayerNorm(4, elementwise_affine=False), network(3)), 1e4 * X
    ),
    "token numbers": setup_builder(TokenModel(), torch.randint(0, 5000, (64, 6))),
    "pixels centered": setup_builder(image_model(), (IMAGES / 255 - 0.5) / 0.5),
    "constant input": setup_builder(network(3), torch.ones(64, 4)),
    "4-bit images": setup_builder(image_model(), (IMAGES / 16).floor()),
    "one-hot": setup_builder(network(3), F.one_hot(Y, 4).float()),
    "rare flags": setup_builder(network(3), (X > 2).float()),
}


@pytest.mark.parametrize("name", FAULTY)
def test_unscaled_input_of_raw_units_is_a_warning(name: str) -> None:
    severities = {finding.severity for finding in rule_findings(FAULTY[name](), "D104")}
    assert severities == {"warning"}


@pytest.mark.parametrize("name", HEALTHY)
def test_unscaled_input_when_the_model_or_data_scales_is_quiet(name: str) -> None:
    assert rule_findings(HEALTHY[name](), "D104") == []


def test_unscaled_input_before_batch_norm_is_a_note() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 3))
    assert [finding.severity for finding in rule_findings(minimal_setup(model, IMAGES, Y, CE), "D104")] == ["note"]


NOISE = torch.randn(64, 1, 8, 8, generator=torch.Generator().manual_seed(1))
ROWS = NOISE.flatten(2)
COLUMN_SCALES = 1000.0 ** (torch.arange(8) % 2)


def convolutional_setup(x: Tensor) -> Setup:
    channels = x.shape[1]
    layers: list[nn.Module] = [nn.Conv1d(channels, 4, 3), nn.BatchNorm1d(4), nn.Flatten(), nn.Linear(4 * 62, 3)]
    if x.dim() == 4:
        layers = [nn.Conv2d(channels, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 36, 3)]
    return minimal_setup(nn.Sequential(*layers), x, Y, CE)


GRADUAL = torch.logspace(0, 4, 64)
MIXED_SCALES = {
    "every second column of images": NOISE * COLUMN_SCALES,
    "a table in one channel": ROWS * torch.where(torch.arange(64) % 3 == 0, 1e4, 1.0),
    "half of the rows of images": NOISE * torch.tensor([1.0, 300, 300, 1, 300, 1, 1, 300])[:, None],
    "some columns without spread": ROWS * torch.where(torch.arange(64) % 8 == 0, 0.0, 1e3 ** (torch.arange(64) % 2)),
    "one of two channels": torch.cat([100 * NOISE, NOISE * 100 * COLUMN_SCALES / 300], dim=1),
    "levels of columns": ROWS + torch.where(torch.arange(64) % 2 == 0, 5e3, 0.0),
}
COMMON_SCALES = {
    "noise": 300 * NOISE,
    "spectrum": ROWS * GRADUAL,
    "drawings with borders": NOISE * 300 * F.pad(torch.ones(4, 4), (2, 2, 2, 2)),
    "loud half": NOISE * torch.where(torch.arange(8) < 4, 1.0, 300.0)[:, None],
    "after an onset": ROWS * torch.where(torch.arange(64) < 20, 0.1, 1e4),
    "between two onsets": ROWS * torch.where((torch.arange(64) - 32).abs() < 12, 1e4, 0.1),
    "dark half": NOISE * torch.where(torch.arange(8) < 4, 10.0, 300.0)[:, None],
    "one large position": ROWS * torch.where(torch.arange(64) == 5, 1e4, 10.0),
    "8-bit images with a black half": IMAGES[:, :1] * (torch.arange(8) < 4),
    "trend": ROWS + 40 * torch.arange(64),
}


@pytest.mark.parametrize("name", MIXED_SCALES)
def test_d104_positions_on_other_scales_before_a_normalization_are_a_warning(name: str) -> None:
    (finding,) = rule_findings(convolutional_setup(MIXED_SCALES[name]), "D104")
    assert finding.severity == "warning"


@pytest.mark.parametrize("name", COMMON_SCALES)
def test_d104_positions_on_one_scale_before_a_normalization_are_a_note(name: str) -> None:
    (finding,) = rule_findings(convolutional_setup(COMMON_SCALES[name]), "D104")
    assert finding.severity == "note"


def test_d104_steps_on_other_scales_before_a_normalization_of_each_step_are_a_note() -> None:
    """A layer that reads one step at a time sums over no others."""
    steps = torch.randn(64, 16, 4, generator=torch.Generator().manual_seed(2)) * COLUMN_SCALES.repeat(2)[:, None]
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Flatten(), nn.Linear(128, 3))
    assert [finding.severity for finding in rule_findings(minimal_setup(model, steps, Y, CE), "D104")] == ["note"]


def test_unscaled_input_finding_names_feature_module_and_divisor() -> None:
    names = ["rooms", "area", "income", "floor"]
    (finding,) = rule_findings(minimal_setup(network(3), TABLE, Y, CE, feature_names=names), "D104")
    assert "feature income" in finding.message
    assert finding.where.module == "0"
    (finding,) = rule_findings(setup_builder(image_model(), IMAGES)(), "D104")
    assert "/ 255" in finding.fix


def by_row(table: Tensor, correction: int = 1) -> Tensor:
    return (table - table.mean(1, keepdim=True)) / table.std(1, keepdim=True, correction=correction)


def raw_table() -> Tensor:
    noise = torch.randn(64, 6, generator=torch.Generator().manual_seed(3))
    return torch.tensor([3.0, 800.0, 5.0, 20.0, 1.0, 2.0]) + noise * torch.tensor([1.0, 30.0, 1.0, 2.0, 0.2, 0.3])


@pytest.mark.parametrize("scale", [1.0, torch.tensor([9.0, 0.04, 1.0, 2.0, 30.0, 11.0])], ids=["one", "several"])
@pytest.mark.parametrize("correction", [0, 1])
@pytest.mark.parametrize("model", [nn.Linear(6, 3), nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))])
def test_unscaled_input_of_rows_standardized_one_by_one_names_the_axis(
    model: nn.Module, correction: int, scale: Any
) -> None:
    table = by_row(scale * raw_table(), correction)
    (finding,) = rule_findings(minimal_setup(model, table, Y, CE), "D104")
    assert finding.cause.startswith("Each row was standardized, not each column")
    means = table[:16].mean(0)
    assert f"range from {means.min():.3g} to {means.max():.3g}" in finding.message


def test_unscaled_input_of_rows_of_length_one_names_the_axis() -> None:
    (finding,) = rule_findings(minimal_setup(nn.Linear(6, 3), F.normalize(raw_table()), Y, CE), "D104")
    assert finding.cause.startswith("Each row was scaled, not each column")


def test_unscaled_input_of_a_common_level_does_not_blame_rows() -> None:
    table = torch.tensor([-1.0, 1.0, 2.0, 3.0]) + 0.01 * X
    (finding,) = rule_findings(minimal_setup(network(3), table, Y, CE), "D104")
    assert "row" not in finding.cause
    assert "range from -1 to 3" in finding.message


def spectra() -> Tensor:
    """Rows with one smooth curve of 24 channels, and noise."""
    noise = torch.randn(64, 24, generator=torch.Generator().manual_seed(3))
    return torch.linspace(0, 6, 24).sin() + 0.3 * noise


@pytest.mark.parametrize(
    "table",
    [
        (raw_table() - raw_table().mean(0)) / raw_table().std(0),
        by_row(torch.randn(64, 6)),
        by_row(spectra()),
        F.normalize(0.7 * torch.ones(6) + torch.randn(64, 6, generator=torch.Generator().manual_seed(3))),
        F.normalize(3 + spectra()),
    ],
)
def test_unscaled_input_of_columns_with_spread_is_quiet(table: Tensor) -> None:
    assert rule_findings(minimal_setup(nn.Linear(table.shape[1], 3), table, Y, CE), "D104") == []


class Stream(nn.Module):
    """A first layer whose result is normalized for a block, and that ``passes`` the normalization or not."""

    def __init__(self, first: nn.Module, norm: nn.Module, head: nn.Module, passes: Callable[..., Tensor]) -> None:
        super().__init__()
        self.first, self.norm, self.head, self.passes = first, norm, head, passes

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        return self.head(self.passes(h, torch.relu(self.norm(h))).flatten(1))


def in_stream(passes: Callable[..., Tensor], width: int = 8) -> Callable[[], Any]:
    return setup_builder(Stream(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(width, 3), passes), 300 * X)


def in_convolutions(passes: Callable[..., Tensor], width: int = 144) -> Callable[[], Any]:
    model = Stream(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(width, 3), passes)
    return setup_builder(model, IMAGES)


def add_in_place(h: Tensor, branch: Tensor) -> Tensor:
    branch += h
    return branch


PASSING = {
    "residual sum": in_stream(lambda h, branch: h + branch),
    "sum in place": in_stream(add_in_place),
    "joined": in_stream(lambda h, branch: torch.cat([h, branch], -1), 16),
    "weights of its own": in_stream(lambda h, branch: F.linear(h, torch.eye(8)) * branch),
    "images": in_convolutions(lambda h, branch: branch + h),
}
NORMALIZED = {
    "block alone": in_stream(lambda h, branch: branch),
    "two norms": in_stream(lambda h, branch: F.layer_norm(h, (8,)) + branch),
    "norms joined": in_stream(lambda h, branch: torch.cat([branch, F.rms_norm(h, (8,))], -1), 16),
    "detached statistic": in_stream(lambda h, branch: branch * (1 + 0 * h.detach().abs().mean())),
    "images": in_convolutions(lambda h, branch: branch),
}


@pytest.mark.parametrize("name", PASSING)
def test_d104_large_inputs_that_pass_a_normalization_are_a_warning(name: str) -> None:
    assert [finding.severity for finding in rule_findings(PASSING[name](), "D104")] == ["warning"]


@pytest.mark.parametrize("name", NORMALIZED)
def test_d104_large_inputs_that_only_a_normalization_reads_are_a_note(name: str) -> None:
    assert [finding.severity for finding in rule_findings(NORMALIZED[name](), "D104")] == ["note"]


def without_bias(first: nn.Module) -> nn.Module:
    for name, parameter in first.named_parameters():
        if "bias" in name:
            nn.init.zeros_(parameter)
    return first


def with_large_weights(first: nn.Linear) -> nn.Linear:
    nn.init.normal_(first.weight, std=100.0)
    return first


SMALL = X / 250
DROWNED = {
    "perceptron": setup_builder(network(3), SMALL),
    "recurrent": setup_builder(RecurrentModel(), SMALL.unsqueeze(1).expand(64, 5, 4).contiguous()),
    "reduced precision": setup_builder(network(3).bfloat16(), SMALL.bfloat16()),
    "signal": setup_builder(
        nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 6, 3), nn.Flatten(), nn.Linear(12, 3)), SMALL
    ),
    "scaled in forward": setup_builder(nn.Sequential(Scaled(0.004), network(3)), X),
}
SMALL_BY_DESIGN = {
    "no bias": setup_builder(nn.Sequential(nn.Linear(4, 8, bias=False), nn.ReLU(), nn.Linear(8, 3)), SMALL),
    "bias of zeros": setup_builder(without_bias(nn.Linear(4, 3)), SMALL),
    "large weights": setup_builder(nn.Sequential(with_large_weights(nn.Linear(4, 8)), nn.Linear(8, 3)), SMALL),
    "product of matrices": setup_builder(MatrixProduct(), SMALL),
    "functional": setup_builder(FunctionalLinear(), SMALL),
}


@pytest.mark.parametrize("name", DROWNED)
def test_d104_small_inputs_that_the_bias_hides_are_a_warning(name: str) -> None:
    (finding,) = rule_findings(DROWNED[name](), "D104")
    assert finding.severity == "warning"
    assert "The bias hides it" in finding.cause


@pytest.mark.parametrize("name", SMALL_BY_DESIGN)
def test_d104_small_inputs_that_the_first_weights_expect_are_a_note(name: str) -> None:
    assert [finding.severity for finding in rule_findings(SMALL_BY_DESIGN[name](), "D104")] == ["note"]


@pytest.mark.parametrize("model", [nn.BatchNorm1d(4), nn.LayerNorm(4), nn.Identity()])
def test_d104_small_inputs_that_are_scaled_before_the_first_weights_are_quiet(model: nn.Module) -> None:
    scaling = Scaled(250.0) if isinstance(model, nn.Identity) else model
    assert rule_findings(setup_builder(nn.Sequential(scaling, network(3)), SMALL)(), "D104") == []


class Mapped(nn.Module):
    """A layer that torch.vmap applies to each sample, or several layers that it applies to all, before another one."""

    def __init__(self, *, maps_samples: bool) -> None:
        super().__init__()
        self.first, self.second, self.maps_samples = nn.Linear(4, 3), nn.Linear(4, 3), maps_samples

    def forward(self, x: Tensor) -> Tensor:
        if self.maps_samples:
            first = torch.vmap(lambda row: self.first(row[None])[0])(x)
        else:
            first = torch.vmap(F.linear, (None, 0))(x, self.first.weight[None])[0]
        return first + self.second(x)


@pytest.mark.parametrize("maps_samples", [False, True])
def test_d104_reads_layers_beside_those_of_vmap(*, maps_samples: bool) -> None:
    assert rule_findings(minimal_setup(Mapped(maps_samples=maps_samples), X, Y, CE), "D104") == []
    (finding,) = rule_findings(minimal_setup(Mapped(maps_samples=maps_samples), TABLE, Y, CE), "D104")
    assert finding.severity == "warning"
