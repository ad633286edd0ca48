"""Tests of M305: sequence models that see the inputs they predict, and models that may read everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import minimal_setup
from nbdebug.rules.model.future_leak import AttentionLanguageModel, next_token_loss
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

TOKENS = torch.randint(1, 11, (64, 10), generator=torch.Generator().manual_seed(1))
WAVES = torch.randn(64, 10, 4, generator=torch.Generator().manual_seed(2))
BOTH_WAYS = {"batch_first": True, "bidirectional": True}


class Tagger(nn.Module):
    """Scores at every position, by a function of the embedded tokens."""

    def __init__(self, layer: nn.Module, function: Callable[[nn.Module, Tensor], Tensor], width: int = 8) -> None:
        super().__init__()
        self.embed, self.layer, self.head = nn.Embedding(11, 8), layer, nn.Linear(width, 11)
        self.function = function

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.function(self.layer, self.embed(tokens)))


class ModelWithLoss(nn.Module):
    """Computes its own loss with shifted labels."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.inner = AttentionLanguageModel(causal)

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.inner(input_ids)
        return {"logits": logits, "loss": shifted_loss(logits, labels)}


def shifted_loss(logits: Tensor, labels: Tensor) -> Tensor:
    return next_token_loss(logits[:, :-1], labels[:, 1:])


def recurrent_outputs(layer: Any, x: Tensor) -> Tensor:
    return layer(x)[0]


def convolve(layer: nn.Module, x: Tensor) -> Tensor:
    return layer(x.transpose(1, 2)).transpose(1, 2)


def convolve_causally(layer: nn.Module, x: Tensor) -> Tensor:
    return layer(F.pad(x.transpose(1, 2), (2, 0))).transpose(1, 2)


def keep_last(layer: nn.Module, x: Tensor) -> Tensor:
    return layer(x.transpose(1, 2))[..., 2:].transpose(1, 2)  # after padding by 2 on both sides


def keep_first(layer: nn.Module, x: Tensor) -> Tensor:
    return layer(x.transpose(1, 2))[..., :-2].transpose(1, 2)


def fused_attention(causal: bool) -> Callable[[nn.Module, Tensor], Tensor]:
    return lambda layer, x: F.scaled_dot_product_attention(layer(x), x, x, is_causal=causal)


def masked_attention(layer: nn.Module, x: Tensor) -> Tensor:
    weights = (layer(x) @ x.transpose(1, 2)).tril()
    return weights @ x


def language_setup(
    model: nn.Module, loss_fn: Any = next_token_loss, x: Tensor = TOKENS[:, :-1], y: Tensor = TOKENS[:, 1:]
) -> Any:
    return lambda: minimal_setup(model, x, y, loss_fn)


def setup_with_model_loss(causal: bool) -> Setup:
    batches = [{"input_ids": TOKENS[i : i + 16], "labels": TOKENS[i : i + 16]} for i in range(0, 64, 16)]
    return Setup(ModelWithLoss(causal), batches)


FAULTS: dict[str, tuple[Callable[[], Setup], str]] = {
    "bidirectional": (language_setup(Tagger(nn.LSTM(8, 4, **BOTH_WAYS), recurrent_outputs)), "layer"),
    "same padding": (language_setup(Tagger(nn.Conv1d(8, 8, 3, padding=1), convolve)), "layer"),
    "functional attention": (language_setup(Tagger(nn.Linear(8, 8), fused_attention(False))), ""),
    "loss of the model": (lambda: setup_with_model_loss(False), "inner.attention"),
    "shift in the loss": (language_setup(AttentionLanguageModel(False), shifted_loss, TOKENS, TOKENS), "attention"),
    "bf16": (language_setup(AttentionLanguageModel(False).bfloat16()), "attention"),
    "real values": (
        language_setup(nn.GRU(4, 2, **BOTH_WAYS), lambda o, y: F.mse_loss(o[0], y), WAVES[:, :-1], WAVES[:, 1:]),
        "",
    ),
}


def test_future_leak_names_the_slice_that_shifts_a_padded_convolution() -> None:
    shifted = language_setup(Tagger(nn.Conv1d(8, 8, 3, padding=2), keep_last))
    (finding,) = checkup_findings(shifted(), "M305")
    assert "[..., 2:]" in (finding.where.source or "")
    assert "drops the first positions" in finding.cause
    assert checkup_findings(language_setup(Tagger(nn.Conv1d(8, 8, 3, padding=2), keep_first))(), "M305") == []


