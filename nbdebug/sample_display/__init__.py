"""Shows samples of a data set as images, text, table rows, time series or sound."""

from __future__ import annotations

from nbdebug.sample_display.samples import SampleDisplay as SampleDisplay

__all__ = ["SampleDisplay"]
