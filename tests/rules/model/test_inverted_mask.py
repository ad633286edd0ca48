"""Tests of M310 on masks that exclude the real positions instead of the padded ones."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

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
    "reader", [SummaryToken, MaskedMean, HandMadeTagger, LastState, MaximumOfConvolution, FirstToken]
)
def test_padding_changes_output_of_correct_or_absent_mask_is_not_called_inverted(reader: type[Reader]) -> None:
    torch.manual_seed(0)
    assert rule_findings(text_setup(reader(inverted=False)), "M310") == []
