"""Fixture of the tests of the profile: the real time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clock import real_time


@pytest.fixture(autouse=True)
def with_real_time() -> Iterator[None]:
    with real_time():
        yield
