"""Tests of rules on models with several heads: findings name the head at fault, and healthy programs have none."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.measurements import Measurements
from nbdebug.rule_engine.head_rules import HEAD_RULES
from nbdebug.rule_engine.rule_registry import load_rules
from nbdebug.setup import Setup
from tests.rules.head_programs import FORMS, Targets, make_data, two_heads
from tests.rules.rule_findings import broken_rules, checkup_findings


def softmax(values: Tensor) -> Tensor:
    return values.softmax(-1)


def average(values: Tensor) -> Tensor:
    return values.mean(0, keepdim=True).expand_as(values)


def shift_kind(x: Tensor, targets: Targets) -> None:
    targets["kind"] = targets["kind"].roll(1, 0)


def start_kind_at_one(x: Tensor, targets: Targets) -> None:
    targets["kind"] = targets["kind"] + 1


def make_kind_rare(x: Tensor, targets: Targets) -> None:
    score = x[:, 0] + x[:, 1]
    targets["kind"] = (score > score.sort().values[-len(x) // 75]).long()


def scale_size(x: Tensor, targets: Targets) -> None:
    targets["size"] = 400 * targets["size"] + 3000


def drop_last_kind_in_training(x: Tensor, targets: Targets) -> None:
    if len(x) == 900:
        targets["kind"] = targets["kind"].clamp(max=3)


def copy_kind_to_input(x: Tensor, targets: Targets) -> None:
    x[:, 3] = targets["kind"].float()


def hide_some_kinds(x: Tensor, targets: Targets) -> None:
    targets["kind"][::3] = -1


def masked_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    mask = target >= 0
    return (F.cross_entropy(output, target.clamp(min=0), reduction="none") * mask).sum() / mask.sum()


SIZE = ("color", "size")
FAULTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "softmax twice": ("L201", "kind", {"tails": {"kind": softmax}}),
    "sigmoid twice": ("L202", "flag", {"names": ("color", "flag"), "tails": {"flag": torch.sigmoid}}),
    "NLL of scores": ("L204", "kind", {"criteria": {"kind": F.nll_loss}}),
    "broadcast": ("L205", "size", {"names": SIZE, "criteria": {"size": F.mse_loss}}),
    "head too large": ("L207", "kind", {"sizes": {"kind": 300}}),
    "unscaled targets": ("L208", "size", {"names": SIZE, "change": scale_size}),
    "bounded output": ("L209", "size", {"names": SIZE, "change": scale_size, "tails": {"size": torch.tanh}}),
    "ReLU on logits": ("L210", "kind", {"tails": {"kind": F.relu}}),
    "wrong sign": ("L213", "kind", {"weights": (1.0, -1.0)}),
    "first sample": ("L214", "kind", {"criteria": {"kind": lambda o, y: F.cross_entropy(o[:1], y[:1])}}),
    "summed loss": ("L216", "kind", {"criteria": {"kind": lambda o, y: F.cross_entropy(o, y, reduction="sum")}}),
    "labels from one": ("D101", "kind", {"change": start_kind_at_one}),
    "labels shifted": ("D105", "kind", {"change": shift_kind}),
    "rare class": ("D106", "kind", {"sizes": {"kind": 2}, "change": make_kind_rare}),
    "target in input": ("D115", "kind", {"change": copy_kind_to_input}),
    "missing class": ("D119", "kind", {"change": drop_last_kind_in_training}),
    "constant output": ("M307", "kind", {"tails": {"kind": average}}),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", ["dict", "flat"])
def test_checkup_of_fault_in_one_head_names_head(fault: str, form: str) -> None:
    code, head, options = FAULTS[fault]
    names = options.get("names", ("color", "kind"))
    report = two_heads(form, **options)[0].checkup(select=(code,))
    label = repr(head) if form == "dict" else str(names.index(head))
    assert [finding.message.split(":")[0] for finding in report][:1] == [f"Head {label}"], str(report)
    assert all(finding.evidence["head"] == label for finding in report)


def half_labeled_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, torch.where(output.detach()[:, 0] > 0, target, -100))


HEALTHY: dict[str, dict[str, Any]] = {
    "labels for half of the samples": {"criteria": {"kind": half_labeled_cross_entropy}},
    "two classifiers": {},
    "regression": {"names": SIZE},
    "binary": {"names": ("color", "flag")},
    "small weight": {"weights": (1.0, 0.05)},
    "label smoothing": {"criteria": {"kind": lambda o, y: F.cross_entropy(o, y, label_smoothing=0.1)}},
    "log-softmax and NLL": {"tails": {"kind": lambda values: values.log_softmax(-1)}, "criteria": {"kind": F.nll_loss}},
    "mask": {"change": hide_some_kinds, "criteria": {"kind": masked_cross_entropy}},
    "index": {"change": hide_some_kinds, "criteria": {"kind": nn.CrossEntropyLoss(ignore_index=-1)}},
    "lookup": {"criteria": {"kind": lambda o, y: -o.log_softmax(1).gather(1, y[:, None]).mean()}},
    "class weights": {
        "sizes": {"kind": 2},
        "change": make_kind_rare,
        "criteria": {"kind": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 70.0]))},
    },
}


@pytest.mark.parametrize("program", HEALTHY)
@pytest.mark.parametrize("form", FORMS)
def test_checkup_of_healthy_heads_has_no_faults(program: str, form: str) -> None:
    debugger, _ = two_heads(form, **HEALTHY[program])
    report = debugger.checkup(select=tuple(HEAD_RULES))
    assert [str(finding) for finding in report.faults] == []
    assert broken_rules(report) == []
    assert [rule.code for rule in report.not_checked if rule.code in ("L207", "L208", "D105", "M307")] == []


@pytest.mark.parametrize(
    "fault",
    ["softmax twice", "broadcast", "head too large", "wrong sign", "labels shifted", "rare class", "target in input"],
)
@pytest.mark.parametrize("form", ["dict", "flat"])
def test_watch_of_loop_with_its_own_loss_and_fault_in_one_head_names_head(fault: str, form: str) -> None:
    code, head, options = FAULTS[fault]
    names = options.get("names", ("color", "kind"))
    debugger, train = two_heads(form, **options, has_loss=False)
    with debugger.watch():
        train()
    label = repr(head) if form == "dict" else str(names.index(head))
    messages = [finding.message for finding in debugger.findings if finding.code == code]
    assert [message.split(":")[0] for message in messages] == [f"Head {label}"], str(debugger.findings)


@pytest.mark.parametrize("program", ["two classifiers", "regression", "mask", "class weights"])
@pytest.mark.parametrize("form", ["dict", "tuple"])
def test_watch_of_loop_with_its_own_loss_and_healthy_heads_has_no_faults(program: str, form: str) -> None:
    debugger, train = two_heads(form, **HEALTHY[program], has_loss=False)
    with debugger.watch() as watch:
        train()
    assert watch.result is not None
    assert watch.result.errors == ""
    assert [str(finding) for finding in debugger.findings.faults] == []


@pytest.mark.parametrize(("has_loss", "shuffled", "expected"), [(1, 1, ["Heads 0, 1"]), (0, 1, [None]), (1, 0, [])])
def test_fault_of_loop_that_heads_share_is_said_once(has_loss: bool, shuffled: bool, expected: list[str]) -> None:
    def loss_fn(output: Tensor, kind: Tensor, size: Tensor) -> Tensor:
        return F.cross_entropy(output[:, :5], kind) + F.mse_loss(output[:, 5], size)

    x, targets = make_data(0, 900)
    loader = DataLoader(TensorDataset(x, targets["kind"], targets["size"]), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 6))
    optimizer = torch.optim.Adam(model.parameters())
    debugger = Debugger(model, loader, optimizer=optimizer, **{"loss_fn": loss_fn} if has_loss else {})
    with debugger.watch():
        for x, kind, size in chain(loader, loader, loader):
            optimizer.zero_grad()
            loss_fn(model(x[torch.randperm(len(x))] if shuffled else x), kind, size).backward()
            optimizer.step()
    messages = [finding.message for finding in debugger.findings if finding.code == "D105"]
    assert [message.split(":")[0] if ": In" in message else None for message in messages] == expected


@pytest.mark.parametrize(("outputs", "expected"), [(6, []), (160, ["L207"])])
def test_watch_of_loop_with_single_head_checks_its_own_loss(outputs: int, expected: list[str]) -> None:
    torch.manual_seed(0)
    steps = torch.randn(400, 10, 8)
    samples = [{"series": row, "states": row[:, :6].argmax(1)} for row in steps]
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, outputs))
    loader: Any = torch.utils.data.DataLoader(samples, batch_size=32, shuffle=True)  # type: ignore[arg-type]
    debugger = Debugger(model, loader, optimizer=torch.optim.Adam(model.parameters(), lr=1e-2))
    with debugger.watch():
        for _ in range(6):
            for batch in loader:
                scores = model(batch["series"])
                loss = F.cross_entropy(scores.flatten(0, 1), batch["states"].flatten())
                debugger.setup.optimizers[0].zero_grad()
                loss.backward()
                debugger.setup.optimizers[0].step()
    assert [finding.code for finding in debugger.findings.faults if finding.code[0] in "LD"] == expected


class Autoencoder(nn.Module):
    """Returns the reconstruction with the mean and the logarithm of the variance of the code."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 6), nn.Linear(3, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        return self.decoder(mean + (0.5 * log_variance).exp() * torch.randn_like(mean)), mean, log_variance


