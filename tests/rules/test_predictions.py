"""Tests that a watched run overrules what was said before it, and is asked again about what training changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from nbdebug.debugger import Debugger
from nbdebug.finding import Edit, Finding, Location, Severity
from nbdebug.report import Report, ReportLog, merge_reports, rank_findings
from nbdebug.rule_engine.predictions import PREDICTIONS
from nbdebug.rule_engine.rule_registry import load_rules
from nbdebug.rules.examples import mlp, points, rings
from tests.rules.unusual import likelihoods  # noqa: F401  registers its programs
from tests.rules.unusual.catalog import PROGRAMS


def severities(debugger: Debugger, code: str) -> list[Severity | None]:
    return [finding.severity for finding in debugger.findings if finding.code == code]


def train(debugger: Debugger, epochs: int) -> None:
    setup = debugger.setup
    for _ in range(epochs):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
            setup.optimizers[0].step()


def classifier(model: nn.Module, x: Tensor, y: Tensor, lr: float = 1e-2, **options: object) -> Debugger:
    data = TensorDataset(x, y)
    val = DataLoader(TensorDataset(x.flip(0), y.flip(0)), batch_size=64)
    loader = DataLoader(data, batch_size=32, **({"shuffle": True} | options))  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    return Debugger(model, loader, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)


def large_initial_weights() -> Debugger:
    x, y = points()
    model = mlp(4, 32, 3)
    nn.init.normal_(model[2].weight, std=1.5)
    return classifier(model, x.repeat(4, 1), y.repeat(4), lr=3e-2)


def large_initial_weights_of_a_convolution() -> Debugger:
    x, y = points()
    model = nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))
    nn.init.normal_(model[4].weight, std=1.5)
    return classifier(model, x.repeat(4, 1), y.repeat(4), lr=3e-2)


def large_initial_weights_and_noisy_labels() -> Debugger:
    """A third of the labels are random, so that more than half of the loss of a constant prediction remains."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(960, 4, generator=generator)
    y = torch.where(
        torch.rand(960, generator=generator) < 1 / 3, torch.randint(3, (960,), generator=generator), x[:, :3].argmax(1)
    )
    model = mlp(4, 32, 3)
    nn.init.normal_(model[2].weight, std=1.5)
    return classifier(model, x, y, lr=3e-2)


def rare_class_that_is_easy() -> Debugger:
    y = (torch.arange(1200) % 25 == 0).long()
    x = torch.randn(1200, 4, generator=torch.Generator().manual_seed(0)) + 3.0 * y[:, None]
    return classifier(mlp(4, 16, 2), x, y)


