"""Tests of G405: operations that return NaN or Inf for finite inputs, and masks that are harmless."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import apply_edits
from tests.rules.rule_findings import checkup_findings
from tests.rules.signal.networks import HiddenFunction

X, Y = points()
CE = nn.CrossEntropyLoss()
TOKENS = torch.randint(1, 9, (64, 5), generator=torch.Generator().manual_seed(0))
TOKENS_WITH_EMPTY_ROW = TOKENS.clone()
TOKENS_WITH_EMPTY_ROW[21] = 0


class MaskedAttention(nn.Module):
    """Attention over tokens with a mask for padding, which is 0."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 8), nn.Linear(8, 3)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        return self.head(self.attention(x, x, x, key_padding_mask=tokens == 0)[0].mean(1))


class AdditiveMask(nn.Module):
    """Manual attention with an additive mask."""

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 8), nn.Linear(8, 3)
        self.register_buffer("mask", mask)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        return self.head((x @ x.transpose(1, 2) + self.mask).softmax(-1) @ x).mean(1)


class MaskedOutput(MaskedAttention):
    """Removes the masked positions from the output, so that the loss is finite and its gradient is not."""

    def forward(self, tokens: Tensor) -> Tensor:
        x, padded = self.embedding(tokens), tokens == 0
        mixed = self.attention(x, x, x, key_padding_mask=padded)[0]
        return self.head(mixed.masked_fill(padded.unsqueeze(-1), 0).sum(1))


def normalized_by_hand(h: Tensor) -> Tensor:
    h = torch.relu(h - 100)
    return (h - h.mean(1, keepdim=True)) / h.std(1, keepdim=True)


def log_of_softmax(output: Tensor, target: Tensor) -> Tensor:
    one_hot = F.one_hot(target, 3)
    return -(one_hot * torch.log(torch.softmax(output * 1e4, dim=1))).sum()


def hidden_setup(function: Callable[[Tensor], Tensor]) -> Callable[[], Setup]:
    return lambda: minimal_setup(HiddenFunction(function), X, Y, CE)


def token_setup(model: Callable[[], nn.Module], tokens: Tensor) -> Callable[[], Setup]:
    return lambda: minimal_setup(model(), tokens, Y, CE)


FAULTS: dict[str, tuple[Callable[[], Setup], str]] = {
    "log of negative values": (hidden_setup(lambda h: torch.log(h)), "torch.log(h)"),
    "square root of negative values": (hidden_setup(lambda h: h.sqrt()), "h.sqrt()"),
    "constant rows": (hidden_setup(normalized_by_hand), "h.std(1"),
    "overflow": (hidden_setup(lambda h: (h * 1e3).exp()), ".exp()"),
    "half precision": (hidden_setup(lambda h: (h * 1e5).half().float()), ".half()"),
    "log of softmax in the loss": (lambda: classifier(loss_fn=log_of_softmax), "torch.log("),
    "empty text": (token_setup(MaskedAttention, TOKENS_WITH_EMPTY_ROW), "self.attention"),
    "mask by multiplication": (hidden_setup(lambda h: h + torch.zeros(8) * -torch.inf), "* -torch.inf"),
    "empty text, masked out of the loss": (token_setup(MaskedOutput, TOKENS_WITH_EMPTY_ROW), "self.attention"),
    "power": (hidden_setup(lambda h: h**0.5), "h**0.5"),
}
HEALTHY: dict[str, Callable[[], Setup]] = {
    "plain": classifier,
    "mask": token_setup(lambda: AdditiveMask(torch.full((5, 5), -torch.inf).triu(1)), TOKENS),
    "padding": token_setup(MaskedAttention, torch.where(torch.arange(5) > 2, 0, TOKENS)),
    "guarded by where": hidden_setup(lambda h: torch.where(h > 0, torch.log(h.clamp_min(1e-6)), h)),
    "unguarded branch not taken": hidden_setup(lambda h: torch.where(h > 0, torch.log(h), h)),
    "clamped": hidden_setup(lambda h: torch.log(h.clamp_min(1e-6))),
}


def findings(setup: Setup) -> list[Finding]:
    return checkup_findings(setup, "G405")


@pytest.mark.parametrize("name", FAULTS)
def test_non_finite_forward_points_to_line_of_operation(name: str) -> None:
    build, source = FAULTS[name]
    (finding,) = findings(build())
    assert source in (finding.where.source or "")


@pytest.mark.parametrize("name", HEALTHY)
def test_non_finite_forward_ignores_finite_losses(name: str) -> None:
    assert findings(HEALTHY[name]()) == []


def test_non_finite_forward_in_second_batch_names_batch_and_module() -> None:
    (finding,) = findings(FAULTS["empty text"][0]())
    assert finding.evidence["batch"] == 1
    assert finding.where.module == "attention"
    assert finding.cause == "A softmax is undefined for a row whose entries are all masked."


