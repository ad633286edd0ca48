"""Tests of M310 on masks that exclude the real positions instead of the padded ones."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import is_consequence
from nbdebug.rules.examples import minimal_setup
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

PAD, WIDTH, LENGTH = 0, 16, 14
GENERATOR = torch.Generator().manual_seed(0)
LENGTHS = 5 + torch.arange(64) % 8
TOKENS = torch.randint(1, 20, (64, LENGTH), generator=GENERATOR) * (torch.arange(LENGTH) < LENGTHS.unsqueeze(1))


class Reader(nn.Module):
    """Embeds and normalizes tokens; subclasses combine them with a mask that is ``inverted`` or not."""

    def __init__(self, inverted: bool, classes: int = 3) -> None:
        super().__init__()
        self.inverted, self.embed, self.norm = inverted, nn.Embedding(20, WIDTH), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, classes)
        self.build()

    def build(self) -> None:
        pass

    def is_padding(self, tokens: Tensor) -> Tensor:
        return tokens != PAD if self.inverted else tokens == PAD


class SummaryToken(Reader):
    """A Transformer whose first position is read."""

    def build(self) -> None:
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.norm(self.embed(tokens))
        return self.head(self.encoder(x, src_key_padding_mask=self.is_padding(tokens))[:, 0])


class MaskedMean(Reader):
    """A mean over embeddings, weighted by a mask as floats."""

    def forward(self, tokens: Tensor) -> Tensor:
        weights = (~self.is_padding(tokens)).float().unsqueeze(2)
        return self.head((self.norm(self.embed(tokens)) * weights).sum(1) / weights.sum(1).clamp_min(1))


class HandMadeTagger(Reader):
    """Labels for every token, by an attention of its own that fills masked scores with a large negative number."""

    def build(self) -> None:
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.norm(self.embed(tokens))
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        scores = scores.masked_fill(self.is_padding(tokens).unsqueeze(1), -1e9)
        return self.head(x + scores.softmax(-1) @ self.value(x)).transpose(1, 2)


class LastState(Reader):
    """A GRU that reads on over the padding."""

    def build(self) -> None:
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.gru(self.embed(tokens))[0][:, -1])


class MaximumOfConvolution(Reader):
    """A convolution with max pooling."""

    def build(self) -> None:
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.conv(self.embed(tokens).transpose(1, 2)).relu().amax(2))


class FirstToken(Reader):
    """Reads the first token only."""

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.embed(tokens)[:, 0])


def text_setup(model: nn.Module) -> Setup:
    targets = TOKENS % 3 if isinstance(model, HandMadeTagger) else TOKENS[:, 0] % 3
    return minimal_setup(model, TOKENS, targets, nn.CrossEntropyLoss())


@pytest.mark.parametrize("reader", [SummaryToken, MaskedMean, HandMadeTagger])
def test_padding_changes_output_of_inverted_mask_names_its_line(reader: type[Reader]) -> None:
    torch.manual_seed(0)
    (finding,) = rule_findings(text_setup(reader(inverted=True)), "M310")
    assert finding.severity == "error"
    assert finding.cause.startswith("The padding mask is inverted")
    assert finding.where.source is not None
    assert "PAD" in finding.where.source


@pytest.mark.parametrize(
    ("reader", "effect"), [(MaskedMean, "changes the output in"), (HandMadeTagger, "other positions")]
)
def test_message_speaks_of_other_positions_only_if_the_output_has_positions(reader: type[Reader], effect: str) -> None:
    torch.manual_seed(0)
    (finding,) = rule_findings(text_setup(reader(inverted=True)), "M310")
    assert effect in finding.message
    assert "changing the embedding at a padded position" in finding.message


class QueryPooling(Reader):
    """A learned query reads the keys that a mask leaves."""

    def build(self) -> None:
        self.query = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.key, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        kept = ~self.is_padding(tokens)[:, None, :]
        query = self.query.expand(len(x), -1, -1)
        pooled = nn.functional.scaled_dot_product_attention(query, self.key(x), self.value(x), attn_mask=kept)
        return self.head(pooled[:, 0])


class FilledPooling(QueryPooling):
    """The first token reads them, by scores that are filled."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        scores = self.value(x[:, :1]) @ self.key(x).transpose(1, 2)
        scores = scores.masked_fill(self.is_padding(tokens)[:, None, :], -1e9)
        return self.head((scores.softmax(-1) @ self.value(x))[:, 0])


