"""Tests of M304: models that mix samples by mistake, by design, and not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.model.networks import WrappedLayer
from tests.rules.rule_findings import checkup_findings, rule_findings, setup_builder

X, Y = points()
SERIES = torch.randn(64, 6, 8, generator=torch.Generator().manual_seed(2))
TOKENS = torch.randint(0, 11, (64, 7), generator=torch.Generator().manual_seed(1))
CE = nn.CrossEntropyLoss()


class SelfAttention(nn.Module):
    """Self-attention by ``nn.MultiheadAttention``."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, **options)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


def encoder(batch_first: bool) -> nn.Module:
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=batch_first)


def first_position(x: Tensor) -> Tensor:
    return x[:, 0]


def last_state(result: Any) -> Tensor:
    return result[0][:, -1]


def batch_attention(x: Tensor) -> Tensor:
    return torch.softmax(x @ x.t() / 2, dim=1) @ x


def setup_with_dict_batches() -> Setup:
    batches = [{"series": SERIES[i : i + 16], "labels": Y[i : i + 16]} for i in range(0, 64, 16)]
    return Setup(WrappedLayer(nn.LSTM(8, 5), 5, after=last_state), batches, loss_fn=CE)


def token_window(start: int) -> tuple[Tensor, Tensor]:
    return TOKENS.t()[start : start + 5], TOKENS.t()[start + 1 : start + 6]


def time_first_setup() -> Setup:
    model = WrappedLayer(nn.LSTM(8, 11), 11, after=lambda result: result[0], embed=True)
    model.head = nn.Linear(11, 11)
    return Setup(
        model,
        [token_window(0), token_window(1)],
        loss_fn=lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten()),
    )


class CarriedState(nn.Module):
    """A recurrent network of pieces (steps, series, values), which goes on with the state of the piece before."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.state = nn.GRU(8, 3), torch.zeros(1, 6, 3)

    def forward(self, x: Tensor, state: Tensor | None = None) -> Tensor:
        output, self.state = self.layer(x, state)
        return cast(Tensor, output)


FAULTS: dict[str, tuple[Callable[[], Setup], str]] = {
    "lstm, dict batches": (setup_with_dict_batches, "layer"),
    "encoder": (
        setup_builder(WrappedLayer(encoder(False), 8, after=first_position, embed=True), TOKENS),
        "layer",
    ),
    "attention": (setup_builder(WrappedLayer(SelfAttention(), 8, after=first_position), SERIES), "layer.attention"),
    "view for transpose": (
        setup_builder(WrappedLayer(nn.GRU(8, 5), 5, lambda x: x.view(6, -1, 8), lambda r: r[1][0]), SERIES),
        "layer",
    ),
    "sum over an axis of a view": (
        setup_builder(WrappedLayer(nn.Linear(8, 8), 8, after=lambda h: h.flatten(0, 1).view(6, -1, 8).sum(0)), SERIES),
        "",
    ),
    "softmax over samples": (setup_builder(network(3, nn.Softmax(dim=0))), "3"),
    "functional, bf16": (
        setup_builder(nn.Sequential(network(8, nn.Linear(8, 3)), nn.Softmax(0)).bfloat16(), X.bfloat16()),
        "1",
    ),
    "divided by norms of columns": (
        setup_builder(WrappedLayer(nn.Linear(4, 8), 8, after=lambda h: h / h.norm(dim=0))),
        "",
    ),
    "normalized by column": (
        setup_builder(WrappedLayer(nn.Linear(4, 8), 8, after=lambda h: F.normalize(h.relu(), dim=0))),
        "",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_batch_mixing_by_mistake_is_error_at_module(name: str) -> None:
    build, module = FAULTS[name]
    (finding,) = checkup_findings(build(), "M304")
    assert finding.severity == "error"
    assert finding.where.module == (module or None)


class Views(nn.Module):
    """Two views of each sample in one batch, normalized along an axis, and taken apart again."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.body, self.axis = nn.Linear(4, 8), axis

    def forward(self, views: Tensor) -> Tensor:
        unit = F.normalize(self.body(views.flatten(0, 1)), dim=self.axis)
        return unit.view(len(views), 2, 8).flatten(1)


def test_batch_mixing_of_a_call_along_the_axis_of_several_rows_a_sample_names_that_axis() -> None:
    views = torch.stack([X, X.roll(1, 0)], 1)
    (finding,) = checkup_findings(setup_builder(Views(0), views)(), "M304")
    assert "along axis 0 of (" in finding.cause
    assert "dim=-1" in finding.fix
    assert checkup_findings(setup_builder(Views(-1), views)(), "M304") == []


INTENDED: dict[str, Callable[[], Setup]] = {
    "attention over the batch": setup_builder(WrappedLayer(nn.Linear(4, 8), 8, after=batch_attention)),
    "encoder over the batch": setup_builder(
        WrappedLayer(encoder(False), 8, lambda x: x[:, :1], first_position), SERIES
    ),
    "standardized manually": setup_builder(
        WrappedLayer(nn.Linear(4, 8), 8, after=lambda h: (h - h.mean(0)) / (h.std(0) + 1e-3))
    ),
}


@pytest.mark.parametrize("name", INTENDED)
def test_batch_mixing_by_design_is_note(name: str) -> None:
    assert [finding.severity for finding in checkup_findings(INTENDED[name](), "M304")] == ["note"]


