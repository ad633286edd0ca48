"""Renders sound: waves with a known sample rate, with a player and a plot."""

from __future__ import annotations

import wave
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from nbdebug.sample_display.arrays import Array, as_array, finite_values
from nbdebug.sample_display.dataset_hints import DatasetHints
from nbdebug.sample_display.time_series import thinned_lines

_MIN_WAVE_LENGTH = 4_000  # values
_COMMON_SAMPLE_RATES = {8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 88_200, 96_000}  # in Hz
_CARD_SAMPLE_RATE, _MAX_CARD_SECONDS, _CARD_SAMPLE_WIDTH = 8_000, 3, 1  # so that a page of 24 cards stays under 1 MB
_MAX_FULL_SECONDS, _FULL_SAMPLE_WIDTH = 60, 2


@dataclass(frozen=True)
class AudioRenderer:
    """Renders waves of one data set, all on the same loudness scale."""

    rate: int | None
    peak: float

    @classmethod
    def of(cls, values: Sequence[Any], hints: DatasetHints) -> AudioRenderer | None:
        """Return the renderer if all values are waves with a known sample rate, else None."""
        pairs = [_split_wave_and_rate(wave) for wave in values]
        waves = [wave for wave, _ in pairs if wave is not None and _is_wave(wave)]
        if len(waves) < len(values) or (hints.sample_rate is None and any(rate is None for _, rate in pairs)):
            return None
        peak = float(np.abs(finite_values(waves)).max(initial=0.0))
        limit = np.iinfo(waves[0].dtype).max if waves[0].dtype.kind == "i" else 1.0
        return cls(hints.sample_rate, max(peak, limit))

    def __call__(self, value: Any, full: bool) -> dict[str, Any]:
        """Render one wave: a card plays its first 3 seconds at 8 kHz, the open sample at most a minute."""
        wave, own_rate = _split_wave_and_rate(value)
        rate = own_rate or self.rate
        assert wave is not None
        assert rate is not None
        rows = wave[None] if wave.ndim == 1 else wave if wave.shape[0] < wave.shape[1] else wave.T
        mono = np.nan_to_num(rows.astype(np.float64)).mean(0) / self.peak
        seconds = len(mono) / rate
        if full:
            src = _wav_data_url(mono[: _MAX_FULL_SECONDS * rate], rate, _FULL_SAMPLE_WIDTH)
        else:
            src = _wav_data_url(*_downsample(mono[: _MAX_CARD_SECONDS * rate], rate), _CARD_SAMPLE_WIDTH)
        return {
            "kind": "audio",
            "src": src,
            "lines": thinned_lines(rows, 2),
            "seconds": round(seconds, 2),
            "rate": rate,
        }


def _split_wave_and_rate(value: Any) -> tuple[Array | None, int | None]:
    """Split a (wave, rate) pair or a Hugging Face audio dictionary into wave and sample rate."""
    if isinstance(value, Mapping) and "array" in value and "sampling_rate" in value:
        return as_array(value["array"]), int(value["sampling_rate"])
    if isinstance(value, (tuple, list)) and len(value) == 2:
        wave, rate = as_array(value[0]), value[1]
        return (wave, int(rate)) if isinstance(rate, (int, float)) and rate in _COMMON_SAMPLE_RATES else (None, None)
    return as_array(value), None


def _is_wave(values: Array) -> bool:
    shape = sorted(values.shape)
    return (
        values.dtype.kind in "fi"
        and 1 <= len(shape) <= 2
        and shape[-1] >= _MIN_WAVE_LENGTH
        and shape[:-1] in ([], [1], [2])
    )


def _downsample(mono: Array, rate: int) -> tuple[Array, int]:
    factor = rate // _CARD_SAMPLE_RATE
    if factor < 2:
        return mono, rate
    from scipy.signal import resample_poly

    return np.asarray(resample_poly(mono, 1, factor)), rate // factor


def _wav_data_url(mono: Array, rate: int, width: int) -> str:
    clipped = np.clip(mono, -1, 1)
    data = (clipped * 127.5 + 127.5).astype(np.uint8) if width == 1 else (clipped * 32767).astype("<i2")
    out = BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(data.tobytes())
    return f"data:audio/wav;base64,{b64encode(out.getvalue()).decode()}"
