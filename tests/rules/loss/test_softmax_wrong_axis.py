"""Tests of L206: softmax over the wrong axis, at the head and in attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.rules.faulty_models import ModelWithTail
from tests.rules.healthy_models import SelfAttention
from tests.rules.rule_findings import checkup_findings, fault_messages, rule_findings, setup_builder

TOKENS = torch.randint(0, 12, (32, 7), generator=torch.Generator().manual_seed(0))
IMAGES = torch.rand(32, 1, 6, 8, generator=torch.Generator().manual_seed(0))
MASKS = (IMAGES[:, 0] * 2.99).long()
SERIES = torch.randn(64, 6, 4, generator=torch.Generator().manual_seed(2))
Y = points()[1]


class AttentionPooling(nn.Module):
    """A classifier that pools over time with softmax weights along ``axis``."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.body, self.score, self.head = nn.Embedding(12, 8), nn.Linear(8, 1), nn.Linear(8, 3)
        self.axis = axis

    def forward(self, tokens: Tensor) -> Tensor:
        states = self.body(tokens)
        weights = torch.softmax(self.score(states), dim=self.axis)
        return self.head((weights * states).sum(1))


def token_nll(output: Tensor, target: Tensor) -> Tensor:
    return F.nll_loss(output.reshape(-1, output.shape[-1]), target.reshape(-1))


def tagger(axis: int) -> Setup:
    body = nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 5))
    return minimal_setup(ModelWithTail(body, lambda x: F.log_softmax(x, dim=axis)), TOKENS, TOKENS % 5, token_nll)


def segmenter(axis: int, loss_fn: Any = None, target: Tensor = MASKS) -> Setup:
    tail = F.log_softmax if loss_fn is None else F.softmax
    model = ModelWithTail(nn.Conv2d(1, 3, 3, padding=1), lambda x: tail(x, dim=axis))
    return minimal_setup(model, IMAGES, target, loss_fn or nn.NLLLoss())


def one_hot_segmenter(axis: int) -> Setup:
    return segmenter(axis, nn.MSELoss(), F.one_hot(MASKS, 3).movedim(-1, 1).float())


def pooling_classifier(axis: int) -> Setup:
    return minimal_setup(AttentionPooling(axis), TOKENS, TOKENS[:, 0] % 3, nn.CrossEntropyLoss())


@pytest.mark.parametrize(
    "setup",
    [tagger(1), segmenter(2), segmenter(-1), one_hot_segmenter(3), pooling_classifier(2)],
    ids=["time", "height", "width", "width of one-hot targets", "axis of length one"],
)
def test_softmax_wrong_axis_over_another_axis_than_classes_or_time_is_reported(setup: Setup) -> None:
    assert len(fault_messages(setup, "L206")) == 1


@pytest.mark.parametrize(
    "setup",
    [tagger(-1), segmenter(1), one_hot_segmenter(1), pooling_classifier(1)],
    ids=["tags", "pixels", "one-hot targets", "weights over time"],
)
def test_softmax_wrong_axis_over_classes_or_pooled_time_is_quiet(setup: Setup) -> None:
    assert fault_messages(setup, "L206") == []


class AttentionClassifier(nn.Module):
    """A head on the mean over time of a function of queries, keys and values."""

    def __init__(self, attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.attend, self.head = attend, nn.Linear(8, 3)
        self.query, self.key, self.value = (nn.Linear(4, 8) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.attend(self.query(x), self.key(x), self.value(x)).mean(1))


def softmax_over_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(1, 2) / 8**0.5).softmax(1) @ v


def heads_softmax_over_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (t.unflatten(2, (2, 4)).transpose(1, 2) for t in (q, k, v))
    scores = torch.matmul(q, k.transpose(-2, -1)) * 0.5
    weights = F.dropout(F.softmax(scores.masked_fill(torch.eye(6).bool(), -1e9), dim=2), 0.1)
    return torch.matmul(weights, v).transpose(1, 2).flatten(2)


