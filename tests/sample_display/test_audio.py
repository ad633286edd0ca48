"""Tests of audio."""

from __future__ import annotations

import wave
from base64 import b64decode
from io import BytesIO
from typing import Any

import numpy as np

from nbdebug.sample_display import SampleDisplay


def decode_audio(card: dict[str, Any]) -> tuple[int, int, float]:
    with wave.open(BytesIO(b64decode(card["src"].partition(",")[2]))) as file:
        rate = file.getframerate()
        return rate, file.getsampwidth(), file.getnframes() / rate


def test_audio_is_shortened_on_card_and_complete_in_full() -> None:
    tone = np.sin(np.arange(10 * 16_000) * 0.1).astype(np.float32)
    sources: list[tuple[Any, dict[str, Any]]] = [
        ([(tone, 16_000, 3)] * 2, {}),
        ([{"audio": {"array": tone, "sampling_rate": 16_000}, "label": 1}] * 2, {}),
        (np.stack([tone, tone])[:, None], {"rate": 16_000}),
        ([((tone * 32_000).astype(np.int16), 1)] * 2, {"rate": 16_000}),
    ]
    for source, options in sources:
        samples = SampleDisplay(source, **options)
        card, full = samples.show(0), samples.show(0, full=True)
        assert card["kind"] == "audio"
        assert decode_audio(card) == (8_000, 1, 3.0)
        assert decode_audio(full) == (16_000, 2, 10.0)
        assert len(card["src"]) < 35_000
        assert len(card["lines"][0]) <= 200
    assert SampleDisplay([tone, tone]).show(0)["kind"] == "series"
