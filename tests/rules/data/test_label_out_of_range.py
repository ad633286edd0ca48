"""Tests of D101 and D102: labels that are out of range, or that the loss rejects with a cryptic error."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug import checkup
from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.data.dict_dataset import DictDataset
from tests.rules.rule_findings import rule_findings

X, Y = points()
OUT_OF_RANGE = Y.clone()
OUT_OF_RANGE[37] = 7
BINARY = (X[:, :1] > 0).float()
FRAMES, TAGS = torch.randn(64, 5, 4), (torch.arange(320) % 3).reshape(64, 5)


def gather_loss(output: Tensor, target: Tensor) -> Tensor:
    return -output.log_softmax(1).gather(1, target.unsqueeze(1)).mean()


def indexing_loss(output: Tensor, target: Tensor) -> Tensor:
    return -output.log_softmax(1)[torch.arange(len(target)), target].mean()


def one_hot_loss(output: Tensor, target: Tensor) -> Tensor:
    return -(F.one_hot(target, 3) * output.log_softmax(1)).sum(1).mean()


def log_softmax_nll(output: Tensor, target: Tensor) -> Tensor:
    return F.nll_loss(F.log_softmax(output, dim=1), target)


class LateOutOfRange(Dataset[Any]):
    """A data set with one label out of range, far from its first batches."""

    def __len__(self) -> int:
        return 500

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"x": X[index % 64], "labels": torch.tensor(3 if index == 431 else int(Y[index % 64]))}


class Tagger(nn.Module):
    """Logits with the classes on the second axis."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x).transpose(1, 2)


def one_batch_setup(loss_fn: Callable[..., Any], labels: Tensor = OUT_OF_RANGE) -> Callable[[], Setup]:
    return lambda: Setup(network(3), [(X[32:48], labels[32:48])], loss_fn=loss_fn)


FAULTY: dict[str, Callable[[], Setup]] = {
    "cross-entropy module": one_batch_setup(nn.CrossEntropyLoss()),
    "partial": one_batch_setup(partial(F.cross_entropy, label_smoothing=0.1)),
    "gather": one_batch_setup(gather_loss),
    "indexing": one_batch_setup(indexing_loss),
    "one-hot": one_batch_setup(one_hot_loss),
    "log-softmax and nll": one_batch_setup(log_softmax_nll),
    "far from the first batch": lambda: Setup(
        network(3), DataLoader(LateOutOfRange(), 16), loss_fn=nn.CrossEntropyLoss()
    ),
    "tags": lambda: minimal_setup(Tagger(), FRAMES, TAGS.clone().fill_diagonal_(3), nn.CrossEntropyLoss()),
}
HEALTHY: dict[str, Callable[[], Setup]] = {
    "ignored": one_batch_setup(nn.CrossEntropyLoss(ignore_index=7)),
    "ignored by a partial": one_batch_setup(partial(F.cross_entropy, ignore_index=7)),
    "padding of -100": one_batch_setup(nn.CrossEntropyLoss(), torch.where(OUT_OF_RANGE == 7, -100, OUT_OF_RANGE)),
    "by hand": one_batch_setup(gather_loss, Y),
    "tags": lambda: minimal_setup(Tagger(), FRAMES, TAGS, nn.CrossEntropyLoss()),
}


def label_error_codes(setup: Setup) -> list[str]:
    return [
        finding.code
        for finding in Debugger.of(setup).checkup()
        if finding.code in ("D101", "D102") and finding.severity == "error"
    ]


@pytest.mark.parametrize("name", FAULTY)
def test_label_out_of_range_is_reported(name: str) -> None:
    assert label_error_codes(FAULTY[name]()) == ["D101"]


@pytest.mark.parametrize("name", HEALTHY)
def test_label_out_of_range_with_ignored_or_valid_labels_is_quiet(name: str) -> None:
    assert label_error_codes(HEALTHY[name]()) == []


MINUS_ONE_LABELS = torch.where(torch.arange(64) % 5 == 3, -1, Y)
LATE_MINUS_ONE_LABEL = torch.where(torch.arange(64) == 60, -1, Y)
minus_one_labels = pytest.mark.parametrize(
    "labels", [MINUS_ONE_LABELS, LATE_MINUS_ONE_LABEL], ids=["many", "one far from the first batch"]
)


