"""Explanations for tests: small models of each kind of input, and a page that the real explanation answers."""

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

from .errors import KERNEL

CLASSES = 3


def debugger(model: nn.Module, x: Tensor, **given: Any) -> Debugger:
    """A debugger of a model as it was made, and samples with classes in turn."""
    data = TensorDataset(x, torch.arange(len(x)) % CLASSES)
    return Debugger(model, DataLoader(data, 16), loss_fn=nn.CrossEntropyLoss(), **given)


def of_pictures(side: int = 8) -> Debugger:
    """Gray pictures and a small CNN."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * side * side, CLASSES))
    return debugger(nn.Sequential(*layers), torch.rand(32, 1, side, side))


def of_rows(features: int = 20, **given: Any) -> Debugger:
    """Rows of a table and an MLP."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Linear(16, CLASSES))
    return debugger(model, torch.randn(32, features), **given)


class Letters(nn.Module):
    """The mean of embeddings of letters."""

    def __init__(self, letters: int) -> None:
        """Makes the layers."""
        super().__init__()
        self.embedding = nn.Embedding(letters, 8)
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(8, CLASSES))

    def forward(self, ids: Tensor) -> Tensor:
        """Ids, rows × places, to scores."""
        scores: Tensor = self.head(self.embedding(ids).mean(1))
        return scores


def of_text(letters: list[str]) -> Explanation:
    """Words of letters in any order."""
    torch.manual_seed(0)
    made = debugger(Letters(len(letters)), torch.randint(len(letters), (32, 6)))
    return made.explain(3, decode=letters)


def of_series() -> Debugger:
    """Two smooth channels, and a convolution over time."""
    torch.manual_seed(0)
    x = (torch.linspace(0, 6, 64) * torch.arange(1, 3)[:, None] + torch.rand(32, 1, 1)).sin()
    return debugger(nn.Sequential(nn.Conv1d(2, 4, 5), nn.GELU(), nn.Flatten(), nn.Linear(240, CLASSES)), x)


def opened(page: Any, result: Explanation, folder: Path, kernel: bool = True) -> Any:
    """The page of an explanation, which asks the explanation itself where there is a ``kernel``."""
    file = folder / "explain.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + static_html(result.view(), "result"), encoding="utf-8")
    page.set_default_timeout(10_000)
    page.goto(file.as_uri())
    page.locator(".nb-x-column").first.wait_for()
    if kernel:
        page.expose_function("python", lambda text: json.dumps(get_response(result, json.loads(text))))
        page.evaluate(KERNEL)
        page.wait_for_function("asked.length > 0")
    return page


def number(text: str) -> float:
    """The first number in a text."""
    found = re.search(r"[-+]?\d[\d.]*(e-?\d+)?", text.replace("\N{MINUS SIGN}", "-"))
    assert found, text
    return float(found[0])
