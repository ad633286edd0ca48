"""A batch-size search that several test modules read."""

from __future__ import annotations

import pytest

from nbdebug.tools.batch_size import BatchSize, batch_size
from tests.tools.batch_size.wide_network import wide_network_setup


@pytest.fixture(scope="session")
def complete_result() -> BatchSize:
    """The result of a search that ends with the data."""
    return batch_size(wide_network_setup(), seconds=20)
