"""From a cell of the error browser to the sample behind it, and on to the reasons for it, in real JupyterLab."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.lab.lab_page import LabPage
from tests.lab.server import Lab
from tests.lab.test_errors import cards, narrow

SETUP = """
import torch
import nbdebug
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
random = torch.Generator().manual_seed(0)
stripes = torch.rand(60, 1, 12, 12, generator=random).cumsum(3) / 12
loader = DataLoader(TensorDataset(stripes, torch.randint(0, 3, (60,), generator=random)), batch_size=20)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(400, 3))
model[3].bias.data = torch.tensor([3.0, 0.0, 0.0])  # it says a
dbg = nbdebug.Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), class_names=["a", "b", "c"])
"""
SHOW = "errors = dbg.errors()\nerrors"
TOLD = "print([(one.keys, [found.method for _, found in one.computed()]) for one in errors._cache['explain'].values()])"


@pytest.fixture
def opened(jupyter_lab: Lab, notebook: Callable[..., str]) -> Callable[[], LabPage]:
    """A notebook in which an error browser of a model has been made."""
    return lambda: jupyter_lab.open(notebook(SETUP, SHOW, TOLD))  # type: ignore[return-value]


def test_a_cell_leads_to_a_sample_and_the_sample_to_its_reasons(opened: Callable[[], LabPage]) -> None:
    with opened() as lab:
        for cell in (0, 1):
            lab.run_cell(cell)
            lab.wait_idle()
        cards(lab).first.wait_for()
        narrow(lab)
        cards(lab).first.dblclick()
        sample = lab.output(1).locator(".nb-e-detail")
        sample.get_by_role("button", name="Explain this prediction").click()
        sample.locator("canvas").first.wait_for()
        assert "true class c" in sample.locator(".nb-x-head .nb-x-verdict").inner_text()
        sample.get_by_label("method").select_option("occlusion")
        sample.locator(".nb-x-caption", has_text="occlusion").wait_for()
        key = sample.locator(".nb-x-head b").inner_text().removeprefix("sample ")
        lab.run_cell(2)
        lab.wait_idle()
        assert lab.output(2).inner_text().strip() == f"[(({key},), ['expected_gradients', 'occlusion'])]"
