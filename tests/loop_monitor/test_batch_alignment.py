"""Tests of what a loop feeds to model and loss: rows in another order, rows without gradient, scaled inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
from nbdebug.loop_monitor.row_relations import RowSample, find_row_relation, is_reordered
from nbdebug.rules.examples import mlp, rings, training_setup, waves
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line, summarize_loop

RULES = ("D102", "D104", "D105", "D109", "G416", "L214")

LOOP = """
import torch
from torch.nn import functional as F

def train(setup):
    optimizer, previous = setup.optimizers[0], None
    for _ in range(2):
        for x, y in setup.train_loader:
            {before}
            optimizer.zero_grad()
            output = setup.model({inputs})
            loss = {loss}
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            for x, y in setup.val_loader:
                setup.model({validation})
"""
CROSS_ENTROPY = "F.cross_entropy(output, y)"
SLICE_LOSSES = (
    "F.cross_entropy(output[:, :2], y) + output[:, 2:].square().mean()",
    "F.cross_entropy(output.split([2, 3], 1)[0], y) + output[:, 2:].square().mean()",
    "F.binary_cross_entropy_with_logits(output[:, 0], y.float()) + output[:, 1:].square().mean()",
    "F.smooth_l1_loss(output[:, 4], y.float()) + output[:, :4].square().mean()",
    "F.mse_loss(output.unbind(1)[1], y.float(), reduction='none').mean() + output[:, 2:].square().mean()",
)
SHUFFLED_SLICES = [
    *(("x[torch.randperm(len(x))]", loss) for loss in SLICE_LOSSES),
    ("2 * x.roll(3, 0) + 1", SLICE_LOSSES[0]),
    ("x.flip(0)", SLICE_LOSSES[2]),
]


def classes(samples: int = 256) -> Setup:
    return training_setup(mlp(8, 16, 2), rings(samples), rings(128, seed=1), nn.CrossEntropyLoss())


def images(samples: int = 256) -> Setup:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(samples, 1, 8, 8, generator=generator)
    y = (x.mean((1, 2, 3), keepdim=False)[:, None] - 0.5) * 10
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 1))
    return training_setup(model, (x, y), (x[:64], y[:64]), nn.MSELoss())


def slices(samples: int = 256) -> Setup:
    """Outputs whose first two values are scores of classes, and the others something else."""
    return training_setup(
        mlp(8, 16, 5), rings(samples), rings(128, seed=1), lambda output, y: F.cross_entropy(output[:, :2], y)
    )


def two_targets() -> Setup:
    """Batches of two targets, of which the second holds the values of the first at other rows."""
    x, y = rings(256)
    first = (torch.randperm(32, generator=torch.Generator().manual_seed(0)) % 2).repeat(8)
    dataset = TensorDataset(x, first, 1 - first)
    setup = training_setup(mlp(8, 16, 5), (x, y), rings(128, seed=1), nn.CrossEntropyLoss())
    return dataclasses.replace(setup, train_loader=DataLoader(dataset, 32))


def fed_findings(train: Callable[[Setup], object], setup: Setup) -> list[Finding]:
    return [finding for finding in all_findings(train, setup) if finding.code in RULES]


@pytest.mark.parametrize("loss", ["F.cross_entropy(output, second)", "F.cross_entropy(output[:, :2], second)"])
@pytest.mark.parametrize(("inputs", "is_aligned"), [("x", True), ("x.flip(0)", False), ("x.roll(3, 0)", False)])
def test_target_that_holds_the_values_of_another_is_compared_with_itself(
    tmp_path: Path, loss: str, inputs: str, is_aligned: bool
) -> None:
    source = LOOP.format(before="pass", inputs=inputs, loss=loss, validation="x")
    source = source.replace("for x, y in setup.train_loader", "for x, first, second in setup.train_loader")
    alignment = summarize_loop(load_loop(tmp_path / "loop.py", source), two_targets()).batch_alignment
    assert alignment.checked_steps > 4
    assert bool(alignment.misaligned_steps) is not is_aligned


def run_loop(tmp_path: Path, setup: Setup, **parts: str) -> list[Finding]:
    defaults = {"before": "pass", "inputs": "x", "loss": CROSS_ENTROPY, "validation": "x"}
    return fed_findings(load_loop(tmp_path / "loop.py", LOOP.format(**{**defaults, **parts})), setup)


@pytest.mark.parametrize(
    ("make", "parts", "code", "line"),
    [
        (classes, {"inputs": "x[torch.randperm(len(x))]"}, "D105", "setup.model("),
        (images, {"inputs": "x.flip(0)", "loss": "F.mse_loss(output, y)"}, "D105", "setup.model("),
        (classes, {"inputs": "2 * x.roll(3, 0) + 1"}, "D105", "setup.model("),
        (classes, {"before": "y = y[torch.randperm(len(y))]"}, "D105", "F.cross_entropy("),
        (images, {"before": "y = y.roll(1, 0)", "loss": "setup.loss_fn(output, y)"}, "D105", "setup.loss_fn("),
        (classes, {"before": "y, previous = (y if previous is None else previous), y"}, "D105", "F.cross_entropy("),
        *((slices, {"inputs": inputs, "loss": loss}, "D105", "setup.model(") for inputs, loss in SHUFFLED_SLICES),
        (slices, {"before": "y = y[torch.randperm(len(y))]", "loss": SLICE_LOSSES[0]}, "D105", "F.cross_entropy("),
        (classes, {"loss": "F.cross_entropy(output[:2], y[:2])"}, "L214", "F.cross_entropy("),
        (classes, {"loss": "F.cross_entropy(output[: len(y) // 2], y[: len(y) // 2])"}, "L214", "F.cross_entropy("),
        (images, {"loss": "((output - y) ** 2)[-1].mean()"}, "L214", "((output - y)"),
        (images, {"loss": "setup.loss_fn(output[0], y[0])"}, "L214", "setup.loss_fn("),
        (images, {"loss": "F.mse_loss(output, y.long().float())"}, "D102", "F.mse_loss("),
        (images, {"before": "y = y.int()", "loss": "setup.loss_fn(output, y.float())"}, "D102", "setup.loss_fn("),
        (images, {"loss": "F.mse_loss(output.round(), y)"}, "G416", "F.mse_loss("),
        (classes, {"loss": "(setup.model(x) - output).mul(y[:, None]).mean()"}, "G416", "setup.model("),
        (classes, {"loss": "((output > 0) * 1.0 * output * 0 - y[:, None]).square().mean()"}, "G416", "loss = (("),
        (classes, {"inputs": "x * 255"}, "D104", "setup.model("),
        (images, {"before": "x = x * 255", "loss": "F.mse_loss(output, y)"}, "D104", "setup.model("),
        (
            images,
            {"inputs": "x / 255", "validation": "x / 255", "loss": "F.mse_loss(output, y)"},
            "D104",
            "setup.model(",
        ),
        (classes, {"validation": "(x - 1) / 4"}, "D109", "setup.model("),
        (classes, {"inputs": "x / 4"}, "D109", "setup.model("),
    ],
)
def test_loop_that_changes_its_batches_is_reported_at_its_line(
    tmp_path: Path, make: Callable[[], Setup], parts: dict[str, str], code: str, line: str
) -> None:
    findings = [finding for finding in run_loop(tmp_path, make(), **parts) if finding.code == code]
    (finding,) = findings
    assert finding.severity != "note"
    assert line in source_line(finding)


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (classes, {}),
        *((slices, {"loss": loss}) for loss in SLICE_LOSSES),
        (slices, {"before": "order = torch.randperm(len(x)); x, y = x[order], y[order]", "loss": SLICE_LOSSES[0]}),
        (
            slices,
            {
                "before": "order = x[:, 0].argsort(); back = order.argsort()",
                "inputs": "x[order]",
                "loss": "F.cross_entropy(output[back][:, :2], y)",
            },
        ),
        (
            slices,
            {
                "before": "order = torch.randperm(len(x)); y2 = y[order]",
                "inputs": "0.7 * x + 0.3 * x[order]",
                "loss": "0.7 * F.cross_entropy(output[:, :2], y) + 0.3 * F.cross_entropy(output[:, :2], y2)",
            },
        ),
        (
            slices,
            {
                "loss": "F.cross_entropy(output[:, :2], y)"
                " + F.mse_loss(output[:, 2:], output[:, 2:].detach().roll(1, 0))"
            },
        ),
        (slices, {"loss": "F.mse_loss(output[:, 0], x[:, 0].long().float()) + output[:, 1:].square().mean()"}),
        (images, {"loss": "setup.loss_fn(output, y)"}),
        (classes, {"before": "order = torch.randperm(len(x)); x, y = x[order], y[order]"}),
        (
            classes,
            {
                "before": "order = x[:, 0].argsort(); back = order.argsort()",
                "inputs": "x[order]",
                "loss": "F.cross_entropy(output[back], y)",
            },
        ),
        (
            classes,
            {
                "before": "order = torch.randperm(len(x)); y2 = y[order]",
                "inputs": "0.7 * x + 0.3 * x[order]",
                "loss": "0.7 * F.cross_entropy(output, y) + 0.3 * F.cross_entropy(output, y2)",
            },
        ),
        (classes, {"inputs": "x + 0.1 * torch.randn_like(x)"}),
        (classes, {"inputs": "x * (0.5 + torch.rand(1))"}),
        (images, {"inputs": "x.flip(3)", "loss": "F.mse_loss(output, y)"}),
        (classes, {"loss": "F.cross_entropy(output, y, label_smoothing=0.1)"}),
        (classes, {"loss": "F.cross_entropy(output, y, reduction='none').topk(len(y) // 2).values.mean()"}),
        (
            classes,
            {"loss": "F.cross_entropy(output, y) + (output - output[torch.randperm(len(x))].detach()).square().mean()"},
        ),
        (classes, {"loss": "F.mse_loss(output, output.detach().roll(1, 0))"}),
        (classes, {"inputs": "(x - 0.1) / 0.9", "validation": "(x - 0.1) / 0.9"}),
        (
            classes,
            {
                "before": "x, y = torch.cat([x, x + 0.01]), torch.cat([y, y])",
                "loss": "F.cross_entropy(output[:len(y) // 2], y[:len(y) // 2])",
            },
        ),
    ],
)
def test_loop_that_keeps_pairs_together_finds_nothing(
    tmp_path: Path, make: Callable[[], Setup], parts: dict[str, str]
) -> None:
    torch.manual_seed(0)
    assert not run_loop(tmp_path, make(), **parts)


def test_raw_images_that_the_loop_divides_withdraw_the_finding_of_the_checkup(tmp_path: Path) -> None:
    from nbdebug.debugger import Debugger

    setup = images()
    x, y = setup.train_loader.dataset.tensors
    raw = TensorDataset((x * 255).round(), y)
    setup = Setup(setup.model, DataLoader(raw, 32), loss_fn=nn.MSELoss(), optimizers=setup.optimizers)
    debugger = Debugger.of(setup)
    debugger.checkup()
    assert "D104" in [finding.code for finding in debugger.findings]

    def train(scale: float) -> None:
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            F.mse_loss(setup.model(x / scale), y).backward()
            setup.optimizers[0].step()

    with debugger.watch():
        train(255)
    assert "D104" not in [finding.code for finding in debugger.findings]


def test_prefetched_batches_are_compared_with_the_batch_they_came_from() -> None:
    def train(setup: Setup) -> None:
        iterator = iter(setup.train_loader)
        following = next(iterator)
        for batch in iterator:
            (x, y), following = following, batch
            setup.optimizers[0].zero_grad()
            F.mse_loss(setup.model(x), y).backward()
            setup.optimizers[0].step()

    setup = training_setup(mlp(4, 16, 1), waves(), waves(64), nn.MSELoss())
    alignment = summarize_loop(train, setup).batch_alignment
    assert alignment.checked_steps > 4
    assert not alignment.misaligned_steps


class TwoHeads(nn.Module):
    """A network with one head for each half of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.body = mlp(8, 16, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        output = self.body(x)
        return output[:, :2], output[:, 2:]


def first_rows(setup: Setup) -> None:
    for _ in range(12):
        for batch in setup.train_loader:
            setup.optimizers[0].zero_grad()
            F.cross_entropy(setup.model(batch[0])[:20], batch[1][:20]).backward()
            setup.optimizers[0].step()


def half_by_half(setup: Setup) -> None:
    for x, y in setup.train_loader:
        setup.optimizers[0].zero_grad()
        first, second = setup.model(x)
        (F.cross_entropy(first[:10], y[:10]) + F.cross_entropy(second[10:], y[10:])).backward()
        setup.optimizers[0].step()


ROWS, LABELS = rings(256)
UNLABELED = torch.where(torch.arange(256) % 64 < 20, LABELS, -1)


@pytest.mark.parametrize(
    ("model", "data", "train", "options"),
    [
        (mlp(8, 16, 2), (ROWS[:64], LABELS[:64]), first_rows, {}),
        (mlp(8, 16, 2), (ROWS, LABELS, torch.arange(256) % 64 < 20), first_rows, {}),
        (mlp(8, 16, 2), (ROWS, UNLABELED), first_rows, {}),
        (TwoHeads(), (ROWS, LABELS), half_by_half, {"shuffle": True}),
    ],
    ids=["one batch", "mask", "unlabeled rows", "two heads"],
)
def test_rows_that_are_left_out_on_purpose_are_not_unused(
    model: nn.Module, data: tuple[Tensor, ...], train: Callable[[Setup], None], options: dict[str, Any]
) -> None:
    optimizers = (torch.optim.SGD(model.parameters(), 0.1),)
    setup = Setup(model, DataLoader(TensorDataset(*data), 64, **options), optimizers=optimizers)
    assert not summarize_loop(train, setup).batch_alignment.unused_rows.rows


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.flatten(1), lambda x: x.half(), lambda x: 3 * x - 2])
def test_find_row_relation_of_permuted_rows_returns_their_order(view: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(20, 3, 5, generator=torch.Generator().manual_seed(0)).half().float()
    order = torch.randperm(20, generator=torch.Generator().manual_seed(1))
    relation: Any = find_row_relation(sampled(view(x)[order]), sampled(x))
    assert torch.equal(relation.order, order)
    assert find_row_relation(sampled(view(x)), sampled(x)).order is None  # type: ignore[union-attr]


@pytest.mark.parametrize("rows", [torch.rand(20, 15), torch.rand(2, 15), torch.rand(20, 1), torch.zeros(20, 15)])
def test_find_row_relation_of_unrelated_rows_returns_none(rows: Tensor) -> None:
    reference = torch.rand(len(rows), rows.shape[1], generator=torch.Generator().manual_seed(5))
    assert find_row_relation(sampled(rows), sampled(reference)) is None


def test_is_reordered_needs_the_same_values_in_other_rows() -> None:
    labels = torch.arange(40) % 4
    assert is_reordered(sampled(labels.roll(1)), sampled(labels))
    assert not is_reordered(sampled(labels), sampled(labels))
    assert not is_reordered(sampled((labels + 1) % 5), sampled(labels))


def test_row_sample_of_strided_tensor_equals_that_of_its_copy() -> None:
    image = torch.rand(6, 3, 16, 16).to(memory_format=torch.channels_last)
    assert sampled(image).equals(sampled(image.contiguous()))
    assert RowSample.of(torch.tensor(1.0)) is None


def sampled(tensor: Tensor) -> RowSample:
    sample = RowSample.of(tensor)
    assert sample is not None
    return sample
