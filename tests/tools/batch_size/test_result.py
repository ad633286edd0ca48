"""Tests of the result of a batch-size search."""

from __future__ import annotations

from nbdebug.tools.batch_size import BatchSize
from nbdebug.views.page import static_html


def test_batch_size_result_has_text_code_frame_plot_and_page(complete_result: BatchSize) -> None:
    assert complete_result.suggestion in [measurement.size for measurement in complete_result.sizes]
    assert f"Suggested batch size {complete_result.suggestion}" in str(complete_result)
    assert f"batch_size={complete_result.suggestion}, shuffle=True" in complete_result.code
    assert "Memory was measured by tracking every tensor" in str(complete_result)
    assert list(complete_result.to_frame()["size"]) == [8, 16, 32, 64, 128, 256]
    assert complete_result.plot().get_xlabel() == "batch size"
    page = static_html(complete_result.view())
    assert len(page) < 40_000
    assert "suggested" in complete_result.view().html()
