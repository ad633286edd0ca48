"""Sound: waves with a known sample rate, to be heard and seen."""

from __future__ import annotations

import wave
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from nbdebug.samples.arrays import Array, as_array, finite
from nbdebug.samples.hints import Hints
from nbdebug.samples.series import lines

SHORTEST = 4_000  # numbers
USUAL = {8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 88_200, 96_000}  # numbers a second
CARD_RATE, CARD_SECONDS, CARD_BYTES = 8_000, 3, 1  # a page of 24 cards stays under 1 MB
FULL_SECONDS, FULL_BYTES = 60, 2


@dataclass(frozen=True)
class Sound:
    """Waves of one data set, all as loud as they are beside each other."""

    rate: int | None
    loudest: float

    @classmethod
    def of(cls, values: Sequence[Any], hints: Hints) -> Sound | None:
        """Where all are waves, each with its rate or with one that is known."""
        pairs = [parted(one) for one in values]
        waves = [one for one, _ in pairs if one is not None and is_wave(one)]
        if len(waves) < len(values) or (hints.sample_rate is None and any(rate is None for _, rate in pairs)):
            return None
        loudest = float(np.abs(finite(waves)).max(initial=0.0))
        limit = np.iinfo(waves[0].dtype).max if waves[0].dtype.kind == "i" else 1.0
        return cls(hints.sample_rate, max(loudest, limit))

    def __call__(self, value: Any, full: bool) -> dict[str, Any]:
        """One sound: on a card its first seconds at telephone quality, in full a minute at most."""
        found, given = parted(value)
        rate = given or self.rate
        assert found is not None
        assert rate is not None
        rows = found[None] if found.ndim == 1 else found if found.shape[0] < found.shape[1] else found.T
        mono = np.nan_to_num(rows.astype(np.float64)).mean(0) / self.loudest
        seconds = len(mono) / rate
        if full:
            src = address(mono[: FULL_SECONDS * rate], rate, FULL_BYTES)
        else:
            src = address(*coarser(mono[: CARD_SECONDS * rate], rate), CARD_BYTES)
        return {"kind": "audio", "src": src, "lines": lines(rows, 2), "seconds": round(seconds, 2), "rate": rate}


def parted(value: Any) -> tuple[Array | None, int | None]:
    """A wave and its rate out of a pair, or out of a dictionary as Hugging Face's data sets give it."""
    if isinstance(value, Mapping) and "array" in value and "sampling_rate" in value:
        return as_array(value["array"]), int(value["sampling_rate"])
    if isinstance(value, (tuple, list)) and len(value) == 2:
        found, rate = as_array(value[0]), value[1]
        return (found, int(rate)) if isinstance(rate, (int, float)) and rate in USUAL else (None, None)
    return as_array(value), None


def is_wave(values: Array) -> bool:
    """Whether this may be a sound: one long row of numbers, or two."""
    shape = sorted(values.shape)
    return values.dtype.kind in "fi" and 1 <= len(shape) <= 2 and shape[-1] >= SHORTEST and shape[:-1] in ([], [1], [2])


def coarser(mono: Array, rate: int) -> tuple[Array, int]:
    """A wave at a lower rate."""
    factor = rate // CARD_RATE
    if factor < 2:
        return mono, rate
    from scipy.signal import resample_poly

    return np.asarray(resample_poly(mono, 1, factor)), rate // factor


def address(mono: Array, rate: int, width: int) -> str:
    """A wave between -1 and 1 as a WAV file in a data: address."""
    loud = np.clip(mono, -1, 1)
    data = (loud * 127.5 + 127.5).astype(np.uint8) if width == 1 else (loud * 32767).astype("<i2")
    out = BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data.tobytes())
    return f"data:audio/wav;base64,{b64encode(out.getvalue()).decode()}"
