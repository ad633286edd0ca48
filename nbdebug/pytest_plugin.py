"""Pytest plugin with the assert_healthy fixture."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nbdebug.report import Report


@pytest.fixture
def assert_healthy() -> Callable[..., Report]:
    """Return ``nbdebug.assert_healthy``, which fails the test with the report of a checkup."""
    import nbdebug

    return nbdebug.assert_healthy