def windows(before: int, behind: int) -> Callable[[nn.Module, Tensor], Tensor]:
    """Return a layer of three steps by windows of the padded sequence."""

    def apply_windows(layer: nn.Module, x: Tensor) -> Tensor:
        wide = F.pad(x, (0, 0, before, behind))
        stacked = torch.stack([wide[:, step : step + x.shape[1]] for step in range(3)])
        weights = torch.stack([layer.weight] * 3)
        return torch.einsum("kbta,kca->btc", stacked, weights)

    return apply_windows


def test_future_leak_of_windows_points_to_the_padding_of_both_ends_and_offers_no_mask() -> None:
    (finding,) = checkup_findings(language_setup(Tagger(nn.Linear(8, 8), windows(1, 1)))(), "M305")
    assert "F.pad(x" in (finding.where.source or "")
    assert "padded on both ends" in finding.cause
    assert "mask" not in finding.fix
    assert checkup_findings(language_setup(Tagger(nn.Linear(8, 8), windows(2, 0)))(), "M305") == []


def test_future_leak_of_a_product_over_positions_without_softmax_offers_no_mask() -> None:
    mixing = torch.randn(9, 9, generator=torch.Generator().manual_seed(3))
    (finding,) = checkup_findings(language_setup(Tagger(nn.Linear(8, 8), lambda layer, x: mixing @ layer(x)))(), "M305")
    assert "mask" not in finding.fix


class CrossReader(nn.Module):
    """Embeds a source and attends to it, or by mistake to the sequence that it writes."""

    def __init__(self, reads_source: bool) -> None:
        super().__init__()
        self.embed, self.head, self.reads_source = nn.Embedding(11, 8), nn.Linear(8, 11), reads_source

    def forward(self, source: Tensor, shifted: Tensor) -> Tensor:
        x = self.embed(shifted)
        memory = self.embed(source) if self.reads_source else x
        return self.head(x + F.scaled_dot_product_attention(x, memory, memory))


@pytest.mark.parametrize("reads_source", [True, False])
def test_future_leak_of_an_attention_that_should_read_an_unread_input_offers_no_causal_mask(
    reads_source: bool,
) -> None:
    loader = DataLoader(TensorDataset(TOKENS.flip(1), TOKENS[:, :-1], TOKENS[:, 1:]), batch_size=16)
    setup = Setup(CrossReader(reads_source), loader, loss_fn=next_token_loss)
    findings = checkup_findings(setup, "M305")
    assert len(findings) == (not reads_source)
    assert all("'source'" in finding.fix for finding in findings)
    assert not any("is_causal" in finding.fix or finding.edits for finding in findings)


@pytest.mark.parametrize("name", FAULTS)
def test_future_leak_is_error_at_module(name: str) -> None:
    build, module = FAULTS[name]
    (finding,) = checkup_findings(build(), "M305")
    assert finding.severity == "error"
    assert finding.where.module == (module or None)


def attention_with_mask(mask: Callable[[Tensor], Tensor]) -> Callable[[nn.Module, Tensor], Tensor]:
    def attend(layer: nn.Module, x: Tensor) -> Tensor:
        scores = layer(x) @ x.transpose(1, 2) / 8**0.5
        scores = mask(scores)
        weights = scores.softmax(-1)
        return weights @ x

    return attend


def inverted_mask(scores: Tensor) -> Tensor:
    return scores.masked_fill(torch.ones(9, 9).tril(-1).bool(), -torch.inf)


def off_by_one_mask(scores: Tensor) -> Tensor:
    return scores + torch.full((9, 9), -torch.inf).triu(2)


MASKS = {
    "no mask": (lambda scores: scores, "scores.softmax(-1)"),
    "inverted mask": (inverted_mask, "tril(-1)"),
    "mask off by one": (off_by_one_mask, "triu(2)"),
}


@pytest.mark.parametrize("name", MASKS)
def test_future_leak_of_manual_attention_points_to_mask_or_softmax(name: str) -> None:
    mask, line = MASKS[name]
    (finding,) = checkup_findings(language_setup(Tagger(nn.Linear(8, 8), attention_with_mask(mask)))(), "M305")
    assert line in (finding.where.source or "")