def variational_loss(output: tuple[Tensor, Tensor, Tensor], target: Tensor) -> Tensor:
    reconstruction, mean, log_variance = output
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
    return F.mse_loss(reconstruction, target) + 0.01 * divergence


def make_autoencoder() -> Debugger:
    x = torch.randn(256, 3) @ torch.randn(3, 8)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x), batch_size=32, shuffle=True)
    return Debugger(Autoencoder(), loader, loss_fn=variational_loss)


def make_weighted_samples() -> Debugger:
    x, weights = torch.randn(256, 8), torch.rand(256)
    y = (x[:, 0] > 0).long()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y, weights), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))

    def loss_fn(output: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        return (F.cross_entropy(output, target, reduction="none") * weight).mean()

    return Debugger(model, loader, loss_fn=loss_fn)


@pytest.mark.parametrize("make", [make_autoencoder, make_weighted_samples])
def test_only_pair_of_output_and_target_is_checked_without_a_name(make: Callable[[], Debugger]) -> None:
    torch.manual_seed(0)
    debugger = make()
    assert [head.head for head in Measurements(debugger.setup)["heads"]] == [""]
    report = debugger.checkup(select=tuple(HEAD_RULES))
    assert [str(finding) for finding in report.faults] == []
    assert broken_rules(report) == []


def test_head_rules_exist() -> None:
    assert set(load_rules()) >= HEAD_RULES


class TwoQuestions(nn.Module):
    """Answers a question of two classes and one of five."""

    def __init__(self) -> None:
        super().__init__()
        self.side, self.place = nn.Linear(4, 2), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"side": self.side(x), "place": self.place(x)}


def sum_of_columns(output: dict[str, Tensor], target: Tensor) -> Tensor:
    return F.cross_entropy(output["side"], target[:, 0]) + F.cross_entropy(output["place"], target[:, 1])


@pytest.mark.parametrize("classes", [5, 6])
def test_each_head_is_compared_with_its_own_column_of_the_target(classes: int) -> None:
    x = torch.randn(200, 4)
    target = torch.stack([(x[:, 0] > 0).long(), torch.arange(200) % classes], 1)
    setup = Setup(TwoQuestions(), DataLoader(TensorDataset(x, target), 20, shuffle=True), loss_fn=sum_of_columns)
    findings = checkup_findings(setup, "D101")
    assert [finding.message.partition(":")[0] for finding in findings] == ["Head 'place'"] * (classes > 5)
