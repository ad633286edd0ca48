"""Bisection: which change, which samples or which checkpoint makes training fail."""

from __future__ import annotations

from nbdebug.tools.bisect.result import Bisection
from nbdebug.tools.bisect.tool import bisect

__all__ = ["Bisection", "bisect"]