def index_mask_loss(output: Tensor, target: Tensor) -> Tensor:
    is_labeled = target >= 0
    return F.cross_entropy(output[is_labeled], target[is_labeled])


def ignore_index_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target, ignore_index=-1)


def weight_mask_loss(output: Tensor, target: Tensor) -> Tensor:
    losses = F.cross_entropy(output, target.clamp(min=0), reduction="none")
    return (losses * (target >= 0)).sum() / (target >= 0).sum()


@pytest.mark.parametrize("loss", [index_mask_loss, ignore_index_loss, weight_mask_loss])
@minus_one_labels
def test_label_out_of_range_when_the_loss_drops_it_is_quiet(loss: Callable[..., Tensor], labels: Tensor) -> None:
    assert rule_findings(minimal_setup(network(3), X, labels, loss), "D101") == []


def modulo_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target % 3)


@pytest.mark.parametrize("loss", [modulo_loss, log_softmax_nll, nn.CrossEntropyLoss(), F.cross_entropy])
@minus_one_labels
def test_label_out_of_range_when_the_loss_does_not_drop_it_is_an_error(
    loss: Callable[..., Tensor], labels: Tensor
) -> None:
    (finding,) = rule_findings(minimal_setup(network(3), X, labels, loss), "D101")
    assert finding.severity == "error"
    assert finding.evidence["labels"] == [-1]


def masked_indexing_loss(output: Tensor, target: Tensor) -> Tensor:
    return -output.log_softmax(1)[torch.arange(len(target)), target][target >= 0].mean()


def contrastive_loss(output: Tensor, target: Tensor) -> Tensor:
    is_same_class = (target[:, None] == target[None]).float()
    return ((output @ output.t()).sigmoid() - is_same_class).square().mean()


@pytest.mark.parametrize(
    ("loss", "is_reported"), [(indexing_loss, True), (masked_indexing_loss, False), (contrastive_loss, False)]
)
def test_label_out_of_range_of_minus_one_is_reported_only_if_it_indexes(
    loss: Callable[[Tensor, Tensor], Tensor], is_reported: bool
) -> None:
    x, y = points(2)
    findings = rule_findings(minimal_setup(network(2), x, 2 * y - 1, loss), "D101")
    assert [finding.evidence["labels"] for finding in findings] == [[-1]] * is_reported


@pytest.mark.parametrize(
    ("labels", "loss_fn"),
    [
        (Y.float(), log_softmax_nll),
        (F.one_hot(Y, 3), F.cross_entropy),
        (Y.to(torch.int16), log_softmax_nll),
        (Y.unsqueeze(1), lambda o, t: F.cross_entropy(o, t)),
    ],
    ids=["expected Long", "expected floating point", "int16", "column"],
)
def test_label_encoding_when_the_loss_rejects_labels_is_reported(labels: Tensor, loss_fn: Any) -> None:
    assert label_error_codes(minimal_setup(network(3), X, labels, loss_fn)) == ["D102"]


def two_loaders(train: Tensor, val: Tensor) -> list[DataLoader[Any]]:
    return [DataLoader(TensorDataset(X[-len(y) :], y), 16) for y in (train, val)]


def two_split_setup(train: Tensor, val: Tensor) -> Setup:
    return Setup(network(3), *two_loaders(train, val), loss_fn=nn.CrossEntropyLoss())


@pytest.mark.parametrize(
    ("train", "val", "loss_fn", "words"),
    [
        (torch.zeros(40, 1), BINARY[40:], nn.BCEWithLogitsLoss(), "All 40 training labels are 0, while those of the"),
        (torch.full((40, 1), 2.5), X[40:, :1], nn.MSELoss(), "are 2.5, while those of the validation split have 24"),
        (torch.zeros(40, 1), BINARY[40:], lambda o, t: (o.sigmoid() - t).abs().mean(), "are 0, while those"),
        (torch.zeros(40, 1), torch.zeros(24, 1), nn.MSELoss(), ""),  # a residual
        (BINARY[:40], torch.zeros(24, 1), nn.BCEWithLogitsLoss(), ""),
        (torch.ones(20, 1), BINARY[40:], nn.BCEWithLogitsLoss(), ""),  # too few
    ],
)
def test_equal_training_targets_are_reported_if_the_other_split_differs(
    train: Tensor, val: Tensor, loss_fn: Any, words: str
) -> None:
    findings = checkup(network(1), *two_loaders(train, val), loss_fn=loss_fn).findings
    messages = [finding.message for finding in findings if finding.code == "D102"]
    assert [words in message for message in messages] == ([True] if words else [])


