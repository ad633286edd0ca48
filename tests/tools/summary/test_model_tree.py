"""Tests of the tree of a model in plain HTML."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from nbdebug.tools.summary.model_tree import model_tree
from nbdebug.tools.summary.tool import describe_modules, summary
from tests.tools.summary.summaries import MismatchedLayers, make_debugger, make_loader


def lines(page: str) -> list[str]:
    """Return the texts of the lines of a tree."""
    page = re.sub(r"<style>.*?</style>", "", page)
    return [re.sub("<[^>]*>", " ", line).strip() for line in re.findall("<p>(.*?)</p>", page)]


def line_of(page: str, name: str) -> str:
    """Return the words of the line of a module, joined by single spaces."""
    return next(" ".join(line.split()) for line in lines(page) if line.startswith(name))


def many_layers(count: int) -> nn.Sequential:
    """Return blocks of two layers, of which no neighbors are alike."""
    return nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), (nn.Tanh, nn.ReLU)[i % 2]()) for i in range(count)))


def test_lines_say_shapes_sizes_modes_groups_gradients_and_findings() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 3), nn.Softmax(dim=1))
    model[1].eval()
    dbg = make_debugger(model, torch.optim.SGD(model[2].parameters(), lr=0.5))
    dbg.checkup()
    inputs, targets = next(iter(make_loader()))
    nn.functional.cross_entropy(model(inputs), targets).backward()
    page = dbg._repr_html_()
    squares = [float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None]
    share = round(100 * sum(squares[:2]) / sum(squares))
    # 40 parameters and their gradients of 4 bytes each, and 8 x 8 outputs.
    assert line_of(page, "0").startswith("0 Linear · 40 in no group ✕ O503 parameter-not-optimized ")
    assert line_of(page, "0").endswith(f" [8, 4] → [8, 8] 40 576 B {share}%")
    assert line_of(page, "1") == "1 Dropout · eval [8, 8] → [8, 8] 256 B"
    assert line_of(page, "2").startswith("2 Linear · SGD, lr 0.5 ")
    assert "✕ L201 softmax-before-cross-entropy" in line_of(page, "3")


def test_siblings_that_are_alike_share_a_line_and_their_range_of_gradients() -> None:
    blocks = [nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(6)]
    blocks[3].requires_grad_(False)
    page = model_tree(describe_modules(nn.Sequential(*blocks), []))
    names = [line.split("Sequential")[0].strip() for line in lines(page) if "Sequential" in line]
    assert names == ["", "0 … 2", "3", "4", "5"]
    assert "3 alike" in line_of(page, "0 …")
    assert "frozen" in line_of(page, "3")
    for block, gradient in zip(blocks, (0, 1, 2), strict=False):
        block[0].weight.grad = gradient * torch.ones(4, 4)
    assert line_of(model_tree(describe_modules(nn.Sequential(*blocks), [])), "0 …").endswith("0% – 80%")


@pytest.mark.parametrize("count", [1, 100, 800])
def test_page_has_at_most_15_kb_and_keeps_faults(count: int) -> None:
    model = nn.Sequential(many_layers(count), MismatchedLayers())
    dbg = make_debugger(model, loader=[(torch.randn(2, 4), torch.zeros(2, dtype=torch.long))])
    page = model_tree(summary(dbg.setup, reads_values=False))
    assert len(page.encode()) <= 15_000
    hidden = re.search(r"and ([\d,]+) more lines", page)
    assert len(lines(page)) - 1 + int(hidden[1].replace(",", "") if hidden else 0) == len(list(model.modules()))
    assert "raised" in line_of(page, "second")


def test_names_of_modules_are_escaped() -> None:
    class Layer(nn.Linear): ...

    Layer.__name__ = "<script>"
    model = nn.Sequential()
    model.add_module("<b onclick=1>", Layer(2, 2))
    page = model_tree(describe_modules(model, []))
    assert "<script" not in page
    assert "<b onclick" not in page


def test_lazy_sparse_shared_and_empty_modules_have_lines() -> None:
    shared, sparse = nn.Linear(4, 4), nn.Embedding(5, 4, sparse=True)
    sparse(torch.tensor([1])).sum().backward()
    for model in (
        nn.Sequential(shared, shared),
        nn.LazyLinear(3),
        sparse,
        nn.Identity(),
        nn.Linear(2, 2, device="meta"),
    ):
        assert len(lines(model_tree(describe_modules(model, [])))) == 1 + len(
            list(model.named_modules(remove_duplicate=False))
        )
