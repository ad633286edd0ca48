"""Debuggers of small models for each kind of input, and pages of their explanations."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug import Debugger
from nbdebug.tools.explain import Explanation
from nbdebug.views.kernel_bridge import get_response
from nbdebug.views.page import static_html
from tests.browser import answer_requests

from .error_browser_pages import FAKE_KERNEL

CLASS_COUNT = 3


def make_debugger(model: nn.Module, x: Tensor, **options: Any) -> Debugger:
    """A debugger of an untrained model and samples whose classes alternate."""
    data = TensorDataset(x, torch.arange(len(x)) % CLASS_COUNT)
    return Debugger(model, DataLoader(data, 16), loss_fn=nn.CrossEntropyLoss(), **options)


def image_debugger(side: int = 8) -> Debugger:
    """Gray images and a small CNN."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * side * side, CLASS_COUNT))
    return make_debugger(nn.Sequential(*layers), torch.rand(32, 1, side, side))


def table_debugger(features: int = 20, **options: Any) -> Debugger:
    """Rows of a table and an MLP."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Linear(16, CLASS_COUNT))
    return make_debugger(model, torch.randn(32, features), **options)


class MeanEmbedding(nn.Module):
    """A classifier of the mean embedding of letters."""

    def __init__(self, letters: int) -> None:
        """Create the layers."""
        super().__init__()
        self.embedding = nn.Embedding(letters, 8)
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(8, CLASS_COUNT))

    def forward(self, ids: Tensor) -> Tensor:
        """Return the scores of ids of shape (rows, length)."""
        scores: Tensor = self.head(self.embedding(ids).mean(1))
        return scores


def text_explanation(letters: list[str]) -> Explanation:
    """An explanation of a sample of random letters."""
    torch.manual_seed(0)
    debugger = make_debugger(MeanEmbedding(len(letters)), torch.randint(len(letters), (32, 6)))
    return debugger.explain(3, decode=letters)


def series_debugger() -> Debugger:
    """Series of two smooth channels and a convolution over time."""
    torch.manual_seed(0)
    x = (torch.linspace(0, 6, 64) * torch.arange(1, 3)[:, None] + torch.rand(32, 1, 1)).sin()
    return make_debugger(nn.Sequential(nn.Conv1d(2, 4, 5), nn.GELU(), nn.Flatten(), nn.Linear(240, CLASS_COUNT)), x)


def open_explanation_page(page: Any, result: Explanation, folder: Path, kernel: bool = True) -> Any:
    """Open the page of an explanation; with ``kernel`` the explanation answers its requests."""
    file = folder / "explain.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + static_html(result.view(), "result"), encoding="utf-8")
    page.set_default_timeout(10_000)
    page.goto(file.as_uri())
    page.locator(".nb-x-column").first.wait_for()
    if kernel:
        answer_requests(page, lambda text: json.dumps(get_response(result, json.loads(text))))
        page.evaluate(FAKE_KERNEL)
        page.wait_for_function("requests.length > 0")
    return page


def first_number(text: str) -> float:
    """The first number in a text."""
    match = re.search(r"[-+]?\d[\d.]*(e-?\d+)?", text.replace("\N{MINUS SIGN}", "-"))
    assert match, text
    return float(match[0])