@pytest.mark.parametrize(
    ("target", "loss_fn", "made", "value"),
    [
        (torch.ones(64, 1), nn.BCEWithLogitsLoss(), None, "1"),
        (torch.full((64, 1), 2.5), nn.MSELoss(), None, "2.5"),
        (torch.zeros(64, 1), nn.MSELoss(), None, ""),  # a residual
        (torch.ones(64, 1), nn.BCEWithLogitsLoss(), lambda x, y: (x[:, :1] > 0).float(), ""),  # made by the loop
        (BINARY, nn.BCEWithLogitsLoss(), None, ""),
    ],
)
def test_loop_that_always_learns_the_same_target_is_reported(target: Any, loss_fn: Any, made: Any, value: str) -> None:
    model, loader = network(1), DataLoader(TensorDataset(X, target), 16, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    debugger = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    with debugger.watch():
        for _ in range(8):
            for x, y in loader:
                optimizer.zero_grad()
                loss_fn(model(x), made(x, y) if made else y).backward()
                optimizer.step()
    messages = [finding.message for finding in debugger.findings if finding.code == "D102"]
    assert messages == ([f"The target of every training sample is {value}."] if value else [])


class PreferenceMargin(nn.Module):
    """The score of a user's liked item less that of another one: exchanged items change its sign."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(12, 6), nn.Embedding(10, 6)

    def forward(self, triple: Tensor) -> Tensor:
        user, liked, other = triple.unbind(1)
        return (self.user(user) * (self.item(liked) - self.item(other))).sum(1, keepdim=True)


@pytest.mark.parametrize(("rate", "is_reported"), [(0.05, False), (1e-5, True)])
def test_same_target_of_pairs_is_silent_once_the_model_has_learned_them(rate: float, is_reported: bool) -> None:
    torch.manual_seed(0)
    taste, kind = torch.randn(12, 3), torch.randn(10, 3)
    user, liked, other = (torch.randint(high, (600,)) for high in (12, 10, 10))
    prefers = ((taste[user] * (kind[liked] - kind[other])).sum(1) + torch.randn(600) > 0)[:, None]
    triples = torch.stack([user, liked, other], 1)
    triples = torch.where(prefers, triples, triples[:, [0, 2, 1]])
    model, loader = PreferenceMargin(), DataLoader(TensorDataset(triples, torch.ones(600, 1)), 200, shuffle=True)
    optimizer, loss_fn = torch.optim.Adam(model.parameters(), rate), nn.BCEWithLogitsLoss()
    debugger = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    with debugger.watch():
        for _ in range(40):
            for x, y in loader:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
    assert ("D102" in {finding.code for finding in debugger.findings}) == is_reported


def test_label_encoding_of_labels_scaled_to_one_class_is_reported() -> None:
    assert label_error_codes(two_split_setup((Y[:40] / 255).long(), Y[40:])) == ["D102"]


@pytest.mark.parametrize("val", [Y[40:], torch.zeros(24, dtype=torch.int64)], ids=["several classes", "one class"])
def test_label_encoding_of_equal_class_sets_in_both_splits_is_quiet(val: Tensor) -> None:
    train = Y[:40] if int(val.max()) else torch.zeros(40, dtype=torch.int64)
    assert label_error_codes(two_split_setup(train, val)) == []


def test_checkup_of_token_beyond_embedding_reports_range() -> None:
    model = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(12, 3))
    tokens = torch.full((64, 3), 5)
    report = Debugger.of(minimal_setup(model, tokens, Y, nn.CrossEntropyLoss())).checkup()
    assert [finding.code for finding in report if finding.severity == "error"] == ["X1011"]
    assert "num_embeddings=6" in report.findings[0].fix or "(6, 4)" in report.findings[0].fix


@pytest.mark.parametrize("shift", [1, -2])
def test_label_out_of_range_of_dict_samples_is_reported_once(shift: int) -> None:
    data = DictDataset(X.repeat(6, 1), Y.repeat(6) + shift)
    (finding,) = rule_findings(Setup(network(3), DataLoader(data, 16), loss_fn=nn.CrossEntropyLoss()), "D101")
    assert len(finding.evidence["samples"]) == 20
    assert f"in {int(((Y + shift < 0) | (Y + shift > 2)).sum()) * 6} of 384 train samples" in finding.message


class BatchScores(nn.Module):
    """Scores of each sample against each sample of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) @ self.body(x).T


