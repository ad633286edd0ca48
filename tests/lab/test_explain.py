"""Test of the explanation of a sample that was selected in the error browser, in JupyterLab."""

from __future__ import annotations

from tests.lab.error_browser import gallery_cards, select_confusion_of_c_as_a
from tests.lab.lab_page import OpenNotebook

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
model[3].bias.data = torch.tensor([3.0, 0.0, 0.0])  # always predicts a
dbg = nbdebug.Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), class_names=["a", "b", "c"])
"""
SHOW = "errors = dbg.errors()\nerrors"
PRINT_METHODS = """
cached = errors._cache["explain"].values()
print([(entry.keys, [attribution.method for _, attribution in entry.computed()]) for entry in cached])
"""


def test_explain_button_of_selected_sample_shows_attribution(open_notebook: OpenNotebook) -> None:
    with open_notebook(SETUP, SHOW, PRINT_METHODS) as lab:
        lab.run_cells(0, 1)
        gallery_cards(lab).first.wait_for()
        select_confusion_of_c_as_a(lab)
        gallery_cards(lab).first.dblclick()
        sample = lab.output(1).locator(".nb-e-detail")
        sample.get_by_role("button", name="Explain this prediction").click()
        sample.locator("canvas").first.wait_for()
        assert "true class c" in sample.locator(".nb-x-head .nb-x-verdict").inner_text()
        sample.get_by_label("method").select_option("occlusion")
        sample.locator(".nb-x-caption", has_text="occlusion").wait_for()
        key = sample.locator(".nb-x-head b").inner_text().removeprefix("sample ")
        lab.run_cells(2)
        assert lab.output(2).inner_text().strip() == f"[(({key},), ['expected_gradients', 'occlusion'])]"