HEALTHY: dict[str, Callable[[], Setup]] = {
    "batch norm": setup_builder(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))),
    "dropout": lambda: classifier(nn.Dropout(0.5)),
    "batch-first encoder": setup_builder(WrappedLayer(encoder(True), 8, after=first_position, embed=True), TOKENS),
    "transposed": setup_builder(WrappedLayer(nn.GRU(8, 5), 5, lambda x: x.transpose(0, 1), lambda r: r[1][0]), SERIES),
    "instance norm": setup_builder(WrappedLayer(nn.InstanceNorm1d(6), 8, after=first_position), SERIES),
    "heads by reshape": setup_builder(
        WrappedLayer(nn.Linear(8, 8), 8, after=lambda h: h.view(-1, 6, 2, 4).transpose(1, 2)[:, :, 0].flatten(1)),
        SERIES,
    ),
    "sum of flattened rows": setup_builder(
        WrappedLayer(nn.Linear(8, 8), 8, after=lambda h: h.flatten(0, 1).view(-1, 6, 8).sum(1)), SERIES
    ),
    "loss over pairs": setup_builder(
        network(3), loss_fn=lambda out, y: F.cross_entropy(out @ out.t(), torch.arange(len(out)))
    ),
    "time first": time_first_setup,
}


@pytest.mark.parametrize(("batch_size", "codes"), [(None, []), (5, ["M304"])])
def test_batch_mixing_is_open_where_the_dataset_makes_batches(batch_size: int | None, codes: list[str]) -> None:
    pieces: list[Any] = [(torch.randn(5, 6, 8), torch.randn(5, 6, 3)) for _ in range(8)]
    samples = [(x, y) for piece in pieces for x, y in zip(*piece, strict=True)]
    loader = DataLoader(pieces if batch_size is None else samples, batch_size=batch_size)
    model = CarriedState()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    debugger = Debugger(model, loader, loss_fn=nn.MSELoss(), optimizer=optimizer)
    debugger.checkup()
    with debugger.watch():
        for x, y in [*loader] * 20:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x, model.state.detach()), y).backward()
            optimizer.step()
    assert [finding.code for finding in debugger.findings if finding.code == "M304"] == codes


@pytest.mark.parametrize("name", HEALTHY)
def test_batch_mixing_ignores_models_with_independent_samples(name: str) -> None:
    assert checkup_findings(HEALTHY[name](), "M304") == []


class ConcatenatedBranches(nn.Module):
    """Two branches, concatenated along the wrong axis."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        branches = torch.cat([self.first(x).relu(), self.second(x).tanh()], dim=0)
        branches = branches.view(len(x), -1)
        return self.head(branches)


def test_batch_mixing_by_concatenation_points_to_concatenating_line() -> None:
    (finding,) = checkup_findings(setup_builder(ConcatenatedBranches())(), "M304")
    assert "torch.cat" in (finding.where.source or "")
    assert finding.where.module == "head"


class PairScores(nn.Module):
    """The similarities of all pairs of a batch, by one of several products."""

    def __init__(self, product: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.left, self.right, self.product = nn.Linear(4, 8), nn.Linear(4, 8), product

    def forward(self, x: Tensor) -> Tensor:
        return self.product(self.left(x), self.right(x))


@pytest.mark.parametrize(
    "product", [lambda a, b: a @ b.T, lambda a, b: torch.einsum("id,jd->ij", a, b), lambda a, b: a.mm(b.t())]
)
def test_batch_mixing_of_a_product_of_all_pairs_does_not_name_an_axis(
    product: Callable[[Tensor, Tensor], Tensor],
) -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    setup = minimal_setup(PairScores(product), x, torch.arange(64) % 16, nn.CrossEntropyLoss())
    (finding,) = rule_findings(setup, "M304")
    assert finding.severity == "note"
    assert "different samples with each other" in finding.cause
    assert "dim=-1" not in finding.fix


class PartlyTrained(nn.Module):
    """An encoder with batch normalization, and a part that the first loss does not reach."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 8), norm, nn.ReLU())
        self.predictor, self.head = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x).detach())


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(8), nn.BatchNorm1d(8, affine=False), nn.BatchNorm1d(8, momentum=0.9)])
def test_batch_mixing_after_passes_that_moved_running_statistics_is_quiet(norm: nn.Module) -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    setup = minimal_setup(PartlyTrained(norm), 3 * x + 1, (x[:, 0] > 0).long(), nn.CrossEntropyLoss())
    assert checkup_findings(setup, "M304") == []


class SharedMask(nn.Module):
    """Classifies padded tokens; the mask of the first sample counts for all, at one of two places, or for none."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault, self.embed, self.head = fault, nn.Embedding(11, 8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        x, keep = self.embed(tokens), tokens > 4
        scores = x @ x.transpose(1, 2)
        if self.fault == "selected":
            keep = keep[0]
        shape = keep.unsqueeze(-2)
        mask = shape[:1] if self.fault == "broadcast" else shape
        weights = torch.softmax(scores.masked_fill(~mask, -1e9), dim=-1)
        return self.head((weights @ x).mean(1))


@pytest.mark.parametrize("fault", ["selected", "broadcast"])
def test_m304_mask_of_one_sample_for_all_is_an_error(fault: str) -> None:
    (finding,) = rule_findings(minimal_setup(SharedMask(fault), TOKENS, Y, CE), "M304")
    assert finding.severity == "error"
    assert "mask of one sample" in finding.cause


def test_m304_mask_of_each_sample_is_silent() -> None:
    assert rule_findings(minimal_setup(SharedMask(""), TOKENS, Y, CE), "M304") == []
