"""Tests of M310 and find_trailing_padding: padding that no mask or length declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.measurements.padding import find_trailing_padding


class MeanOfEmbeddings(nn.Module):
    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked, self.embed, self.head = masked, nn.Embedding(12, 8), nn.Linear(8, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        weights = (tokens != 0).float().unsqueeze(2) if self.masked else torch.ones(*tokens.shape, 1)
        scores: Tensor = self.head((self.embed(tokens) * weights).sum(1) / weights.sum(1))
        return scores


class MaskedWithZero(nn.Module):
    """Attention whose scores are zero at padding, by a helper; or without any mask."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked, self.embed, self.score = masked, nn.Embedding(12, 8), nn.Linear(8, 1)
        self.head = nn.Linear(8, 2)

    fill = 0.0

    def hide(self, scores: Tensor, real: Tensor) -> Tensor:
        return scores.masked_fill(~real, self.fill)  # mask

    def forward(self, tokens: Tensor) -> Tensor:
        h = self.embed(tokens)
        scores = self.score(h).squeeze(2)
        if self.masked:
            scores = self.hide(scores, tokens != 0)
        weights = scores.softmax(1)  # softmax
        logits: Tensor = self.head((weights.unsqueeze(2) * h).sum(1))
        return logits


class MaskedWithTinyNumber(MaskedWithZero):
    fill = 1e-9


class MeanOfPackedStates(nn.Module):
    """A mean over the states of a packed GRU, as wide as the longest row of the batch."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked, self.embed = masked, nn.Embedding(12, 8, padding_idx=0)
        self.body, self.head = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        lengths = (tokens != 0).sum(1)
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.body(packed)[0], batch_first=True)
        logits: Tensor = self.head(states.sum(1) / (lengths.unsqueeze(1) if self.masked else states.shape[1]))
        return logits


class LastColumn(nn.Module):
    """A packed GRU of which each row's own last step is read, or the last column of the batch."""

    def __init__(self, own: bool) -> None:
        super().__init__()
        self.own, self.embed = own, nn.Embedding(12, 8, padding_idx=0)
        self.body, self.head = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        lengths = (tokens != 0).sum(1)
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.body(packed)[0], batch_first=True)
        if self.own:
            states = states[torch.arange(len(states)), lengths - 1].unsqueeze(1)
        logits: Tensor = self.head(states[:, -1])  # column
        return logits


class LastState(nn.Module):
    """A GRU whose last state is that of the padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(12, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        _, last = self.body(self.embed(tokens))  # state
        logits: Tensor = self.head(last[-1])
        return logits


def collate(batch: list[Any]) -> tuple[Tensor, Tensor]:
    rows = pad_sequence([row for row, _ in batch], batch_first=True)
    return rows, torch.tensor([label for _, label in batch])


def padding_findings(model: nn.Module, *, is_bucketed: bool = False) -> list[Finding]:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(3, 20, (96,), generator=generator).tolist()
    data: Any = [(torch.randint(1, 12, (n,), generator=generator), n % 2) for n in lengths]
    buckets = [[row for row, n in enumerate(lengths) if n == length] for length in sorted(set(lengths))]
    loader = DataLoader(data, batch_size=8, collate_fn=collate)
    train_loader = DataLoader(data, batch_sampler=buckets, collate_fn=collate) if is_bucketed else loader
    optimizer = torch.optim.Adam(model.parameters())
    debugger = Debugger(
        model, train_loader, loader if is_bucketed else None, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer
    )
    return list(debugger.checkup(select=["M310"]))


@pytest.mark.parametrize("network", [MeanOfEmbeddings, MeanOfPackedStates, LastColumn])
@pytest.mark.parametrize(("masked", "severities"), [(False, ["warning"]), (True, [])])
def test_padding_changes_output_of_mean_is_warning_unless_masked(
    network: Callable[[bool], nn.Module], masked: bool, severities: list[str]
) -> None:
    assert [finding.severity for finding in padding_findings(network(masked))] == severities


@pytest.mark.parametrize(
    ("model", "marker"),
    [
        (MaskedWithZero(masked=True), "# mask"),
        (MaskedWithZero(masked=False), "# softmax"),
        (LastState(), "# state"),
        (MeanOfEmbeddings(masked=False), "self.head((self.embed(tokens) * weights).sum(1) / weights.sum(1))"),
    ],
)
def test_padding_changes_output_names_the_mask_or_the_call_that_mixes(model: nn.Module, marker: str) -> None:
    (finding,) = padding_findings(model)
    assert (finding.where.source or "").endswith(marker)


def test_padding_inside_the_model_names_the_call_that_reads_it_and_the_rows_own_steps() -> None:
    (finding,) = padding_findings(LastColumn(own=False))
    assert "alone in its batch" in finding.message
    assert {"T601", "T607", "T610", "E706"} <= {*finding.explains}  # the samples have one answer
    assert (finding.where.source or "").endswith("# column")
    assert "lengths - 1" in str(finding.fix)


@pytest.mark.parametrize(("network", "names_fill"), [(MaskedWithTinyNumber, True), (MaskedWithZero, False)])
def test_fill_that_keeps_weight_on_padding_is_named_unless_it_may_clear_values(
    network: Callable[[bool], nn.Module], names_fill: bool
) -> None:
    (finding,) = padding_findings(network(True))
    assert ("to 1e-09" in finding.cause) == names_fill
    assert (".dtype).min" in str(finding.fix)) == names_fill


@pytest.mark.parametrize(("masked", "severities"), [(False, ["warning"]), (True, [])])
def test_padding_of_validation_counts_if_training_batches_have_rows_of_one_length(
    masked: bool, severities: list[str]
) -> None:
    findings = padding_findings(MeanOfEmbeddings(masked), is_bucketed=True)
    assert [finding.severity for finding in findings] == severities


class WidthDependent(nn.Module):
    """A model that takes another path for short rows, so that its calls cannot be compared."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(12, 8), nn.Linear(8, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        h = self.embed(tokens)
        pooled = h.mean(1) if tokens.shape[1] > 11 else h.sum(1) / 20
        logits: Tensor = self.head(pooled)
        return logits


def test_padding_changes_output_names_no_line_if_the_calls_differ() -> None:
    (finding,) = padding_findings(WidthDependent())
    assert finding.where.line is None


def test_find_trailing_padding_excludes_end_token_and_common_word() -> None:
    assert find_trailing_padding(torch.tensor([[1, 2, 9, 9], [3, 9, 9, 9], [4, 5, 6, 9]])) is not None
    assert find_trailing_padding(torch.tensor([[1, 2, 3, 9], [3, 1, 2, 9], [4, 5, 6, 9]])) is None
    assert find_trailing_padding(torch.tensor([[1, 9, 3, 9], [3, 9, 9, 9], [4, 5, 9, 9]])) is None
