"""Tests that a checkup and watched steps leave small models of the main kinds of architectures as they are."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="transformers is not installed")

from benchmarks.architectures.check import check
from benchmarks.architectures.configs import small_configs
from benchmarks.architectures.models import build_transformers

# The errors that are true of the random model: no image reaches the layers that read images, and an attention over a
# single position has no gradient for its biases.
FAMILIES = {
    "bert": set[str](),
    "t5": set[str](),
    "mixtral": set[str](),
    "levit": {"G416"},
    "funnel": set[str](),
    "llava": {"M301"},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_checkup_and_watch_of_family_neither_fail_nor_change_a_bit(family: str) -> None:
    row = check(build_transformers(family))
    assert row.keys().isdisjoint({"crash", "watch_crash"})
    assert (row["pass_error"], row["watch_errors"]) == ("", "")
    assert (row["failed_rules"], row["watch_failed_rules"]) == ([], [])
    assert (row["changed"], row["steps"]) == ([], "equal")
    assert row["checked_rules"] > 100
    findings = [*row["findings"], *row["watch_findings"]]
    assert {code for code, severity, *_ in findings if severity == "error"} == FAMILIES[family]


def test_small_config_keeps_special_tokens_inside_the_vocabulary() -> None:
    config = next(config for _, config in small_configs("qwen2_vl") if not isinstance(config, Exception))
    assert config.text_config.num_hidden_layers == 2
    assert config.text_config.vocab_size == 128
    assert len({config.image_token_id, config.video_token_id, config.vision_start_token_id}) == 3
    assert max(config.image_token_id, config.text_config.eos_token_id) < 128