@pytest.mark.parametrize("reader", [QueryPooling, FilledPooling])
def test_equal_keys_of_padding_follow_from_the_inverted_mask(reader: type[Reader]) -> None:
    torch.manual_seed(0)
    setup = text_setup(reader(inverted=True))
    (cause,), (effect,) = rule_findings(setup, "M310"), rule_findings(setup, "M320")
    assert "keys that the mask keeps" in effect.message
    assert is_consequence("M320", effect.aspect, cause.explains)


def test_equal_keys_without_a_mask_are_no_consequence_of_one() -> None:
    class EqualKeys(QueryPooling):
        def forward(self, tokens: Tensor) -> Tensor:
            x = self.embed(tokens)
            key = self.key(x).mean(1, keepdim=True).expand(-1, LENGTH, -1)
            pooled = nn.functional.scaled_dot_product_attention(self.query.expand(len(x), -1, -1), key, self.value(x))
            return self.head(pooled[:, 0])

    torch.manual_seed(0)
    (finding,) = rule_findings(text_setup(EqualKeys(False)), "M320")
    assert "The keys are the same at all positions" in finding.cause
    assert not finding.aspect


@pytest.mark.parametrize(
    "reader", [SummaryToken, MaskedMean, HandMadeTagger, LastState, MaximumOfConvolution, FirstToken]
)
def test_padding_changes_output_of_correct_or_absent_mask_is_not_called_inverted(reader: type[Reader]) -> None:
    torch.manual_seed(0)
    assert rule_findings(text_setup(reader(inverted=False)), "M310") == []


class PooledReader(Reader):
    """A mean over the real positions of what an attention, which normalizes them, adds to them.

    Every real position reaches the output through the mean, also where the attention excludes it.
    """

    def build(self) -> None:
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def attend(self, x: Tensor, is_padding: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.norm(self.embed(tokens))
        weights = (tokens != PAD).float().unsqueeze(2)
        return self.head(((x + self.attend(x, self.is_padding(tokens))) * weights).sum(1) / weights.sum(1))


class AdditiveBias(PooledReader):
    """Adds a large negative bias in torch's fused attention."""

    def attend(self, x: Tensor, is_padding: Tensor) -> Tensor:
        bias = -1e4 * is_padding[:, None, :].float()
        return nn.functional.scaled_dot_product_attention(*self.qkv(x).chunk(3, -1), attn_mask=bias)


class LogarithmOfMask(PooledReader):
    """Adds the logarithm of a mask to scores made by einsum."""

    def attend(self, x: Tensor, is_padding: Tensor) -> Tensor:
        query, key, value = self.qkv(x).chunk(3, -1)
        scores = torch.einsum("bqc,bkc->bqk", query, key)
        keep = torch.log(1 - is_padding.float() + 1e-6)
        return torch.einsum("bqk,bkc->bqc", (scores + keep[:, None]).softmax(-1), value)


class FilledScores(PooledReader):
    """Selects between scores and a constant."""

    def attend(self, x: Tensor, is_padding: Tensor) -> Tensor:
        query, key, value = self.qkv(x).chunk(3, -1)
        scores = torch.where(is_padding[:, None], torch.tensor(-1e9), query @ key.transpose(1, 2))
        return torch.softmax(scores, 2) @ value


class Frames(nn.Module):
    """A Transformer over frames, whose last feature tells the real ones."""

    def __init__(self, inverted: bool) -> None:
        super().__init__()
        self.inverted, self.lift, self.head = inverted, nn.Linear(6, WIDTH), nn.Linear(WIDTH, 3)
        self.encoder = nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.0, batch_first=True)

    def forward(self, frames: Tensor) -> Tensor:
        is_real = frames[..., -1] > 0
        mask = is_real if self.inverted else ~is_real
        return self.head(self.encoder(self.lift(frames[..., :-1]), src_key_padding_mask=mask)[:, 0])


