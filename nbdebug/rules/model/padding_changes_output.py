"""M310: what stands in padded positions changes the output of the real ones."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.evidence.padding import Padding
from nbdebug.evidence.trailing import Trimmed
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.setup import Setup


@rule("M310", "error")
def padding_changes_output(
    padding: Padding | NotChecked, trimmed: Trimmed | NotChecked, *, share: float = 0.5
) -> Iterator[Finding]:
    """What stands in padded places changes the output for the real ones.

    ## What it does
    Puts other values into padded places and looks whether outputs for samples, or for their real places, change. An
    error where the model is given a mask or lengths. Where only the ``padding_idx`` of an embedding tells, it is a
    note, and a warning if the model packs its sequences all the same, by lengths that count padding. Where nothing
    tells, and one token pads the ends of rows to widths that differ from batch to batch, half of the padding is cut
    off: a warning if more than a ``share`` of half of the padded samples get another answer.

    ## Why it matters
    A sample then gets another answer when it is padded further, as with longer neighbors in its batch, and the model
    spends its attention, its means and its last state on nothing.

    ## How it is measured
    Padded places are read off a mask that changes once in a row, off lengths beyond which one value stands, or off an
    embedding's ``padding_idx`` at the ends of rows. In eval mode their content is exchanged, the mask or lengths left
    as they are; where they are embedded, their vectors are shifted by one instead. The line is that where padded places
    of one sample first change what is real, or where the mask is applied before.

    ## How to fix
    Hand the mask on as ``src_key_padding_mask`` or ``key_padding_mask`` (true at padding), pack sequences before a
    recurrent layer, and average over real places only.

    ## When to ignore
    When padding carries meaning, as borders of pictures do. Maximum pooling over convolved words does well with it.

    ## References
    Documentation of torch.nn.MultiheadAttention, key_padding_mask; torch.nn.utils.rnn.pack_padded_sequence.
    """
    if isinstance(padding, NotChecked):
        if isinstance(trimmed, NotChecked):
            raise padding
        if trimmed.moved > share * trimmed.rows and len(set(trimmed.widths)) > 1:
            yield by_width(trimmed)
        return
    if not padding.touched:
        return
    yield Finding(
        message=f"Changing what stands in {padding.places} padded places (by {padding.known_by}) changes "
        f"{padding.touched} of {padding.real} outputs for real input; expected 0.",
        where=padding.culprit.where if padding.culprit else Where(),
        cause="Padded places take part in an attention, a mean or a state as if they were real.",
        fix="x = encoder(x, src_key_padding_mask=~mask)  # mask: true where input is real; or pack_padded_sequence",
        evidence={"touched": padding.touched, "real": padding.real, "places": padding.places},
        explains=("E703", "E709"),
        severity="error" if padding.told else "warning" if padding.culprit else "note",
    )


def by_width(trimmed: Trimmed) -> Finding:
    """Answers that depend on how wide a batch is."""
    return Finding(
        message=f"Without {trimmed.columns} columns of padding (token {trimmed.token}), {trimmed.moved} of "
        f"{trimmed.rows} padded samples get another answer; expected 0: batches are padded to their longest sample, "
        f"here to widths of {min(trimmed.widths)} to {max(trimmed.widths)}.",
        cause="Padded places take part in an attention, a mean or a state; nothing tells the model which they are.",
        fix=f"mask = tokens == {trimmed.token}\nx = encoder(x, src_key_padding_mask=mask)   # average over ~mask only",
        evidence={"rows": trimmed.rows, "moved": trimmed.moved, "columns": trimmed.columns},
        explains=("E703", "E709"),
        severity="warning",
    )


class Averaged(nn.Module):
    """Scores by the mean over embedded tokens."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked, self.embed, self.head = masked, nn.Embedding(11, 8), nn.Linear(8, 3)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """The scores; ``mask`` is true where tokens are real."""
        weights = mask.unsqueeze(2).float() if self.masked else mask.unsqueeze(2).float() * 0.5 + 0.5
        scores: Tensor = self.head((self.embed(tokens) * weights).sum(1) / weights.sum(1))
        return scores


def texts(masked: bool) -> Setup:
    """Texts of two to six tokens, padded with zeros; the first token tells the class."""
    generator = torch.Generator().manual_seed(0)
    mask = torch.arange(6) < 2 + torch.arange(64).unsqueeze(1) % 5
    tokens = torch.randint(1, 11, (64, 6), generator=generator) * mask
    model = Averaged(masked)
    loader = DataLoader(TensorDataset(tokens, mask, tokens[:, 0] % 3), batch_size=16)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(torch.optim.Adam(model.parameters()),))


def bad() -> Setup:
    """A mean to which padding adds with half its weight."""
    return texts(masked=False)


def good() -> Setup:
    """A mean over real tokens."""
    return texts(masked=True)
