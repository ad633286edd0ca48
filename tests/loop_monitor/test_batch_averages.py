"""Tests of E708 for means over batches of metrics of all rows, recognized by their values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn import metrics
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.loop_monitor.whole_set_metrics import whole_set_metrics
from nbdebug.rules.examples import minimal_setup, network, points, train
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line

TRAIN = """
import torch

{quality}

def train(setup):
    history, log = [], dict(quality=[])
    report = Report()
    for epoch in range(4):
        setup.model.train()
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            setup.loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()
        setup.model.eval()
        with torch.no_grad():
            {store}

class Report:
    best = 0.0

{evaluation}
"""
R2 = """
def quality(p, y):
    return 1 - float(((p - y) ** 2).sum() / ((y - y.mean()) ** 2).sum())
"""
CORRELATION = """
def quality(p, y):
    p, y = p.flatten() - p.mean(), y.flatten() - y.mean()
    return float((p * y).sum() / (p.norm() * y.norm()))
"""
F1 = """
def quality(p, y):
    hits = float(((p > 0) * y).sum())
    return 2 * hits / float((p > 0).sum() + y.sum())
"""
MEAN_ERROR = """
def quality(p, y):
    return float((p - y).abs().mean())
"""
AVERAGED = {
    "expression": (
        "score = evaluate(setup.model, setup.val_loader)",
        """
def evaluate(net, loader):
    return sum(quality(net(x), y) for x, y in loader) / len(loader)
""",
        "return sum(quality(net(x), y) for x, y in loader) / len(loader)",
    ),
    "list": (
        "history.append(evaluate(setup.model, setup.val_loader))",
        """
def evaluate(net, loader):
    parts = []
    for x, y in loader:
        p = net(x)
        parts.append(quality(p, y))
    return torch.tensor(parts).mean().item()
""",
        "parts.append(quality(p, y))",
    ),
    "object": (
        "report.last = evaluate(setup.model, setup.val_loader)",
        """
def evaluate(net, loader):
    total = steps = 0
    for x, y in loader:
        q = quality(net(x), y)
        steps, total = steps + 1, total + q
    return total / steps
""",
        "q = quality(net(x), y)",
    ),
    "dictionary": (
        "log['quality'].append(evaluate(setup.model, setup.val_loader))",
        """
def evaluate(net, loader):
    mean = 0.0
    for k, (x, y) in enumerate(loader):
        mean += (quality(net(x), y) - mean) / (k + 1)
    return mean
""",
        "mean += (quality(net(x), y) - mean) / (k + 1)",
    ),
}
WHOLE = """
def evaluate(net, loader):
    parts = [(net(x), y) for x, y in loader]
    return quality(*map(torch.cat, zip(*parts)))
"""


PREDICTIONS = """
def predictions(net, loader):
    for x, y in loader:
        yield net(x), y
"""
# The metric is computed by the function that consumes a generator of predictions, at the line with "here".
CONSUMED = {
    "expression": """
def evaluate(net, loader):
    return sum(quality(p, y) for p, y in predictions(net, loader)) / len(loader)  # here
""",
    "sum": """
def evaluate(net, loader):
    total = 0.0
    for p, y in predictions(net, loader):
        total += quality(p, y)  # here
    return total / len(loader)
""",
    "list": """
def evaluate(net, loader):
    parts = []
    for p, y in predictions(net, loader):
        parts.append(quality(p, y))  # here
    return sum(parts) / len(parts)
""",
    "running mean of a generator": """
def means(net, loader):
    total = 0.0
    for k, (x, y) in enumerate(loader):
        total += quality(net(x), y)  # here
        yield total / (k + 1)
def evaluate(net, loader):
    for mean in means(net, loader):
        latest = mean
    return latest
