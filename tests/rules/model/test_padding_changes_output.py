"""Tests of M310: models whose output depends on padding, and models that exclude it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

Y = points()[1]
LENGTHS = 2 + torch.arange(64) % 5
MASK = torch.arange(6) < LENGTHS.unsqueeze(1)
TOKENS = torch.randint(2, 11, (64, 6), generator=torch.Generator().manual_seed(1)) * MASK


class TokenClassifier(nn.Module):
    """Scores by a function of the model, the embedded tokens, and the mask of valid tokens or their number."""

    def __init__(self, function: Callable[..., Tensor], layer: nn.Module | None = None, width: int = 8) -> None:
        super().__init__()
        self.embed, self.layer = nn.Embedding(20, 8, padding_idx=0), layer or nn.Identity()
        self.head, self.function = nn.Linear(width, 3), function

    def forward(self, tokens: Tensor, valid: Tensor | None = None) -> Tensor:
        return self.head(self.function(self, self.embed(tokens), tokens != 0 if valid is None else valid))


def encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)


def mean_over_all(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
    return self.layer(x).mean(1) + valid[:, :1] * 0.0


def masked_mean(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
    weights = valid.unsqueeze(2).float()
    return (x * weights).sum(1) / weights.sum(1)


def sum_of_zeros(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
    return x.sum(1) / valid.float().sum(1, keepdim=True)


def masked_attention(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
    return self.layer(x, src_key_padding_mask=~valid.bool())[:, 0]


def inverted_mask_attention(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
    return self.layer(x, src_key_padding_mask=valid.bool())[:, 0]


def last_state(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
    return self.layer(x)[0][:, -1] + valid.unsqueeze(1) * 0.0


def packed_state(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
    return self.layer(pack_padded_sequence(x, valid, batch_first=True, enforce_sorted=False))[1][0]


def all_states(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
    return self.layer(x)[0] + valid.unsqueeze(2) * 0.0


def masked_setup(
    model: nn.Module, mask: Tensor, y: Tensor = Y, loss_fn: Any = None, tokens: Tensor = TOKENS
) -> Callable[[], Setup]:
    parts = [(tokens[i : i + 16], mask[i : i + 16], y[i : i + 16]) for i in range(0, 64, 16)]
    return lambda: Setup(model, parts, loss_fn=loss_fn or nn.CrossEntropyLoss())


def unmasked_setup(model: nn.Module, tokens: Tensor = TOKENS) -> Callable[[], Setup]:
    return lambda: minimal_setup(model, tokens, Y, nn.CrossEntropyLoss())


def token_loss(logits: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())


class SequenceClassifier(nn.Module):
    """Scores of a function of the states of a recurrent layer and of the lengths."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], layer: type[nn.GRU | nn.LSTM] = nn.GRU) -> None:
        super().__init__()
        self.layer, self.head, self.function = layer(4, 8, batch_first=True), nn.Linear(8, 3), function

    def forward(self, frames: Tensor, lengths: Tensor) -> Tensor:
        states, _ = self.layer(frames)
        return self.head(self.function(states, lengths))


def final_states(states: Tensor, lengths: Tensor) -> Tensor:
    return states[:, -1]


def states_at_the_ends(states: Tensor, lengths: Tensor) -> Tensor:
    return states[torch.arange(len(states)), lengths - 1]


def gathered_states(states: Tensor, lengths: Tensor) -> Tensor:
    return states.gather(1, (lengths - 1).view(-1, 1, 1).expand(-1, 1, states.shape[2])).squeeze(1)


def frames_setup(model: nn.Module, counts: Tensor = LENGTHS) -> Callable[[], Setup]:
    """Return a setup of sequences padded to a width of 9, with ``counts`` as the second input."""
    frames = torch.randn(64, 9, 4, generator=torch.Generator().manual_seed(2))
    frames[torch.arange(9) >= LENGTHS.unsqueeze(1)] = 0
    return masked_setup(model, counts, tokens=frames)