def test_non_finite_forward_ignores_non_finite_input() -> None:
    setup = minimal_setup(network(3), torch.full((64, 4), torch.nan), Y, CE)
    assert findings(setup) == []


def test_non_finite_forward_reports_input_range_and_fix() -> None:
    (finding,) = findings(hidden_setup(lambda h: torch.log(h * 0))())
    assert finding.evidence["input range"] == [0.0, 0.0]
    assert "clamp_min" in finding.fix


@pytest.mark.parametrize(
    ("function", "cause", "fix"),
    [
        (lambda h: torch.log(h * 0), "log of 0 is minus infinity.", "clamp_min"),
        (lambda h: h / (h * 0), "div divides by 0.", "1e-8"),
        (lambda h: h[:0].mean() + h, "There is no value to average.", "skip empty inputs"),
        (lambda h: (h * 1e3).exp(), "exp overflows for inputs as large as ", "logsumexp"),
        (lambda h: (h * 1e30) @ (h.T * 1e30) @ h, "The result of mm exceeds the largest number", "Find where these"),
        (lambda h: (h * 1e5).half().float(), "as above 65504 in float16", "bfloat16"),
        (lambda h: h + torch.zeros(8) * -torch.inf, "An infinite value, such as that of a mask, is", "masked_fill"),
        (torch.logit, "logit is undefined for some of these inputs.", "eps=1e-6"),
    ],
)
def test_cause_says_why_the_result_is_no_number(function: Callable[[Tensor], Tensor], cause: str, fix: str) -> None:
    (finding,) = findings(hidden_setup(function)())
    assert cause in finding.cause
    assert fix in finding.fix


def log_likelihood(output: Tensor, target: Tensor) -> Tensor:
    mean, variance = output[:, 0], output[:, 1]
    error = (target - mean) ** 2
    return (error / variance + variance.log()).mean()


def log_likelihood_of_deviation(output: Tensor, target: Tensor) -> Tensor:
    return ((target - output[:, 0]) ** 2 - torch.sqrt(output[:, 1])).mean()


@pytest.mark.parametrize(
    ("loss_fn", "added"),
    [
        (log_likelihood, "variance = F.softplus(variance) + 1e-6"),
        (log_likelihood_of_deviation, "(F.softplus(output[:, 1]) + 1e-6)"),
    ],
)
def test_predicted_variance_becomes_positive_by_softplus(loss_fn: Callable[..., Tensor], added: str) -> None:
    (finding,) = findings(minimal_setup(network(2), X, Y, loss_fn))
    source = Path(__file__).read_text(encoding="utf-8")
    assert [edit.text.strip() for edit in finding.edits] == [added]
    names: dict[str, object] = {"__name__": "changed"}
    changed = ast.unparse(function_in(apply_edits(source, finding.edits), loss_fn.__name__))
    exec(f"import torch\nfrom torch import Tensor\nfrom torch.nn import functional as F\n{changed}", names)
    output = torch.tensor([[0.0, -2.0], [0.0, 3.0]], requires_grad=True)
    loss = names[loss_fn.__name__](output, torch.zeros(2))  # type: ignore[operator]
    (gradient,) = torch.autograd.grad(loss, output)
    assert bool(loss.isfinite())
    assert bool((gradient[:, 1] != 0).all())


def function_in(source: str, name: str) -> ast.FunctionDef:
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return next(function for function in functions if function.name == name)


@pytest.mark.parametrize(
    "function", [lambda h: torch.tanh(h).sqrt(), lambda h: (h - h.mean(1, keepdim=True)).sqrt()], ids=["tanh", "mean"]
)
def test_bounded_value_keeps_the_usual_fix(function: Callable[[Tensor], Tensor]) -> None:
    (finding,) = findings(hidden_setup(function)())
    assert "softplus" not in finding.fix


def test_non_finite_forward_is_the_only_fault_for_nan_in_hidden_layer() -> None:
    report = Debugger.of(minimal_setup(HiddenFunction(lambda h: torch.log(h.relu())), X, Y, CE)).checkup()
    assert [finding.code for finding in report.faults] == ["G405"]


def test_non_finite_forward_with_infinite_inputs_says_so() -> None:
    setup = classifier()
    x, y = setup.train_loader.dataset.tensors
    x = x.clone()
    x[2, 1] = torch.inf
    inputs = minimal_setup(nn.Sequential(nn.Linear(x.shape[1], 8), nn.Linear(8, 3)), x, y, nn.CrossEntropyLoss())
    (finding,) = findings(inputs)
    assert "inputs that are infinite or from" in finding.message
    assert "finite inputs" not in finding.message
    assert "inputs of addmm are infinite" in finding.cause