""",
}


def make_setup(is_binary: bool, size: int = 16) -> Setup:
    x, y = points(2)
    targets = y.float().unsqueeze(1) if is_binary else x[:, :1] + 0.3 * torch.randn(len(x), 1)
    setup = minimal_setup(network(1), x, targets, nn.BCEWithLogitsLoss() if is_binary else nn.MSELoss())
    setup.val_loader = DataLoader(TensorDataset(x, targets), batch_size=size)
    return setup


def e708_findings(folder: Path, quality: str, store: str, evaluation: str, size: int = 16) -> list[Finding]:
    text = TRAIN.format(quality=quality, store=store, evaluation=evaluation)
    setup = make_setup(quality == F1, size)
    return [finding for finding in all_findings(load_loop(folder / "loop.py", text), setup) if finding.code == "E708"]


@pytest.mark.parametrize("writing", AVERAGED)
@pytest.mark.parametrize(("quality", "metric"), [(R2, "R²"), (CORRELATION, "correlation"), (F1, "F1")])
def test_metric_averaging_of_metrics_of_all_rows_fires_whatever_they_are_called(
    tmp_path: Path, writing: str, quality: str, metric: str
) -> None:
    store, evaluation, line = AVERAGED[writing]
    finding = next(f for f in e708_findings(tmp_path, quality, store, evaluation) if f.evidence.get("metric") == metric)
    assert finding.severity == "warning"
    assert source_line(finding) == line
    mean, whole = finding.evidence["mean over batches"], finding.evidence["on all rows"]
    assert f"{finding.message.split()[0]} is {mean:.4g}: the mean of the {metric} " in finding.message
    assert f"On all 64 rows together it is {whole:.4g}" in finding.message


@pytest.mark.parametrize("writing", CONSUMED)
@pytest.mark.parametrize("quality", [R2, F1])
def test_metric_averaging_names_the_line_of_the_metric_that_consumes_predictions(
    tmp_path: Path, writing: str, quality: str
) -> None:
    evaluation = PREDICTIONS + CONSUMED[writing]
    (finding,) = e708_findings(tmp_path, quality, "score = evaluate(setup.model, setup.val_loader)", evaluation)
    assert source_line(finding).endswith("# here"), str(finding)


@pytest.mark.parametrize("quality", [R2, CORRELATION, F1, MEAN_ERROR])
def test_metric_averaging_of_metrics_of_all_rows_computed_once_is_quiet(tmp_path: Path, quality: str) -> None:
    assert not e708_findings(tmp_path, quality, "score = evaluate(setup.model, setup.val_loader)", WHOLE)


@pytest.mark.parametrize("writing", AVERAGED)
def test_metric_averaging_of_means_over_equal_batches_is_quiet(tmp_path: Path, writing: str) -> None:
    assert not e708_findings(tmp_path, MEAN_ERROR, *AVERAGED[writing][:2])


@pytest.mark.parametrize("writing", AVERAGED)
def test_metric_averaging_of_a_single_batch_is_quiet(tmp_path: Path, writing: str) -> None:
    assert not e708_findings(tmp_path, R2, *AVERAGED[writing][:2], size=64)


@pytest.mark.parametrize("is_binary", [False, True])
@pytest.mark.parametrize(
    ("added", "divisor", "is_wrong"),
    [
        ("loss.item() * len(y)", "len(setup.val_loader)", True),
        ("loss.item()", "len(setup.val_loader.dataset)", True),
        ("loss.item() * len(y)", "len(setup.val_loader.dataset)", False),
        ("loss.item()", "len(setup.val_loader)", False),
    ],
    ids=["rows over batches", "means over rows", "rows over rows", "means over batches"],
)
def test_metric_averaging_of_losses_is_reported_if_they_are_divided_by_another_count(
    tmp_path: Path, added: str, divisor: str, is_wrong: bool, is_binary: bool
) -> None:
    store = f"""loss_sum = 0.0
            for x, y in setup.val_loader:
                loss = setup.loss_fn(setup.model(x), y)
                loss_sum += {added}  # here
            validation = loss_sum / {divisor}"""
    findings = e708_findings(tmp_path, F1 if is_binary else R2, store, "")
    assert len(findings) == is_wrong
    for finding in findings:
        assert source_line(finding).endswith("# here")
        assert ": the sum of the " in finding.message
        assert divisor.endswith("dataset)") == ("must be divided by the number of batches" in finding.cause)


@pytest.mark.parametrize(("size", "severity"), [(21, "warning"), (32, None), (23, None)])
def test_metric_averaging_of_errors_over_batches_of_different_sizes_depends_on_the_last(
    tmp_path: Path, size: int, severity: str | None
) -> None:
    evaluation = """
class Meter:
    def __init__(self):
        self.values = []

    def mean(self):
        return sum(self.values) / len(self.values)

def evaluate(net, loader):
    meter = Meter()
    for x, y in loader:
        note(meter, quality(net(x), y))
    return meter.mean()

def note(meter, value):
    meter.values.append(value)