@pytest.mark.parametrize(("visible", "fix"), [(True, "masked_fill(~mask"), (False, "masked_fill(mask")])
def test_future_leak_of_a_boolean_mask_that_is_added_points_to_the_sum(visible: bool, fix: str) -> None:
    mask = torch.ones(9, 9).tril().bool() if visible else torch.ones(9, 9).triu(1).bool()

    def attend(layer: nn.Module, x: Tensor) -> Tensor:
        scores = layer(x) @ x.transpose(1, 2)
        scores = scores + mask
        return scores.softmax(-1) @ x

    (finding,) = checkup_findings(language_setup(Tagger(nn.Linear(8, 8), attend))(), "M305")
    assert finding.where.source is not None
    assert finding.where.source.strip() == "scores = scores + mask"
    assert fix in finding.fix


def softmax_over_queries(scores: Tensor) -> Tensor:
    return (scores - 1e9 * torch.ones(9, 9).triu(1)).softmax(1)


def normalized_over_queries(scores: Tensor) -> Tensor:
    weights = (scores + torch.full((9, 9), -torch.inf).triu(1)).softmax(-1)
    return weights / weights.sum(1, keepdim=True)


@pytest.mark.parametrize(
    ("weigh", "line"), [(softmax_over_queries, ".softmax(1)"), (normalized_over_queries, "weights / weights.sum(1")]
)
def test_future_leak_behind_a_causal_mask_points_to_the_call_that_mixes_the_rows(
    weigh: Callable[[Tensor], Tensor], line: str
) -> None:
    def attend(layer: nn.Module, x: Tensor) -> Tensor:
        return weigh(layer(x) @ x.transpose(1, 2) / 8**0.5) @ x

    (finding,) = checkup_findings(language_setup(Tagger(nn.Linear(8, 8), attend))(), "M305")
    assert line in (finding.where.source or "")
    assert not finding.edits


