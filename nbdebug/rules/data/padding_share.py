"""D123: batches that consist mostly of padding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements.padding import count_real_steps
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.setup import Batch, Setup
from nbdebug.setup.batch import is_mask, named_inputs

_MIN_STEPS, _MIN_DISTINCT_LENGTHS = 4, 3
_FIX = (
    "def collate(samples):   # pad each batch to its own longest sample\n"
    "    sequences, targets = zip(*samples)\n"
    "    return torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True), torch.stack(targets)"
)

_TIGHT_FIX = "Put sequences of similar length into the same batch: batch_sampler= of the DataLoader takes such batches."


@rule("D123", "note", origin="samples")
def padding_share(batches: list[Batch], *, share: float = 0.5) -> Iterator[Finding]:
    """Most of each batch is padding.

    ## What it does
    Counts the steps at the ends, or at the starts, of the sequences of the first batches that all hold the same value.

    ## Why it matters
    The model computes on padding as long as on data. A mean over all steps, an unmasked attention or the last state of
    a recurrent layer sees mostly padding.

    ## How it is measured
    On the first batches, along each axis of inputs with at least 4 steps, if the samples have at least 3 different
    lengths. A step is padding if it and all steps up to the end of the row have the same value, which is the most
    frequent value at that end. If there are several inputs, one of zeros and ones is a mask, not a sequence. Reported
    if more than a ``share`` of half of the steps are padding.

    ## How to fix
    Pad each batch to its own longest sample, put samples of similar length into the same batch, and shorten the few
    that are much longer than the rest.

    ## When to ignore
    When the value at the ends is data, as in images with an empty border.

    ## References
    Documentation of torch.nn.utils.rnn.pad_sequence and pack_padded_sequence.
    """
    inputs = [named_inputs(batch) for batch in batches]
    if not inputs:
        raise NotChecked("no batch could be read")
    for name in inputs[0]:
        parts = [batch_inputs[name] for batch_inputs in inputs if name in batch_inputs]
        if len(inputs[0]) > 1 and all(map(is_mask, parts)):
            continue
        padding = _count_padding(parts)
        if padding.width and sum(padding.real_steps) < (1 - share) * padding.width:
            yield _finding(name, padding)


@dataclass(frozen=True)
class _Padding:
    """The real steps of each sample, and the number of all steps; ``is_tight`` if no batch exceeds its longest one."""

    real_steps: list[int]
    width: int
    is_tight: bool


def _count_padding(parts: list[Tensor]) -> _Padding:
    """Count the steps along the most padded axis."""
    candidates = [_Padding([], 0, False)]
    for axis in (1, 2):
        if all(part.dim() in (2, 3) and part.dim() > axis and part.shape[axis] >= _MIN_STEPS for part in parts):
            for sequences in (parts, [part.flip(axis) for part in parts]):
                lengths = [count_real_steps(part, axis).tolist() for part in sequences]
                is_tight = all(max(each) == part.shape[axis] for each, part in zip(lengths, sequences, strict=True))
                width = sum(part.shape[axis] * len(part) for part in sequences)
                candidates.append(_Padding([*chain.from_iterable(lengths)], width, is_tight))
    varying = [candidate for candidate in candidates if len(set(candidate.real_steps)) >= _MIN_DISTINCT_LENGTHS]
    return min(varying, key=lambda candidate: sum(candidate.real_steps) / candidate.width, default=candidates[0])


def _finding(name: str, padding: _Padding) -> Finding:
    real_steps, width = padding.real_steps, padding.width
    padded = 1 - sum(real_steps) / width
    return Finding(
        message=f"{padded:.0%} of the steps of {f'input {name!r}' if name else 'the input'} are padding: in "
        f"{len(real_steps)} samples, {sum(real_steps) / len(real_steps):.3g} of {width // len(real_steps)} steps are "
        "real on average.",
        cause="Each batch is padded to its longest sequence, which is much longer than the others."
        if padding.is_tight
        else "All sequences are padded to one fixed or very long length.",
        fix=_TIGHT_FIX if padding.is_tight else _FIX,
        evidence={
            "share": padded,
            "real steps": real_steps[:20],
            "mean real steps": sum(real_steps) / len(real_steps),
            "steps": width // len(real_steps),
            "samples": len(real_steps),
        },
    )


class _MeanOfTokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(20, 8, padding_idx=0), nn.Linear(8, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        lengths: Tensor = (tokens != 0).sum(1, keepdim=True)
        logits: Tensor = self.head(self.embedding(tokens).sum(1) / lengths)
        return logits


def _setup_with_width(width: int) -> Setup:
    """Sentences of four to eight words, padded to ``width``."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, 20, (64, width), generator=generator)
    lengths = torch.randint(4, 9, (64, 1), generator=generator)
    tokens[torch.arange(width) >= lengths] = 0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = _MeanOfTokens()
    labels = (tokens[:, 0] > 10).long()
    return Setup(model, DataLoader(TensorDataset(tokens, labels), 16, shuffle=True), loss_fn=nn.CrossEntropyLoss())


def bad() -> Setup:
    """Sentences of at most eight words, padded to forty."""
    return _setup_with_width(40)


def good() -> Setup:
    """The same sentences, padded to eight."""
    return _setup_with_width(8)
