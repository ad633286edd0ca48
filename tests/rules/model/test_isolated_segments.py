"""Tests of M306: attention that hides segments from each other, and packed rows in which it should."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.measurements import short_trials
from nbdebug.measurements.registry import Measurements
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

LENGTH = 8


class PairReader(nn.Module):
    """An encoder of pairs of segments; attention may be hidden between them, and the output may have positions."""

    def __init__(self, *, hides: bool, dense: bool) -> None:
        super().__init__()
        self.hides, self.dense = hides, dense
        self.words, self.kinds, self.places = nn.Embedding(8, 16), nn.Embedding(2, 16), nn.Embedding(LENGTH, 16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, words: Tensor, segments: Tensor) -> Tensor:
        x = self.words(words) + self.kinds(segments) + self.places(torch.arange(LENGTH))
        mask = segments[:, :, None] != segments[:, None, :] if self.hides else None
        mask = mask.repeat_interleave(2, 0) if mask is not None else None
        x = x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]
        scores: Tensor = self.head(x)
        return scores if self.dense else scores[:, 0]


def token_loss(scores: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten())


def setup_of(*, hides: bool, dense: bool, packed: bool = False) -> Setup:
    """Learn the parity of a word of the other segment, or of the own one in packed rows."""
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(0, 8, (512, LENGTH), generator=generator)
    segments = (torch.arange(LENGTH) >= LENGTH // 2).long().expand(512, -1)
    own, other = words % 2, torch.where(segments == 0, words[:, -1:] % 2, words[:, :1] % 2)
    target = (own if packed else other) if dense else words[:, -1] % 2
    torch.manual_seed(0)
    model = PairReader(hides=hides, dense=dense)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    loss_fn = token_loss if dense else nn.CrossEntropyLoss()
    loader = DataLoader(TensorDataset(words, segments, target), batch_size=128)
    return Setup(model, loader, loss_fn=loss_fn, optimizers=(optimizer,))


@pytest.mark.parametrize("dense", [False, True])
def test_segments_that_are_hidden_from_each_other_fire(dense: bool) -> None:
    (finding,) = rule_faults(setup_of(hides=True, dense=dense), "M306")
    assert finding.evidence["input"] == "segments"
    assert "mask = segments" in (finding.where.source or "")


@pytest.mark.parametrize("dense", [False, True])
def test_embedded_segments_do_not_fire(dense: bool) -> None:
    assert rule_faults(setup_of(hides=False, dense=dense), "M306") == []


def test_trials_that_take_too_long_are_left_to_a_thorough_checkup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_trials, "_MAX_SECONDS", 0.0)
    with pytest.raises(NotChecked, match="two trials of 150 steps take more than 0 s; budget='thorough' runs them"):
        Measurements(setup_of(hides=True, dense=True))["isolated_segments"]


def test_packed_documents_do_not_fire() -> None:
    """What is asked for a token depends on its own segment, so hiding the others costs nothing."""
    assert rule_faults(setup_of(hides=True, dense=True, packed=True), "M306") == []


class MaskedReader(nn.Module):
    """An encoder whose attention and mean leave out the padding that a mask marks."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.attention = nn.Embedding(8, 16), nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        x = self.words(words)
        x = x + self.attention(x, x, x, key_padding_mask=mask == 0, need_weights=False)[0]
        scores: Tensor = self.head((x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))
        return scores


@pytest.mark.parametrize("is_leading", [True, False])
def test_mask_of_padding_is_no_segment(is_leading: bool) -> None:
    words = torch.randint(1, 8, (256, LENGTH), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(LENGTH) >= torch.arange(256)[:, None] % 4).long()
    mask = mask if is_leading else mask.flip(1)
    loader = DataLoader(TensorDataset(words * mask, mask, words[:, 4] % 2), batch_size=64)
    model = MaskedReader()
    optimizers = (torch.optim.Adam(model.parameters()),)
    assert rule_faults(Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=optimizers), "M306") == []