"""
    findings = e708_findings(tmp_path, MEAN_ERROR, "score = evaluate(setup.model, setup.val_loader)", evaluation, size)
    assert [finding.severity for finding in findings] == ([severity] if severity else [])
    assert all("the mean of the mean absolute error of 4 batches" in f.message for f in findings)


def test_metric_averaging_of_a_loss_of_one_batch_times_its_rows_is_quiet(tmp_path: Path) -> None:
    store = "total = sum(setup.loss_fn(setup.model(x), y).item() * len(y) for x, y in setup.val_loader)"
    assert not e708_findings(tmp_path, R2, store, "", size=64)


RIGHT = "((setup.model(x) > 0) == y.bool()).sum().item()"


@pytest.mark.parametrize(
    ("store", "message", "line"),
    [
        (
            f"quality = sum({RIGHT} for x, y in setup.val_loader) / len(setup.val_loader)",
            "number of batches",
            "quality =",
        ),
        (f"quality = sum({RIGHT} for x, y in setup.val_loader) / 64", None, ""),
        (
            f"right += sum([{RIGHT} for x, y in setup.val_loader]); rows += 64; quality = right / rows",
            "the accuracy over all evaluations so far",
            "right, rows = 0, 0",
        ),
        (
            f"quality = sum([{RIGHT} for x, y in setup.val_loader]) / 64; right += quality; mean = right / (epoch + 1)",
            None,
            "",
        ),
    ],
    ids=["batches", "rows", "all evaluations", "mean beside the accuracy"],
)
def test_metric_averaging_of_an_accuracy_is_reported_if_its_divisor_is_another_count(
    tmp_path: Path, store: str, message: str | None, line: str
) -> None:
    text = TRAIN.format(quality=F1, store=store, evaluation="")
    loop = load_loop(tmp_path / "loop.py", text.replace("history, log =", "right, rows = 0, 0\n    history, log ="))
    findings = [finding for finding in all_findings(loop, make_setup(True)) if finding.code == "E708"]
    assert len(findings) == (message is not None)
    for finding in findings:
        assert finding.message.startswith("quality is ")
        assert str(message) in finding.message
        assert source_line(finding).startswith(line)


@pytest.mark.parametrize("call", ["", "[], []"], ids=["kept by the defaults", "new lists"])
def test_metric_averaging_of_default_lists_is_placed_at_the_parameters(tmp_path: Path, call: str) -> None:
    evaluation = """
def score(net, loader, guesses=[], truths=[]):  # here
    for x, y in loader:
        guesses.append((net(x) > 0).float().flatten())
        truths.append(y.flatten())
    return (torch.cat(guesses) == torch.cat(truths)).float().mean().item()
"""
    store = f"quality = score(setup.model, setup.val_loader{call and ', ' + call})"
    loop = load_loop(tmp_path / "loop.py", TRAIN.format(quality=F1, store=store, evaluation=evaluation))
    findings = [finding for finding in all_findings(loop, make_setup(True)) if finding.code == "E708"]
    assert len(findings) == (not call)
    assert all(source_line(finding).endswith("# here") for finding in findings)


def evaluate_once(debugger: Debugger) -> None:
    """Train, and store the correct predictions of a batch, in a function whose variables a watch may read."""
    setup, results = debugger.setup, {}
    with debugger.watch():
        train(setup, 4)
        with torch.no_grad():
            right = sum(((setup.model(x) > 0) == y.bool()).sum().item() for x, y in setup.val_loader)
        results["accuracy"] = right / len(setup.val_loader)


@pytest.mark.parametrize(("batch_size", "is_found"), [(10, True), (24, False)], ids=["7.714", "18"])
def test_metric_averaging_of_correct_predictions_over_batches_is_found_in_one_evaluation(
    batch_size: int, is_found: bool
) -> None:
    debugger = Debugger.of(make_setup(True, batch_size))
    evaluate_once(debugger)
    lines = [source_line(finding) for finding in debugger.findings if finding.code == "E708"]
    assert lines == ['results["accuracy"] = right / len(setup.val_loader)'] * is_found


def test_whole_set_metrics_equal_those_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    scores, classes = random.normal(size=(80, 3)), random.integers(0, 3, 80)
    computed = whole_set_metrics(scores, classes.astype(float))
    assert computed["macro F1"] == pytest.approx(metrics.f1_score(classes, scores.argmax(1), average="macro"))
    assert computed["Matthews correlation"] == pytest.approx(metrics.matthews_corrcoef(classes, scores.argmax(1)))
    logits, labels = scores[:, :1].round(1), (classes[:, None] > 0).astype(float)
    computed = whole_set_metrics(logits, labels)
    assert computed["AUC"] == pytest.approx(metrics.roc_auc_score(labels, logits))
    assert computed["F1"] == pytest.approx(metrics.f1_score(labels, logits > 0))
    computed = whole_set_metrics(scores, scores + random.normal(size=scores.shape))
    assert set(computed) == {"R²", "R² (mean of the outputs)", "correlation", "rank correlation"}