class TokenMean(nn.Module):
    """Attention without positions over three tokens of one of two kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(1, 8), nn.Linear(8, 2)
        self.attention = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.attention(self.embed(x)).mean(1))


def attention_over_slow_series() -> Debugger:
    """Series whose mean gives the class, so that their order does not matter."""
    g = torch.Generator().manual_seed(0)
    y = torch.arange(384) % 2
    x = 0.1 * torch.randn(384, 16, 1, generator=g).cumsum(1) + (4.0 * y - 2)[:, None, None]
    return classifier(TokenMean(), x, y)


@pytest.mark.parametrize(
    ("build", "code", "epochs"),
    [
        (attention_over_slow_series, "M311", 8),
        (large_initial_weights, "L208", 40),
        (large_initial_weights_of_a_convolution, "L208", 40),
        (large_initial_weights_and_noisy_labels, "L208", 10),
        (rare_class_that_is_easy, "D106", 8),
    ],
)
def test_prediction_of_checkup_when_run_disproves_it_becomes_note(
    build: Callable[[], Debugger], code: str, epochs: int
) -> None:
    torch.manual_seed(0)
    debugger = build()
    debugger.checkup(select=[code])
    assert severities(debugger, code) == ["warning"]
    with debugger.watch():
        train(debugger, epochs)
    assert severities(debugger, code) == ["note"]
    assert "The watched run was not harmed by it" in debugger.findings[0].message


def rare_class_that_is_hidden() -> Debugger:
    y = (torch.arange(1200) % 25 == 0).long()
    x = torch.randn(1200, 4, generator=torch.Generator().manual_seed(0)) + 0.5 * y[:, None]
    return classifier(mlp(4, 16, 2), x, y, lr=1e-3)


def rare_class_under_a_logit() -> Debugger:
    y = (torch.arange(1200) % 25 == 0).float()[:, None]
    x = torch.randn(1200, 4, generator=torch.Generator().manual_seed(0)) + 0.5 * y
    debugger = classifier(mlp(4, 16, 1), x, y, lr=1e-3)
    debugger.setup.loss_fn = nn.BCEWithLogitsLoss()
    return debugger


@pytest.mark.parametrize("build", [rare_class_that_is_hidden, rare_class_under_a_logit])
def test_imbalance_when_rare_class_is_missed_stays_warning(build: Callable[[], Debugger]) -> None:
    torch.manual_seed(0)
    debugger = build()
    debugger.checkup(select=["D106"])
    with debugger.watch():
        train(debugger, 3)
    assert severities(debugger, "D106") == ["warning"]


def unscaled_columns() -> Debugger:
    x, y = rings()
    return classifier(mlp(8, 32, 2), x * torch.tensor([400.0, 1, 1, 1, 900, 1, 1, 1]) + 300, y, lr=0.05)


def bytes_as_images() -> Debugger:
    g = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (384, 1, 6, 6), generator=g).float()
    y = (x[:, 0, :3].mean((1, 2)) > x[:, 0, 3:].mean((1, 2))).long()
    return classifier(nn.Sequential(nn.Flatten(), *mlp(36, 32, 32, 2)), x, y, lr=0.05)


@pytest.mark.parametrize("build", [unscaled_columns, bytes_as_images])
def test_watch_alone_of_unscaled_inputs_names_them_first(build: Callable[[], Debugger]) -> None:
    torch.manual_seed(0)
    debugger = build()
    with debugger.watch():
        train(debugger, 6)
    assert debugger.findings[0].code == "D104"


class SoftmaxInForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = mlp(8, 32, 2)

    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(self.body(x), dim=1)


@pytest.mark.parametrize("model", [lambda: nn.Sequential(mlp(8, 32, 2), nn.Softmax(dim=1)), SoftmaxInForward])
def test_watch_alone_of_softmax_before_cross_entropy_names_it_as_checkup_does(model: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    debugger = classifier(model(), *rings(), lr=1e-3)
    with debugger.watch():
        train(debugger, 3)
    assert debugger.findings[0].code == "L201"


@pytest.mark.parametrize(
    "build",
    [lambda: classifier(mlp(8, 32, 2), *rings()), lambda: classifier(mlp(8, 64, 2), *rings(), lr=3e-3)],
)
def test_watch_alone_of_healthy_program_has_no_faults(build: Callable[[], Debugger]) -> None:
    torch.manual_seed(0)
    debugger = build()
    with debugger.watch():
        train(debugger, 25)
    assert [str(finding) for finding in debugger.findings.faults] == []


def test_watch_after_checkup_does_not_ask_cheap_rules_again() -> None:
    debugger = classifier(mlp(8, 32, 2), *rings())
    debugger.checkup()
    with debugger.watch():
        train(debugger, 1)
    assert "L202" not in debugger.reports["watch"].checked_rules
    assert {"M307", "M302", "O503", "G415"} <= debugger.reports["watch"].checked_rules


class Collapsing(nn.Module):
    """A model whose answer becomes constant in training: its inputs are scaled by a decaying factor."""

    def __init__(self) -> None:
        super().__init__()
        self.body = mlp(8, 16, 2)
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.scale *= 0.8
        return self.body(x * self.scale)


class DyingUnits(nn.Module):
    """A model whose units are shifted below zero by a buffer that grows in training."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 2)
        self.register_buffer("shift", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.shift += 0.2
        return self.second(torch.relu(self.first(x) - self.shift))


@pytest.mark.parametrize("model", [Collapsing, DyingUnits])
def test_constant_output_when_it_arises_in_training_is_found_after_the_run(model: type[nn.Module]) -> None:
    torch.manual_seed(0)
    debugger = classifier(model(), *rings())
    assert "M307" not in {finding.code for finding in debugger.checkup()}
    with debugger.watch():
        train(debugger, 8)
    assert "M307" in {finding.code for finding in debugger.findings.faults}


def test_frozen_note_when_parameters_are_unfrozen_in_training_is_withdrawn() -> None:
    model = mlp(8, 16, 2)
    model[0].requires_grad_(False)
    debugger = classifier(model, *rings())
    debugger.checkup(select=["M302"])
    assert severities(debugger, "M302") == ["note"]
    with debugger.watch():
        train(debugger, 1)
        model[0].requires_grad_(True)
        train(debugger, 1)
    assert severities(debugger, "M302") == []


def test_parameter_in_no_group_when_group_is_added_in_training_is_withdrawn() -> None:
    model = mlp(8, 16, 2)
    debugger = classifier(model, *rings())
    optimizer = torch.optim.Adam(model[2].parameters(), lr=1e-2)
    debugger.setup.optimizers = (optimizer,)
    debugger.checkup(select=["O503"])
    assert severities(debugger, "O503") == ["error"]
    with debugger.watch():
        optimizer.add_param_group({"params": model[0].parameters()})
        train(debugger, 1)
    assert severities(debugger, "O503") == []


def finding(code: str, severity: Severity, explains: tuple[str, ...] = ()) -> Finding:
    return Finding(code, code=code, severity=severity, explains=explains)


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([finding("M302", "note"), finding("O501", "error"), finding("D104", "warning", ("O501",))], "D104 O501 M302"),
        (
            [finding("T606", "note"), finding("T601", "warning"), finding("O502", "warning", ("T601",))],
            "O502 T601 T606",
        ),
        (
            [finding("D110", "warning"), finding("O501", "error"), finding("L208", "warning", ("O501",))],
            "L208 D110 O501",
        ),
        ([finding("D106", "note", ("E706",)), finding("E706", "error")], "E706 D106"),
    ],
)
def test_rank_findings_puts_causes_first_and_notes_last(findings: list[Finding], expected: str) -> None:
    assert " ".join(item.code for item in rank_findings(findings)) == expected


