"""Tests of D105 after a watched run: labels in another order than the inputs of both splits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding, Severity
from nbdebug.loop_monitor.conclusions import LABELS_UNRELATED
from nbdebug.report import Report, merge_reports

DIGITS, CLASSES = (torch.tensor(part)[:900] for part in load_digits(return_X_y=True))
X = DIGITS.float() / 16 - 0.3
SHUFFLED = CLASSES[torch.randperm(900, generator=torch.Generator().manual_seed(0))]
CROSS_ENTROPY = nn.CrossEntropyLoss()
NOTE = Finding("no relation", assumes=(LABELS_UNRELATED,), explains=("E709", "T607"), code="D105", severity="note")
BLIND = Finding("no better", confirms=(LABELS_UNRELATED,), code="E709", severity="error")


def watch(model: Callable[[], nn.Module], x: Tensor, y: Tensor, loss_fn: nn.Module = CROSS_ENTROPY) -> Debugger:
    """Train on 600 rows and validate on the others, in a watch after a checkup."""
    torch.manual_seed(0)
    net = model()
    train, val = (TensorDataset(x[rows], y[rows]) for rows in (slice(600), slice(600, None)))
    loaders = DataLoader(train, 32, shuffle=True), DataLoader(val, 100)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    debugger = Debugger(net, *loaders, loss_fn=loss_fn, optimizer=optimizer)
    debugger.checkup()
    with debugger.watch():
        for _ in range(4):
            for inputs, labels in loaders[0]:
                optimizer.zero_grad()
                loss_fn(net(inputs), labels).backward()
                optimizer.step()
    return debugger


def severities(debugger: Debugger) -> list[Severity | None]:
    return [finding.severity for finding in debugger.findings if finding.code == "D105"]


def linear() -> nn.Module:
    return nn.Linear(64, 10)


def small_cnn() -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 10))


@pytest.mark.parametrize("model", [linear, small_cnn])
def test_labels_unrelated_that_the_trained_model_confirms_is_warning_and_ranks_first(
    model: Callable[[], nn.Module],
) -> None:
    debugger = watch(model, X, SHUFFLED)
    assert severities(debugger) == ["warning"]
    assert debugger.findings[0].code == "D105"


@pytest.mark.parametrize("model", [linear, small_cnn])
def test_labels_unrelated_with_labels_in_order_is_quiet(model: Callable[[], nn.Module]) -> None:
    assert severities(watch(model, X, CLASSES)) == []


@pytest.mark.parametrize(
    ("others", "severity"),
    [
        ((), "note"),
        ((BLIND,), "warning"),
        ((BLIND, Finding("at chance", code="T607", severity="error")), "warning"),
        ((BLIND, Finding("scrambled", code="M309", severity="error")), "note"),
        ((BLIND, Finding("a reference is better", code="T610", severity="warning")), "note"),
        ((BLIND, Finding("a remark", code="M302", severity="note")), "warning"),
    ],
)
def test_page_raises_note_that_a_fault_confirms_unless_another_cause_stands(
    others: tuple[Finding, ...], severity: Severity
) -> None:
    page = merge_reports([Report((NOTE,)), Report(others)]).with_stated_consequences()
    assert [finding.severity for finding in page if finding.code == "D105"] == [severity]
    assert any("The watched run supports this" in finding.message for finding in page) == (severity == "warning")


def test_page_leaves_a_note_whose_confirmation_an_earlier_report_explains() -> None:
    checkup = Report((Finding("scrambled", code="M309", severity="error"),))
    watch = merge_reports([Report((NOTE,)), Report((BLIND,))])
    page = merge_reports([checkup, watch]).with_stated_consequences()
    assert [finding.severity for finding in page if finding.code == "D105"] == ["note"]


@pytest.mark.parametrize("is_aligned", [True, False])
def test_labels_unrelated_of_real_values_is_warning_if_the_trained_model_confirms_it(is_aligned: bool) -> None:
    order = torch.arange(900) if is_aligned else torch.randperm(900, generator=torch.Generator().manual_seed(1))
    sizes = (X.sum(1, keepdim=True) - X.sum(1).mean()) / X.sum(1).std()
    debugger = watch(
        lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)), X, sizes[order], nn.MSELoss()
    )
    assert severities(debugger) == ([] if is_aligned else ["warning"])