class QuestionFirst(Reader):
    """An attention over the tokens after the first one, which is a question with numbers of its own, from zero on."""

    def build(self) -> None:
        self.ask = nn.Embedding(4, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x[:, 1:]
        keys = self.embed(tokens)
        mask = self.is_padding(tokens)
        return self.head(self.attention(self.ask(x[:, :1]), keys, keys, key_padding_mask=mask)[0].squeeze(1))


@pytest.mark.parametrize("inverted", [True, False])
def test_padding_changes_output_of_attention_over_a_part_of_the_input_is_reported_if_inverted(inverted: bool) -> None:
    torch.manual_seed(0)
    x = torch.cat([torch.arange(64)[:, None] % 4, TOKENS], 1)
    findings = rule_findings(minimal_setup(QuestionFirst(inverted), x, TOKENS[:, 0] % 3, nn.CrossEntropyLoss()), "M310")
    assert [finding.severity for finding in findings] == ["error"] * inverted


def pooled_setup(reader: type[nn.Module], inverted: bool) -> Setup:
    torch.manual_seed(0)
    is_real = (TOKENS != PAD).unsqueeze(2).float()
    frames = torch.cat([torch.randn(64, LENGTH, 6, generator=GENERATOR) * is_real, is_real], 2)
    x = frames if reader is Frames else TOKENS
    return minimal_setup(reader(inverted), x, TOKENS[:, 0] % 3, nn.CrossEntropyLoss())


ATTENTIONS = [
    (AdditiveBias, "bias = -1e4"),
    (LogarithmOfMask, "keep = torch.log("),
    (FilledScores, "torch.where("),
    (Frames, "src_key_padding_mask=mask"),
]


@pytest.mark.parametrize(("reader", "line"), ATTENTIONS)
def test_padding_changes_output_of_attention_to_padding_only_names_the_line_of_its_mask(
    reader: type[nn.Module], line: str
) -> None:
    (finding,) = rule_findings(pooled_setup(reader, inverted=True), "M310")
    assert finding.severity == "error"
    assert finding.cause.startswith("The padding mask is inverted")
    assert finding.where.source is not None
    assert line in finding.where.source


@pytest.mark.parametrize("reader", [reader for reader, _ in ATTENTIONS])
def test_padding_changes_output_of_attention_to_real_positions_is_quiet(reader: type[nn.Module]) -> None:
    assert rule_findings(pooled_setup(reader, inverted=False), "M310") == []


class MaskedAttention(Reader):
    """An attention and a mean, both of which a mask of the real positions restricts to these."""

    def build(self) -> None:
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        pad = tokens == PAD
        real = ~pad if mask is None else mask
        return self.attend(self.norm(self.embed(tokens)), real)

    def attend(self, x: Tensor, real: Tensor) -> Tensor:
        hidden = ~real
        states, _ = self.attention(x, x, x, key_padding_mask=hidden)
        weights = real.float().unsqueeze(2)
        return self.head((states * weights).sum(1) / weights.sum(1))


class RenamedMask(MaskedAttention):
    """Hides the real positions from the attention."""

    def attend(self, x: Tensor, real: Tensor) -> Tensor:
        hidden = real
        states, _ = self.attention(x, x, x, key_padding_mask=hidden)
        weights = real.float().unsqueeze(2)
        return self.head((states * weights).sum(1) / weights.sum(1))


@pytest.mark.parametrize("inverted", [True, False])
@pytest.mark.parametrize("is_input", [True, False])
def test_padding_changes_output_of_a_mask_with_another_name_names_the_line_that_should_invert_it(
    is_input: bool, inverted: bool
) -> None:
    torch.manual_seed(0)
    data = (TOKENS, TOKENS != PAD, TOKENS[:, 0] % 3) if is_input else (TOKENS, TOKENS[:, 0] % 3)
    loader = DataLoader(TensorDataset(*data), batch_size=16)
    model = RenamedMask(True) if inverted else MaskedAttention(False)
    optimizer = torch.optim.Adam(model.parameters())
    findings = rule_findings(Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,)), "M310")
    assert [(finding.where.source or "").strip() for finding in findings] == ["hidden = real"] * inverted
    assert [edit.text for finding in findings for edit in finding.edits] == ["~real"] * inverted