FAULTS: dict[str, Callable[[], Setup]] = {
    "last state of fixed width": frames_setup(SequenceClassifier(final_states)),
    "mean of fixed width": frames_setup(SequenceClassifier(lambda states, lengths: states.mean(1), nn.LSTM)),
    "mean": masked_setup(TokenClassifier(mean_over_all), MASK),
    "inverted mask": masked_setup(TokenClassifier(inverted_mask_attention, encoder()), MASK.long()),
    "last state": masked_setup(TokenClassifier(last_state, nn.GRU(8, 8, batch_first=True)), LENGTHS),
    "bidirectional": masked_setup(
        TokenClassifier(all_states, nn.GRU(8, 4, batch_first=True, bidirectional=True)), MASK, TOKENS % 3, token_loss
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_padding_changes_output_with_declared_padding_is_error(name: str) -> None:
    (finding,) = checkup_findings(FAULTS[name](), "M310")
    assert finding.severity == "error"


def test_padding_changes_output_with_padding_idx_only_is_note() -> None:
    findings = checkup_findings(unmasked_setup(TokenClassifier(mean_over_all))(), "M310")
    assert [finding.severity for finding in findings] == ["note"]


def state_at_the_end(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
    return self.layer(x)[0][:, -1]


def maximum(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
    return self.layer(x.transpose(1, 2)).amax(2)


@pytest.mark.parametrize("layer", [nn.GRU, nn.LSTM])
def test_padding_changes_output_of_state_after_long_padding_is_warning(layer: type[nn.GRU | nn.LSTM]) -> None:
    tokens = nn.functional.pad(TOKENS, (0, 18))
    (finding,) = checkup_findings(
        unmasked_setup(TokenClassifier(state_at_the_end, layer(8, 8, batch_first=True)), tokens)(), "M310"
    )
    assert finding.severity == "warning"
    assert "times as much as other content does" in finding.message


def test_padding_changes_output_of_maximum_over_convolved_words_is_note() -> None:
    model = TokenClassifier(maximum, nn.Conv1d(8, 8, 3, padding=1))
    assert [finding.severity for finding in checkup_findings(unmasked_setup(model)(), "M310")] == ["note"]


def packed_with_padding(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
    lengths = torch.full((len(x),), x.shape[1])
    return self.layer(pack_padded_sequence(x, lengths, batch_first=True))[1][0]


def test_padding_changes_output_of_packed_padding_is_warning_at_its_line() -> None:
    (finding,) = checkup_findings(
        unmasked_setup(TokenClassifier(packed_with_padding, nn.GRU(8, 8, batch_first=True)))(), "M310"
    )
    assert finding.severity == "warning"
    assert "pack_padded_sequence" in (finding.where.source or "")


def mean_of_masked_encoder(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
    states = self.layer(x, src_key_padding_mask=~valid)
    return states.mean(1)


def mean_of_masked_attention(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
    scores = (x @ x.transpose(1, 2)).masked_fill(~valid.unsqueeze(1), -1e9)
    return (scores.softmax(2) @ x).sum(1)


@pytest.mark.parametrize(
    ("function", "line"), [(mean_of_masked_encoder, "states.mean(1)"), (mean_of_masked_attention, ".sum(1)")]
)
def test_padding_changes_output_that_is_masked_in_a_part_is_warning_at_the_line_without_mask(
    function: Callable[..., Tensor], line: str
) -> None:
    model = TokenClassifier(function, encoder())
    (finding,) = checkup_findings(unmasked_setup(model)(), "M310")
    assert finding.severity == "warning"
    assert line in (finding.where.source or "")


def attention_with_inverted_mask(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
    scores = x.sum(2)
    scores = scores.masked_fill(valid.bool(), -1e9)
    weights = scores.softmax(1)
    return (weights.unsqueeze(2) * x).sum(1)


def test_padding_changes_output_of_unread_state_points_to_line_that_selects_padding() -> None:
    (finding,) = checkup_findings(frames_setup(SequenceClassifier(final_states))(), "M310")
    assert "states[:, -1]" in (finding.where.source or "")


def step_by_row_numbers(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
    last = torch.full_like(valid.sum(1), -1)
    return self.layer(x)[0][torch.arange(len(x)), last]


def test_padding_changes_output_of_a_step_that_is_selected_by_row_numbers_from_a_mask() -> None:
    tokens = nn.functional.pad(TOKENS, (0, 18))
    model = TokenClassifier(step_by_row_numbers, nn.GRU(8, 8, batch_first=True))
    (finding,) = checkup_findings(unmasked_setup(model, tokens)(), "M310")
    assert "torch.full_like(valid.sum(1), -1)" in (finding.where.source or "")
    assert finding.cause.startswith("The selection of a step (getitem) reads padded positions")
    assert "T607" in finding.explains


LINES = {
    "mean": (TokenClassifier(mean_over_all), MASK, ".mean(1)"),
    "inverted mask": (TokenClassifier(inverted_mask_attention, encoder()), MASK, "src_key_padding_mask=valid.bool()"),
    "inverted manual mask": (TokenClassifier(attention_with_inverted_mask), MASK, "masked_fill(valid.bool()"),
    "last state": (TokenClassifier(last_state, nn.GRU(8, 8, batch_first=True)), LENGTHS, "[:, -1]"),
}


class Convolved(nn.Module):
    """Averages convolved tracks over all ticks, or over the real ones."""

    def __init__(self, *, averages_all: bool) -> None:
        super().__init__()
        self.averages_all = averages_all
        self.look, self.look_again, self.head = nn.Conv1d(3, 8, 3, padding=1), nn.Conv1d(8, 8, 3, padding=1), HEAD

    def forward(self, tracks: Tensor, length: Tensor) -> Any:
        x = self.look(tracks.transpose(1, 2)).relu()
        x = self.look_again(x).relu().transpose(1, 2)
        if self.averages_all:
            return self.head(x.mean(dim=1))
        real = (torch.arange(x.shape[1]) < length[:, None])[:, :, None]
        x = (x * real).sum(1) / length[:, None]
        return self.head(x)


HEAD = nn.Linear(8, 3)


@pytest.mark.parametrize(("averages_all", "line"), [(True, "x.mean(dim=1)"), (False, "self.look(")])
def test_padding_changes_output_points_to_mean_behind_convolutions(averages_all: bool, line: str) -> None:
    """The convolutions reach a few real ticks beside the padding; if the mean is masked, these are the effect."""
    length = 20 + torch.arange(64) % 11
    tracks = torch.randn(64, 30, 3) * (torch.arange(30) < length[:, None])[:, :, None]
    loader = DataLoader(TensorDataset(tracks, length, Y[:64]), batch_size=16)
    setup = Setup(Convolved(averages_all=averages_all), loader, loss_fn=nn.CrossEntropyLoss())
    (finding,) = checkup_findings(setup, "M310")
    assert line in (finding.where.source or "")


@pytest.mark.parametrize("name", LINES)
def test_padding_changes_output_points_to_line_that_mixes_in_padding(name: str) -> None:
    model, mask, line = LINES[name]
    (finding,) = checkup_findings(masked_setup(model, mask)(), "M310")
    assert line in (finding.where.source or "")


def mean_beside_lengths(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
    return self.layer(x)[0].mean(1) + valid.unsqueeze(1) * 0.0


def all_states_of_unread_lengths(self: TokenClassifier, x: Tensor, counts: Tensor) -> Tensor:
    return self.layer(x)[1][0] + counts.unsqueeze(1) * 0.0


FIXES = {
    "last state": (last_state, nn.GRU, "self.layer(x)[0][torch.arange(len(valid)), valid - 1]", True),
    "final state": (all_states_of_unread_lengths, nn.GRU, "_, h_n = self.layer(packed)", False),
    "final state of an LSTM": (
        lambda self, x, counts: self.layer(x)[1][0][0] + counts.unsqueeze(1) * 0.0,
        nn.LSTM,
        "enforce_sorted=False)`, then `_, (h_n, _) = self.layer(packed)`",
        False,
    ),
    "mean": (
        mean_beside_lengths,
        nn.GRU,
        "(x * (tokens != 0).unsqueeze(2)).sum(1)",
        False,
    ),
}


@pytest.mark.parametrize("name", FIXES)
def test_padding_changes_output_of_recurrent_layer_is_mended_by_lengths(name: str) -> None:
    function, kind, code, has_edit = FIXES[name]
    (finding,) = checkup_findings(
        masked_setup(TokenClassifier(function, kind(8, 8, batch_first=True)), LENGTHS)(), "M310"
    )
    assert code in finding.fix
    assert "src_key_padding_mask" not in finding.fix
    assert bool(finding.edits) == has_edit
    assert "known from input 'valid'" in finding.message


class BagOfEmbeddings(nn.Module):
    """A bag of embeddings that excludes padding by its index."""

    def __init__(self, padding_idx: int) -> None:
        super().__init__()
        self.embed, self.head = nn.EmbeddingBag(20, 8, padding_idx=padding_idx), nn.Linear(8, 3)

    def forward(self, tokens: Tensor, valid: Tensor) -> Tensor:
        return self.head(self.embed(tokens))


def test_padding_changes_output_of_bag_with_wrong_padding_idx_points_to_module() -> None:
    (finding,) = checkup_findings(masked_setup(BagOfEmbeddings(19), MASK)(), "M310")
    assert finding.where.module == "embed"


HEALTHY: dict[str, Callable[[], Setup]] = {
    "states at the ends": frames_setup(SequenceClassifier(states_at_the_ends)),
    "gathered states": frames_setup(SequenceClassifier(gathered_states)),
    "other counts": frames_setup(SequenceClassifier(final_states), LENGTHS % 3 + 1),
    "positions after the sequence": frames_setup(SequenceClassifier(final_states), LENGTHS + 2),
    "masked mean": masked_setup(TokenClassifier(masked_mean), MASK),
    "masked attention": masked_setup(TokenClassifier(masked_attention, encoder()), MASK),
    "packed": masked_setup(TokenClassifier(packed_state, nn.GRU(8, 8, batch_first=True)), LENGTHS),
    "states at real positions": masked_setup(
        TokenClassifier(all_states, nn.GRU(8, 8, batch_first=True)), MASK, TOKENS % 3, token_loss
    ),
    "mask of the tokens": unmasked_setup(TokenClassifier(masked_attention, encoder())),
    "second segment": masked_setup(
        TokenClassifier(mean_over_all), torch.arange(6) >= LENGTHS.unsqueeze(1), tokens=TOKENS + torch.arange(1, 7)
    ),
    "sum of zeros": masked_setup(TokenClassifier(sum_of_zeros), MASK),
    "sum of zeros, padding of the tokens": unmasked_setup(TokenClassifier(sum_of_zeros)),
    "excluded by padding_idx of a bag": masked_setup(BagOfEmbeddings(0), MASK),
    "nothing padded": unmasked_setup(TokenClassifier(mean_over_all), TOKENS.clamp(min=1)),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_padding_changes_output_is_quiet_for_models_that_exclude_padding(name: str) -> None:
    assert checkup_findings(HEALTHY[name](), "M310") == []


class ConvolutionalTagger(nn.Module):
    """Tags for each token, with the axis of the tags before that of the tokens."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.embed, self.near = nn.Embedding(20, 8, padding_idx=0), nn.Conv1d(8, 8, 3, padding=1)
        self.tags = nn.Conv1d(8, 3, 3 if bias else 1, padding=int(bias))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.tags(torch.relu(self.near(self.embed(tokens).mT)))


@pytest.mark.parametrize("bias", [False, True])
def test_padding_changes_output_of_tags_along_the_last_axis_counts_real_positions(bias: bool) -> None:
    """A single convolution reads vectors of zeros; a second one reads the bias of the first at padded positions."""
    loader = [(TOKENS, TOKENS % 3)]
    setup = Setup(ConvolutionalTagger(bias), loader, loss_fn=nn.CrossEntropyLoss())
    findings = checkup_findings(setup, "M310")
    assert len(findings) == bias
    assert all("64 of" not in finding.message and finding.severity == "note" for finding in findings)


class ZeroStart(nn.Module):
    """The layer of a classifier of tokens whose output projection starts at zero, added to the first token."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(8, 8), nn.Linear(8, 8)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)


def residual(mix: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], Setup]:
    def function(self: TokenClassifier, x: Tensor, valid: Tensor) -> Tensor:
        return x[:, 0] + self.layer.out(mix(self.layer.project(x), valid))

    return masked_setup(TokenClassifier(function, ZeroStart()), MASK)


def attended(mask: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    def attend(x: Tensor, valid: Tensor) -> Tensor:
        return ((x @ x.mT).masked_fill(mask(valid), -1e9).softmax(-1) @ x)[:, 0]

    return attend


def weighed(x: Tensor, weights: Tensor) -> Tensor:
    return (x * weights.unsqueeze(2)).sum(1) / weights.sum(1, keepdim=True)


HIDDEN_FAULTS = {
    "mean": residual(lambda x, valid: x.mean(1) + valid[:, :1] * 0.0),
    "maximum": residual(lambda x, valid: x.amax(1) + valid[:, :1] * 0.0),
    "inverted mask": residual(attended(lambda valid: valid.unsqueeze(1))),
    "mask of zeros": residual(attended(lambda valid: torch.zeros_like(valid).unsqueeze(1))),
    "inverted weights": residual(lambda x, valid: weighed(x, (~valid).float() + 1e-3)),
}
HIDDEN_GOOD = {
    "mean": residual(lambda x, valid: weighed(x, valid.float())),
    "maximum": residual(lambda x, valid: x.masked_fill(~valid.unsqueeze(2), -1e9).amax(1)),
    "mask": residual(attended(lambda valid: ~valid.unsqueeze(1))),
    "first token": residual(lambda x, valid: x[:, 0] + valid[:, :1] * 0.0),
    "last token": residual(lambda x, valid: x[torch.arange(len(x)), valid.sum(1) - 1]),
}


@pytest.mark.parametrize("name", HIDDEN_FAULTS)
def test_m310_padding_that_passes_a_part_which_starts_at_zero_fires(name: str) -> None:
    (finding,) = checkup_findings(HIDDEN_FAULTS[name](), "M310")
    assert finding.severity == "error"


@pytest.mark.parametrize("name", HIDDEN_GOOD)
def test_m310_part_that_starts_at_zero_and_excludes_padding_is_quiet(name: str) -> None:
    assert checkup_findings(HIDDEN_GOOD[name](), "M310") == []
