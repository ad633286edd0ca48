"""The fixture ``assert_healthy`` for pytest, there wherever nbdebug is installed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nbdebug.report import Report


@pytest.fixture
def assert_healthy() -> Callable[..., Report]:
    """A function that fails the test with the report of a checkup; takes what ``nbdebug.assert_healthy`` takes."""
    import nbdebug

    return nbdebug.assert_healthy