def in_batch_loss(output: Tensor, target: Tensor) -> Tensor:
    is_same = (target[:, None] == target[None]) & ~torch.eye(len(target), dtype=torch.bool)
    return F.cross_entropy(output.masked_fill(is_same, float("-inf")), torch.arange(len(target)))


def own_sample_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, torch.arange(len(target))) + 0 * target.sum()


@pytest.mark.parametrize("loss_fn", [in_batch_loss, own_sample_loss])
def test_label_out_of_range_when_columns_follow_the_batch_size_is_quiet(loss_fn: Callable[..., Tensor]) -> None:
    assert rule_findings(minimal_setup(BatchScores(), X, torch.arange(64), loss_fn), "D101") == []


def make_watched_errors(model: Any, labels: Tensor, loss: Callable[[Any, Tensor, Tensor], Tensor]) -> list[list[str]]:
    """Return the error codes of D101 after a checkup, and after a loop of two epochs with a loss of its own."""
    loader = DataLoader(TensorDataset(X, labels), batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = Debugger(model, loader, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    debugger.checkup(select="D101")
    codes = [[finding.code for finding in debugger.findings]]
    with debugger.watch():
        for x, y in [*loader, *loader]:
            optimizer.zero_grad()
            loss(model, x, y).backward()
            optimizer.step()
    return [*codes, [finding.code for finding in debugger.findings if finding.code == "D101"]]


class Speller(nn.Module):
    """Scores of 9 letters at each of 3 positions."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 27)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x).reshape(-1, 3, 9)


LETTERS = torch.randint(0, 9, (64, 3), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("model", "labels", "loss"),
    [
        (network(2), Y, lambda model, x, y: F.cross_entropy(model(x[y < 2]), y[y < 2])),
        (network(3), Y + 1, lambda model, x, y: F.cross_entropy(model(x), y - 1)),
        (Speller(), LETTERS, lambda model, x, y: F.cross_entropy(model(x).flatten(0, 1), y.flatten())),
    ],
    ids=["selected classes", "renumbered", "other axis"],
)
def test_label_out_of_range_when_the_loop_uses_other_labels_is_withdrawn(
    model: nn.Module, labels: Tensor, loss: Callable[[Any, Tensor, Tensor], Tensor]
) -> None:
    before, after = make_watched_errors(model, labels, loss)
    assert before == ["D101", "D101"]
    assert after == []


def test_label_out_of_range_of_wrapped_labels_in_the_loop_is_still_reported() -> None:
    labels = torch.where(torch.arange(64) % 5 == 3, -1, Y)
    loader = DataLoader(TensorDataset(X, labels), batch_size=16)
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = Debugger(model, loader, loss_fn=indexing_loss, optimizer=optimizer)
    debugger.checkup(select="D101")
    with debugger.watch():
        for x, y in loader:
            optimizer.zero_grad()
            indexing_loss(model(x), y).backward()
            optimizer.step()
    assert "D101" in {finding.code for finding in debugger.findings}


def test_label_out_of_range_on_another_axis_names_the_axis() -> None:
    (finding,) = rule_findings(minimal_setup(Speller(), X, LETTERS, nn.CrossEntropyLoss()), "D101")
    assert "loss = loss_fn(output.movedim(2, 1), labels)" in finding.fix
