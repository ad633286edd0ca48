"""Simple properties of tokens, of rows of a table, and of series."""

from __future__ import annotations

import torch
from torch import Tensor

ODD, NORMAL = 3.5, 1.4826  # robust deviations of an odd value; the median deviation of a normal number, inverted
WIDEST = 128  # features: more than these are no columns that somebody knows by name
ENOUGH = 512  # rows that tell what is usual
LONG, SMOOTH = 16, 0.7  # a row so long whose neighbors are so alike is a series


def of_tokens(tokens: Tensor, padding: int = 0, unknown: int | None = None) -> dict[str, Tensor]:
    """Length of token sequences (samples, time) without the padding behind them, and unknown tokens where told."""
    real = tokens != padding
    places = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
    found = {"length": (real * places).amax(1)}
    if unknown is not None:
        found["unknown tokens"] = (tokens == unknown).sum(1)
    return found


class Usual:
    """What values of each feature are usual: the median and the median deviation in the first rows."""

    def __init__(self, rows: Tensor) -> None:
        rows = rows[:ENOUGH].float()
        self.middle = rows.nanmedian(0).values
        self.width = (rows - self.middle).abs().nanmedian(0).values * NORMAL

    def odd(self, rows: Tensor) -> Tensor:
        """How many values of each row lie far out.

        By 3.5 robust deviations: Iglewicz and Hoaglin 1993, How to detect and handle outliers.
        """
        return (((rows - self.middle).abs() > ODD * self.width) & (self.width > 0)).sum(1)


def of_rows(rows: Tensor, usual: Usual) -> dict[str, Tensor]:
    """Missing and odd values in rows of a table (samples, features)."""
    return {"missing values": rows.isnan().sum(1), "odd values": usual.odd(rows)}


def of_series(series: Tensor) -> dict[str, Tensor]:
    """Level, spread and trend of series (samples, channels, time), over all channels.

    The trend is how far the line of least squares rises from end to end.
    """
    values = series.float()
    deviation, mean = torch.std_mean(values.flatten(1), dim=1, correction=0)
    count = values.shape[-1]
    time = torch.linspace(-0.5, 0.5, count, device=values.device)
    slope = (values.mean(1) * time).sum(1) / (time * time).sum()
    return {"level": mean, "spread": deviation, "trend": slope}


def is_smooth(rows: Tensor) -> bool:
    """Whether rows (samples, time) are series: long, and each value much like the one before it."""
    if rows.shape[1] < LONG:
        return False
    centered = rows.float() - rows.float().mean(1, keepdim=True)
    alike = (centered[:, 1:] * centered[:, :-1]).sum() / (centered * centered).sum().clamp(min=1e-12)
    return bool(alike > SMOOTH)
