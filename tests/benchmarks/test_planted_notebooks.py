"""Some of the notebooks with a planted mistake, in a kernel, with their fixes as pasted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.notebooks.__main__ import examine
from benchmarks.notebooks.kernel_session import KernelSession, open_kernel
from benchmarks.notebooks.planted import load_notebooks


@pytest.fixture(scope="module")
def session() -> Iterator[KernelSession]:
    with open_kernel() as session:
        yield session


def test_planted_notebooks_are_25_in_five_styles() -> None:
    notebooks = list(load_notebooks())
    assert len(notebooks) == 25
    assert len({notebook.style for notebook in notebooks}) == 5
    assert all(notebook.cells(planted=True) != notebook.cells(planted=False) for notebook in notebooks)


@pytest.mark.parametrize("name", ["cells_digits_softmax", "trainer_waves_batch_first", "tqdm_wine_model_built_again"])
def test_first_fault_of_planted_notebook_is_right_and_its_fix_brings_the_twin(
    session: KernelSession, name: str
) -> None:
    (notebook,) = load_notebooks(name)
    outcome = examine(session, notebook)
    assert outcome.is_right
    assert outcome.brings_twin
    assert outcome.false == []