@pytest.mark.parametrize(("code", "severity"), [("M310", "error"), ("M310", "warning"), ("E709", "error")])
def test_page_offers_a_longer_run_only_where_no_error_is_to_be_mended_first(code: str, severity: Severity) -> None:
    longer = replace(finding("T614", "warning"), fix="Train longer.", edits=(Edit("a.py", 1, 0, 1, 1, "5"),))
    page = Report((finding(code, severity), longer)).with_stated_consequences()
    (stated,) = (item for item in page if item.code == "T614")
    is_postponed = (code, severity) == ("M310", "error")
    assert (stated.fix, bool(stated.edits)) == (
        ("Mend M310 first, and run again.", False) if is_postponed else ("Train longer.", True)
    )


def test_rank_findings_puts_only_the_explained_aspect_after_its_cause() -> None:
    cause = finding("E710", "error", ("O507:plateau mode",))
    plateau, order = (replace(finding("O507", "warning"), aspect=aspect) for aspect in ("plateau mode", ""))
    assert [item.code for item in rank_findings([plateau, cause])] == ["E710", "O507"]
    other_cause = finding("O505", "warning", ("O508:limit",))
    assert [item.code for item in rank_findings([order, cause, other_cause])] == ["E710", "O507", "O505"]
    late, limit = (replace(finding("O508", "error"), aspect=aspect) for aspect in ("order", "limit"))
    assert [item.code for item in rank_findings([limit, other_cause])] == ["O505", "O508"]
    assert [item.code for item in rank_findings([late, other_cause])] == ["O508", "O505"]