class ReaderAndWriter(nn.Module):
    """Reads a source in both directions and writes with the same kind of attention, under a mask that starts late."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)
        self.reader, self.writer = MaskedAttention(), MaskedAttention()

    def forward(self, source: Tensor, words: Tensor) -> Tensor:
        future = torch.ones(words.shape[1], words.shape[1], dtype=torch.bool).triu(2)
        read = self.reader(self.embed(source), None).mean(1, keepdim=True)
        return self.head(self.writer(self.embed(words), future) + read)


class MaskedAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(8, 8)

    def forward(self, x: Tensor, hidden: Tensor | None) -> Tensor:
        scores = self.query(x) @ x.transpose(1, 2)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        return scores.softmax(-1) @ x


def test_future_leak_of_a_decoder_is_placed_at_its_mask_and_not_in_the_encoder_of_the_same_class() -> None:
    loader = DataLoader(TensorDataset(TOKENS.flip(1), TOKENS[:, :-1], TOKENS[:, 1:]), batch_size=16)
    setup = Setup(ReaderAndWriter(), loader, loss_fn=next_token_loss)
    (finding,) = checkup_findings(setup, "M305")
    assert finding.where.module == "writer"
    assert "triu(2)" in (finding.where.source or "")


HEALTHY: dict[str, Callable[[], Setup]] = {
    "lstm": language_setup(Tagger(nn.LSTM(8, 8, batch_first=True), recurrent_outputs)),
    "causal convolution": language_setup(Tagger(nn.Conv1d(8, 8, 3), convolve_causally)),
    "causal attention": language_setup(Tagger(nn.Linear(8, 8), fused_attention(True))),
    "masked manually": language_setup(Tagger(nn.Linear(8, 8), masked_attention)),
    "loss of the model": lambda: setup_with_model_loss(True),
    "bidirectional tagger": language_setup(AttentionLanguageModel(False), y=(TOKENS[:, :-1] * 3) % 11),
    "masked tokens": language_setup(AttentionLanguageModel(False), x=TOKENS * (torch.rand(64, 10) > 0.2), y=TOKENS),
    "time first": language_setup(Tagger(nn.LSTM(8, 8), recurrent_outputs), x=TOKENS.t()[:-1], y=TOKENS.t()[1:]),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_future_leak_ignores_causal_models_and_bidirectional_tasks(name: str) -> None:
    assert checkup_findings(HEALTHY[name](), "M305") == []


class Translator(nn.Module):
    """Scores the next word of a translation from the source and the words before."""

    def __init__(self, diagonal: int) -> None:
        super().__init__()
        self.diagonal, self.embed, self.head = diagonal, nn.Embedding(11, 8), nn.Linear(8, 11)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, source: Tensor, previous: Tensor) -> Tensor:
        x, memory = self.embed(previous), self.embed(source)
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(self.diagonal)
        x = x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]
        return self.head(x + memory.mean(1, keepdim=True))


def translator_setup(diagonal: int) -> Setup:
    """Targets that end in ignored padding of different lengths; the loss is a mean over the counted ones."""
    lengths = 4 + torch.arange(64).unsqueeze(1) % 5
    target = TOKENS.where(torch.arange(10) < lengths, 0)
    previous = torch.cat([torch.ones(64, 1, dtype=torch.long), target[:, :-1]], dim=1)
    loader = DataLoader(TensorDataset(TOKENS, previous, target), batch_size=16)

    def loss_fn(logits: Tensor, words: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), words.flatten(), ignore_index=0)

    model = Translator(diagonal)
    return Setup(model, loader, loss_fn=loss_fn, optimizers=(torch.optim.Adam(model.parameters()),))


@pytest.mark.parametrize(("diagonal", "count"), [(2, 1), (1, 0)])
def test_m305_mask_one_too_late_with_ignored_padding_fires(diagonal: int, count: int) -> None:
    torch.manual_seed(0)
    assert len(checkup_findings(translator_setup(diagonal), "M305")) == count


class GatedBlock(nn.Module):
    """A residual part whose last weights, or gate, start at zero; ``is_trained`` tells whether they ever change."""

    def __init__(self, mix: Callable[[nn.Module, Tensor], Tensor], start: str, is_trained: bool = True) -> None:
        super().__init__()
        self.embed, self.layer, self.out = nn.Embedding(11, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.gate, self.head, self.mix = nn.Parameter(torch.ones(8 if start == "scale" else 1)), nn.Linear(8, 11), mix
        closed = {"weights": [self.out.weight, self.out.bias], "gate": [self.gate], "scale": [self.gate]}[start]
        for parameter in closed:
            nn.init.zeros_(parameter)
            parameter.requires_grad_(is_trained)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        return self.head(x + self.gate * self.out(self.mix(self.layer, x)))


def mean_of_all(layer: nn.Module, x: Tensor) -> Tensor:
    return layer(x).mean(1, keepdim=True).expand_as(x)


def mean_so_far(layer: nn.Module, x: Tensor) -> Tensor:
    return layer(x).cumsum(1) / torch.arange(1, 10).unsqueeze(1)


def causal_mask(scores: Tensor) -> Tensor:
    return scores + torch.full((9, 9), -torch.inf).triu(1)


ZERO_STARTS = {
    "mask off by one": (attention_with_mask(off_by_one_mask), "weights", "triu(2)"),
    "inverted mask": (attention_with_mask(inverted_mask), "gate", "tril(-1)"),
    "fused attention": (fused_attention(False), "scale", "scaled_dot_product_attention"),
    "normalized over queries": (attention_with_mask(softmax_over_queries), "weights", None),
    "mean of all": (mean_of_all, "gate", ".mean(1"),
}


@pytest.mark.parametrize("name", ZERO_STARTS)
def test_m305_later_inputs_that_pass_a_part_which_starts_at_zero_fire(name: str) -> None:
    mix, start, source = ZERO_STARTS[name]
    model = GatedBlock(mix, start)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    (finding,) = checkup_findings(language_setup(model)(), "M305")
    assert (source or "") in (finding.where.source or "")
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("start", ["weights", "gate", "scale"])
@pytest.mark.parametrize("mix", [attention_with_mask(causal_mask), fused_attention(True), mean_so_far])
def test_m305_causal_part_that_starts_at_zero_is_quiet(mix: Callable[[nn.Module, Tensor], Tensor], start: str) -> None:
    assert checkup_findings(language_setup(GatedBlock(mix, start))(), "M305") == []


@pytest.mark.parametrize("start", ["weights", "gate"])
def test_m305_part_that_stays_at_zero_is_quiet(start: str) -> None:
    assert checkup_findings(language_setup(GatedBlock(mean_of_all, start, is_trained=False))(), "M305") == []