def transposed_softmax_over_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.bmm(v.transpose(1, 2), torch.bmm(k, q.transpose(1, 2)).softmax(2)).transpose(1, 2)


@pytest.mark.parametrize("attend", [softmax_over_queries, heads_softmax_over_queries, transposed_softmax_over_queries])
def test_softmax_wrong_axis_over_attention_queries_is_a_warning_at_its_line(attend: Callable[..., Tensor]) -> None:
    (finding,) = checkup_findings(setup_builder(AttentionClassifier(attend), SERIES, Y)(), "L206")
    assert finding.severity == "warning"
    assert "softmax" in (finding.where.source or "")


def softmax_over_keys(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.dropout((q @ k.transpose(1, 2)).softmax(-1), 0.1) @ v


def transposed_softmax_over_keys(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (v.transpose(1, 2) @ (k @ q.transpose(1, 2)).softmax(1)).transpose(1, 2)


def bidirectional_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(1, 2)
    return scores.softmax(2) @ v + scores.softmax(1).transpose(1, 2) @ v


def slot_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = (q @ k.transpose(1, 2)).softmax(1)
    return (weights / weights.sum(2, keepdim=True)) @ v


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q.softmax(2) @ (k.softmax(1).transpose(1, 2) @ v)


def soft_assignment(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q.softmax(2).transpose(1, 2) @ v


@pytest.mark.parametrize(
    "attend",
    [
        softmax_over_keys,
        transposed_softmax_over_keys,
        bidirectional_attention,
        slot_attention,
        linear_attention,
        soft_assignment,
    ],
)
def test_softmax_wrong_axis_of_correct_attention_is_quiet(attend: Callable[..., Tensor]) -> None:
    assert checkup_findings(setup_builder(AttentionClassifier(attend), SERIES, Y)(), "L206") == []


def test_softmax_wrong_axis_of_attention_over_sequences_of_length_one_is_quiet() -> None:
    model = SelfAttention()
    assert rule_findings(setup_builder(model, torch.randn(32, 1, 8), torch.arange(32) % 3)(), "L206") == []


def test_softmax_wrong_axis_in_a_pooling_names_the_axis_of_the_items() -> None:
    (finding,) = rule_findings(pooling_classifier(2), "L206")
    assert "axis 1 of size 7" in finding.cause
    assert "softmax(x, dim=1)" in finding.fix


def test_softmax_wrong_axis_over_samples_speaks_of_classes_only_for_the_head() -> None:
    head = minimal_setup(nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(dim=0)), *points(), nn.NLLLoss())
    for setup, values in ((pooling_classifier(0), "values"), (head, "classes")):
        (finding,) = rule_findings(setup, "L206")
        assert f"samples of the batch instead of the {values} of each sample" in finding.message
    assert "log_softmax(x, dim=-1)" in finding.fix


class VotePooling(AttentionPooling):
    """Pools over time with four sets of weights."""

    def __init__(self, axis: int) -> None:
        super().__init__(axis)
        self.score, self.head = nn.Linear(8, 4), nn.Linear(32, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        states = self.body(tokens)
        votes = torch.softmax(self.score(states), dim=self.axis)
        return self.head(torch.einsum("ntk,ntw->nkw", votes, states).flatten(1))


def test_softmax_wrong_axis_over_samples_changes_no_axis_if_several_are_possible() -> None:
    setup = minimal_setup(VotePooling(0), TOKENS, TOKENS[:, 0] % 3, nn.CrossEntropyLoss())
    (finding,) = rule_findings(setup, "L206")
    assert finding.fix == "Take the axis that is summed after the softmax: 1 or 2."
    assert not finding.edits
    (finding,) = rule_findings(pooling_classifier(0), "L206")
    assert "softmax(x, dim=1)" in finding.fix


QUERIES = torch.randn(60, 5, generator=torch.Generator().manual_seed(5))
GRADES = torch.randn(60, 7, generator=torch.Generator().manual_seed(6))


def log_shares_by_sum(scores: Tensor, axis: int) -> Tensor:
    return (scores - scores.logsumexp(axis, keepdim=True)).exp().add(1e-9).log()


def log_shares_by_maximum(scores: Tensor, axis: int) -> Tensor:
    powers = torch.exp(scores - scores.amax(axis, keepdim=True))
    return torch.log(powers / powers.sum(axis, keepdim=True))


def log_shares_by_differences(scores: Tensor, axis: int) -> Tensor:
    moved = scores.movedim(axis, -1)
    shares = -torch.logsumexp(moved.unsqueeze(-2) - moved.unsqueeze(-1), -1)
    return shares.movedim(-1, axis)


def list_loss(log_shares: Callable[[Tensor, int], Tensor], axis: int) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, grades: -(grades.softmax(axis) * log_shares(scores, axis)).sum() / len(scores)


def cluster_loss(scores: Tensor, grades: Tensor) -> Tensor:
    """Draws samples to the soft means of clusters, whose weights sum to one over the batch."""
    weights = scores.softmax(1)
    means = (weights / weights.sum(0)).T @ grades
    return (weights @ means - grades).square().mean()


HAND_WRITTEN = [log_shares_by_sum, log_shares_by_maximum, log_shares_by_differences]


@pytest.mark.parametrize("log_shares", HAND_WRITTEN)
def test_softmax_wrong_axis_by_hand_over_batch_is_reported_at_its_line(
    log_shares: Callable[[Tensor, int], Tensor],
) -> None:
    setup = minimal_setup(nn.Linear(5, 7), QUERIES, GRADES, list_loss(log_shares, 0))
    (finding,) = checkup_findings(setup, "L206")
    assert finding.severity == "error"
    assert any(word in (finding.where.source or "") for word in ("logsumexp", "torch.log(", "movedim"))


@pytest.mark.parametrize("log_shares", HAND_WRITTEN)
def test_softmax_wrong_axis_by_hand_over_own_values_is_quiet(log_shares: Callable[[Tensor, int], Tensor]) -> None:
    setup = minimal_setup(nn.Linear(5, 7), QUERIES, GRADES, list_loss(log_shares, 1))
    assert checkup_findings(setup, "L206") == []


def test_softmax_wrong_axis_of_cluster_weights_is_quiet() -> None:
    assert checkup_findings(minimal_setup(nn.Linear(5, 7), QUERIES, GRADES, cluster_loss), "L206") == []


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_wrong_axis_by_hand_in_own_loop_is_reported_over_batch_only(axis: int) -> None:
    torch._dynamo.reset()
    model, batches = nn.Linear(5, 7), DataLoader(TensorDataset(QUERIES, GRADES), batch_size=20)
    optimizer, debugger = torch.optim.SGD(model.parameters(), lr=0.01), Debugger(model, batches)
    with debugger.watch() as run:
        for x, grades in batches:
            optimizer.zero_grad()
            list_loss(log_shares_by_maximum, axis)(model(x), grades).backward()
            optimizer.step()
    assert not run.error_summary
    assert [finding.code for finding in debugger.findings if finding.code == "L206"] == ["L206"] * (axis == 0)


class SharesByHand(nn.Module):
    """Probabilities of three classes, or their logarithms, that sum to one over an axis."""

    def __init__(self, axis: int, log: bool) -> None:
        super().__init__()
        self.body, self.axis, self.log = nn.Linear(4, 3), axis, log

    def forward(self, x: Tensor) -> Tensor:
        exponents = self.body(x).exp()
        shares = exponents / exponents.sum(self.axis, keepdim=True)
        return shares.log() if self.log else shares


@pytest.mark.parametrize("log", [True, False])
def test_softmax_wrong_axis_by_hand_in_the_model_is_reported_over_batch_only(log: bool) -> None:
    x, y = points()
    (finding,) = rule_findings(minimal_setup(SharesByHand(0, log), x, y, nn.NLLLoss()), "L206")
    assert "sum to 1 over axis 0" in finding.message
    assert rule_findings(minimal_setup(SharesByHand(1, log), x, y, nn.NLLLoss()), "L206") == []


class SingleOutput(nn.Module):
    """One number for each sample, without an axis of its own."""

    def __init__(self, tail: Callable[[Tensor], Tensor] = lambda scores: scores) -> None:
        super().__init__()
        self.layers, self.tail = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)), tail

    def forward(self, x: Tensor) -> Tensor:
        return self.tail(self.layers(x).flatten())


FLAGS = (points()[1] > 0).float()


def single_output(
    loss_fn: Any, target: Tensor = FLAGS, tail: Any = None, shuffle: bool = True, size: int = 16
) -> Callable[[], Setup]:
    loader = DataLoader(TensorDataset(points()[0], target), batch_size=size, shuffle=shuffle)
    return lambda: Setup(SingleOutput(tail) if tail else SingleOutput(), loader, loss_fn=loss_fn)


def penalized(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target) + 0.01 * output.square().mean()


def listwise(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target / target.sum())


def hand_made_listwise(output: Tensor, target: Tensor) -> Tensor:
    return -(target * output.log_softmax(0)).sum() / target.sum()


def first_is_positive(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, torch.eye(len(output))[0]) + 0 * target.sum()


FLAT_FAULTS = {
    "module": single_output(nn.CrossEntropyLoss()),
    "functional with a penalty": single_output(penalized),
    "smoothed labels": single_output(F.cross_entropy, 0.9 * FLAGS + 0.05),
    "quantities": single_output(nn.CrossEntropyLoss(), points()[0][:, 0].contiguous()),
    "softmax at the output": single_output(nn.BCELoss(), tail=lambda scores: scores.softmax(0)),
}
FLAT_GOOD = {
    "binary cross-entropy": single_output(nn.BCEWithLogitsLoss()),
    "list as a distribution": single_output(listwise),
    "list by hand": single_output(hand_made_listwise),
    "lists in order": single_output(nn.CrossEntropyLoss(), shuffle=False),
    "one of a list": single_output(first_is_positive),
    "sigmoid at the output": single_output(nn.BCELoss(), tail=lambda scores: scores.sigmoid()),
}


@pytest.mark.parametrize("name", FLAT_FAULTS)
def test_l206_cross_entropy_over_the_single_outputs_of_a_batch_fires(name: str) -> None:
    (finding,) = checkup_findings(FLAT_FAULTS[name](), "L206")
    assert "samples of the batch" in finding.message
    assert ("MSELoss" in finding.fix) == (name == "quantities")
    assert not finding.edits


@pytest.mark.parametrize("name", FLAT_GOOD)
def test_l206_losses_that_expect_single_outputs_are_quiet(name: str) -> None:
    assert rule_findings(FLAT_GOOD[name](), "L206") == []


@pytest.mark.parametrize(("loss_fn", "count"), [(F.cross_entropy, 1), (F.binary_cross_entropy_with_logits, 0)])
def test_l206_cross_entropy_over_the_single_outputs_of_a_batch_fires_in_a_loop(loss_fn: Any, count: int) -> None:
    debugger = Debugger.of(single_output(nn.BCEWithLogitsLoss())())
    optimizer = torch.optim.Adam(debugger.setup.eager_model.parameters())
    with debugger.watch() as watch:
        for x, y in debugger.setup.train_loader:
            optimizer.zero_grad()
            loss_fn(debugger.setup.model(x), y).backward()
            optimizer.step()
    result: Any = watch.result
    assert [finding.code for finding in result.report.findings if finding.code == "L206"] == ["L206"] * count


def softmax_without_axis(x: Tensor) -> Tensor:
    return F.softmax(x)


def softmax_with_dtype(x: Tensor) -> Tensor:
    return nn.functional.softmax(x, dtype=torch.float32)


def log_softmax_without_axis(x: Tensor) -> Tensor:
    return F.log_softmax(x).exp()


def softmax_of_axis(x: Tensor) -> Tensor:
    return F.softmax(x, 0)


def softmax_of_dim(x: Tensor) -> Tensor:
    return F.softmax(x, dim=0)


def softmax_method(x: Tensor) -> Tensor:
    return x.softmax(0)


class SoftmaxCall(nn.Module):
    """A module of the user's whose softmax is a call of a function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class _Weighing(nn.Module):
    """A mean of steps by weights whose softmax names its axis or leaves it to torch."""

    def __init__(self, softmax: nn.Module) -> None:
        super().__init__()
        self.score, self.softmax, self.head = nn.Linear(4, 1), softmax, nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        steps = x[:, None, :] * torch.ones(5, 1)
        scores: Tensor = self.head((self.softmax(self.score(steps)) * steps).sum(1))
        return scores


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize(
    ("softmax", "name"),
    [
        (nn.Softmax(), "Softmax"),
        (nn.Softmax(0), ""),
        (SoftmaxCall(softmax_without_axis), "F.softmax"),
        (SoftmaxCall(softmax_with_dtype), "nn.functional.softmax"),
        (SoftmaxCall(log_softmax_without_axis), "F.log_softmax"),
        (SoftmaxCall(softmax_of_axis), ""),
        (SoftmaxCall(softmax_of_dim), ""),
        (SoftmaxCall(softmax_method), ""),
    ],
)
def test_axis_that_torch_takes_without_dim_is_explained(softmax: nn.Module, name: str) -> None:
    torch.manual_seed(0)
    (finding,) = rule_findings(minimal_setup(_Weighing(softmax), *points(), nn.CrossEntropyLoss()), "L206")
    assert ("() without dim takes axis 0 for inputs of three axes." in finding.cause) is bool(name)
    assert f" {name}() without dim" in finding.cause or not name


class ChannelGate(nn.Module):
    """Multiplies channels, or positions, by weights that are computed from a summary of the map."""

    def __init__(self, weigh: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.mix = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 1)
        self.weigh, self.head = weigh, nn.Linear(4 * 6 * 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.body(x))
        scores: Tensor = self.head((self.weigh(self.mix(x)) * x).flatten(1))
        return scores


SPATIAL_MEAN, SPATIAL_MAXIMUM = nn.AdaptiveAvgPool2d(1), nn.AdaptiveMaxPool2d(1)
POOLED_AXES: dict[str, Callable[[Tensor], Tensor]] = {
    "width of an average pooling": lambda x: SPATIAL_MEAN(x).softmax(-1),
    "height of a maximum pooling": lambda x: torch.softmax(SPATIAL_MAXIMUM(x), dim=2),
    "mean that keeps its axes": lambda x: x.mean((2, 3), keepdim=True).softmax(3),
    "scaled maximum of channels": lambda x: (2 * x.amax(1, keepdim=True)).tanh().softmax(1),
    "flat pooling": lambda x: nn.AdaptiveAvgPool1d(1)(x.flatten(2)).softmax(2)[..., None],
}
HEALTHY_AXES: dict[str, Callable[[Tensor], Tensor]] = {
    "channels of an average pooling": lambda x: SPATIAL_MEAN(x).softmax(1),
    "width of a maximum over the height": lambda x: x.amax(2, keepdim=True).softmax(3),
    "positions of a mean over the channels": lambda x: x.mean(1, keepdim=True).flatten(2).softmax(2).view(-1, 1, 6, 8),
    "positions": lambda x: x.flatten(2).softmax(2).view_as(x),
    "one position of the data": lambda x: x[:, :, :1, :1].softmax(2),
    "sigmoid of a pooling": lambda x: SPATIAL_MEAN(x).sigmoid(),
}


@pytest.mark.parametrize("name", [*POOLED_AXES, *HEALTHY_AXES])
def test_l206_softmax_over_an_axis_that_was_pooled_fires(name: str) -> None:
    torch.manual_seed(0)
    setup = minimal_setup(
        ChannelGate((POOLED_AXES | HEALTHY_AXES)[name]), IMAGES, MASKS[:, 0, 0], nn.CrossEntropyLoss()
    )
    found = rule_findings(setup, "L206")
    assert len(found) == (name in POOLED_AXES)
    assert all("leaves one value on axis" in finding.cause for finding in found)


class Summarized(nn.Module):
    """Weighs the steps of a sequence by scores that a function makes of them and of the summary of a context."""

    def __init__(self, score: Callable[[Tensor, Tensor, nn.Module], Tensor], steps: int) -> None:
        super().__init__()
        self.encode, self.summarize, self.head = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(6, 3)
        self.gain, self.shift = nn.Parameter(torch.ones(1, 1, 6)), nn.Parameter(torch.zeros(6))
        self.score, self.steps = score, steps

    def forward(self, x: Tensor) -> Tensor:
        items = self.encode(x[:, None].repeat(1, self.steps, 1))
        context = self.summarize(x[:, None] * torch.tensor([[1.0], [2.0], [-1.0]]))
        scores: Tensor = self.head((self.score(items, context, self).softmax(1) * items).sum(1))
        return scores


# Scores of all steps, to which one value for each sample is broadcast: the data set the number of steps.
BROADCAST_SUMMARIES: dict[str, Callable[[Tensor, Tensor, Any], Tensor]] = {
    "sum": lambda items, context, _: 2 * items + context.mean(1, keepdim=True),
    "sum of an activation": lambda items, context, _: (items * 2 + context.mean(1, keepdim=True)).tanh(),
    "gate": lambda items, context, _: items * context.amax(1, keepdim=True).sigmoid(),
    "difference": lambda items, context, _: context.sum(1, keepdim=True) - items,
    "quotient": lambda items, context, _: items / (context.sum(1, keepdim=True).exp() + 1),
    "constant items": lambda items, context, _: items.detach() * context.mean(1, keepdim=True),
    "summed constant items": lambda items, context, _: items.detach() + context.mean(1, keepdim=True),
    "two summaries": lambda items, context, _: (
        items.tanh() + context.mean(1, keepdim=True) * context.amax(1, keepdim=True)
    ),
}
POOLED_SUMMARIES: dict[str, Callable[[Tensor, Tensor, Any], Tensor]] = {
    "summary": lambda items, context, _: context.mean(1, keepdim=True),
    "sum of two": lambda items, context, _: context.mean(1, keepdim=True) + context.amax(1, keepdim=True),
    "scaled": lambda items, context, _: (3 * context.mean(1, keepdim=True)).tanh() / 2,
    "parameters": lambda items, context, part: context.mean(1, keepdim=True) * part.gain + part.shift,
    "viewed parameters": lambda items, context, part: context.mean(1, keepdim=True) + part.shift[None, None],
}


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("name", BROADCAST_SUMMARIES)
def test_l206_softmax_over_steps_with_a_broadcast_summary_is_no_error(name: str, steps: int) -> None:
    torch.manual_seed(0)
    setup = minimal_setup(Summarized(BROADCAST_SUMMARIES[name], steps), *points(), nn.CrossEntropyLoss())
    assert [finding.message for finding in rule_findings(setup, "L206") if finding.severity == "error"] == []


@pytest.mark.parametrize("name", POOLED_SUMMARIES)
def test_l206_softmax_over_the_axis_of_a_summary_fires(name: str) -> None:
    torch.manual_seed(0)
    setup = minimal_setup(Summarized(POOLED_SUMMARIES[name], 4), *points(), nn.CrossEntropyLoss())
    (finding,) = rule_findings(setup, "L206")
    assert "leaves one value on axis 1" in finding.cause