def test_merge_reports_when_rule_is_asked_again_keeps_only_the_later_findings() -> None:
    earlier = Report((finding("M302", "note"), finding("D104", "warning")), checked_rules=frozenset({"M302", "D104"}))
    later = Report((), checked_rules=frozenset({"M302"}), asked_again=frozenset({"M302", "M307"}))
    assert [item.code for item in merge_reports([earlier, later])] == ["D104"]
    assert [item.code for item in merge_reports([later, earlier])] == ["D104", "M302"]


def test_merge_reports_keeps_the_later_of_two_findings_that_differ_in_their_numbers() -> None:
    place = Location(file="train.py", line=3)
    first, second, other = (
        replace(finding("L213", "error"), message=message, where=where)
        for message, where in (("It is 1.", place), ("It is 2.", place), ("It is 2.", replace(place, line=4)))
    )
    assert [f.message for f in merge_reports([Report((first,)), Report((second,))])] == ["It is 2."]
    assert len(merge_reports([Report((first, second))])) == 2
    assert len(merge_reports([Report((first,)), Report((other,))])) == 2


def test_report_log_when_tool_runs_again_moves_its_report_to_the_end() -> None:
    log = ReportLog()
    for name in ("checkup", "watch", "checkup"):
        log[name] = Report(title=name)
    assert list(log) == ["watch", "checkup"]


def test_predictions_have_distinct_claims_that_rules_declare() -> None:
    claims = [prediction.claim for prediction in PREDICTIONS]
    assert len(set(claims)) == len(claims)
    declared = {rule.prediction.claim for rule in load_rules().values() if rule.prediction is not None}
    assert declared <= set(claims)


def test_sampler_that_balances_classes_is_not_asked_about_imbalance() -> None:
    y = (torch.arange(600) % 20 == 0).long()
    x = torch.randn(600, 4) + 3.0 * y[:, None]
    sampler = WeightedRandomSampler((1 + 19 * y).double().tolist(), 600)
    debugger = classifier(mlp(4, 16, 2), x, y, shuffle=False, sampler=sampler)
    debugger.checkup(select=["D106"])
    assert severities(debugger, "D106") == []


def test_rate_of_zero_when_loop_sets_one_is_withdrawn() -> None:
    debugger = classifier(mlp(8, 16, 2), *rings(), lr=0.0)
    debugger.checkup(select=["O510"])
    assert severities(debugger, "O510") == ["warning"]
    with debugger.watch():
        debugger.setup.optimizers[0].param_groups[0]["lr"] = 1e-2
        train(debugger, 2)
        debugger.setup.optimizers[0].param_groups[0]["lr"] = 0.0
    assert severities(debugger, "O510") == []


def test_codebook_that_collapses_in_training_is_found_after_the_run() -> None:
    torch.manual_seed(0)
    debugger, run = PROGRAMS["vector quantization with straight through"]()
    debugger.setup.model.codes.reset_parameters()  # type: ignore[union-attr, operator]
    assert [finding.code for finding in debugger.checkup().faults] == []
    with debugger.watch():
        run()
    assert "M307" in {finding.code for finding in debugger.findings.faults}


class MasterSGD(torch.optim.SGD):
    """SGD on float32 copies of the parameters, which it writes back after each step."""

    def __init__(self, parameters: Any, lr: float) -> None:
        self.working = list(parameters)
        super().__init__([p.detach().float().clone().requires_grad_() for p in self.working], lr=lr)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for p in self.working:
            p.grad = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        masters = self.param_groups[0]["params"]
        for master, p in zip(masters, self.working, strict=True):
            master.grad = None if p.grad is None else p.grad.float()
        super().step()
        for master, p in zip(masters, self.working, strict=True):
            p.copy_(master)


def test_optimizer_with_own_copies_is_not_stale_after_a_run_that_changed_the_model() -> None:
    torch.manual_seed(0)
    model = mlp(8, 32, 2)
    loader = DataLoader(TensorDataset(*rings()), batch_size=32, shuffle=True)
    optimizer = MasterSGD(model.parameters(), lr=0.1)
    debugger = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    assert "O504" in {finding.code for finding in debugger.checkup()}
    with debugger.watch():
        train(debugger, 6)
    assert "O504" not in {finding.code for finding in debugger.findings}
