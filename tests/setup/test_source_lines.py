"""Tests of the line that makes the data of a loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.setup import Setup
from nbdebug.setup.source_lines import factor_line, origin_line

HEADER = """\
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset
tokens = torch.arange(80).view(8, 10)
"""

# By name: the program, and the text of the lines that make inputs and targets; None for no line.
PROGRAMS: dict[str, tuple[str, str | None, str | None]] = {
    "tensor dataset": (
        "def build():\n    x = tokens[:, :-1]\n    y = tokens[:, 1:]\n"
        "    data = TensorDataset(x, y)\n    return DataLoader(data)\n",
        "x = tokens[:, :-1]",
        "y = tokens[:, 1:]",
    ),
    "tensors in the call, on lines of their own": (
        "def build():\n    return DataLoader(TensorDataset(\n        tokens[:, :-1],\n        tokens[:, 1:],\n    ))\n",
        "tokens[:, :-1],",
        "tokens[:, 1:],",
    ),
    "subset": (
        "def build():\n    data = TensorDataset(tokens[:, :-1], tokens[:, 1:])\n"
        "    return DataLoader(Subset(data, range(4)))\n",
        "data = TensorDataset(tokens[:, :-1], tokens[:, 1:])",
        "data = TensorDataset(tokens[:, :-1], tokens[:, 1:])",
    ),
    "dataset of the user": (
        "class Pairs(Dataset):\n    def __len__(self): return 8\n    def __getitem__(self, i):\n"
        "        row = tokens[i]\n        x, y = row[:-1], row[1:]\n        return x, y\n"
        "def build():\n    return DataLoader(Pairs())\n",
        "x, y = row[:-1], row[1:]",
        "x, y = row[:-1], row[1:]",
    ),
    "stream": (
        "class Stream(IterableDataset):\n    def __iter__(self):\n        for row in tokens:\n"
        "            yield row[:-1], row[1:]\ndef build():\n    return DataLoader(Stream())\n",
        "yield row[:-1], row[1:]",
        "yield row[:-1], row[1:]",
    ),
    "collate function of single rows": (
        "def collate(rows):\n    rows = torch.stack(rows)\n    return (rows[:, :-1],\n            rows[:, 1:])\n"
        "def build():\n    return DataLoader(list(tokens), collate_fn=collate)\n",
        "return (rows[:, :-1],",
        "rows[:, 1:])",
    ),
    "collate function as a lambda": (
        "def build():\n    return DataLoader(tokens, batch_size=2,\n"
        "        collate_fn=lambda rows: (torch.stack(rows)[:, :-1], torch.stack(rows)[:, 1:]))\n",
        "collate_fn=lambda rows: (torch.stack(rows)[:, :-1], torch.stack(rows)[:, 1:]))",
        "collate_fn=lambda rows: (torch.stack(rows)[:, :-1], torch.stack(rows)[:, 1:]))",
    ),
    "collate function of pairs": (
        "class Pairs(Dataset):\n    def __len__(self): return 8\n    def __getitem__(self, i):\n"
        "        return tokens[i][:-1], tokens[i][1:]\n"
        "def collate(pairs):\n    x, y = zip(*pairs)\n    return torch.stack(x), torch.stack(y)\n"
        "def build():\n    return DataLoader(Pairs(), collate_fn=collate)\n",
        "return tokens[i][:-1], tokens[i][1:]",
        "return tokens[i][:-1], tokens[i][1:]",
    ),
    "rows of what a function returns": (
        "def shift(rows):\n    return (rows[:, :-1],\n            rows[:, 1:])\n"
        "def build():\n    x, y = shift(tokens)\n    return DataLoader(TensorDataset(x[:6], y[:6]))\n",
        "return (rows[:, :-1],",
        "rows[:, 1:])",
    ),
    "dictionary": (
        "class Rows(Dataset):\n    def __len__(self): return 8\n    def __getitem__(self, i):\n"
        "        return {'text': tokens[i][:-1],\n                'label': tokens[i][1:]}\n"
        "def build():\n    return DataLoader(Rows())\n",
        "return {'text': tokens[i][:-1],",
        "'label': tokens[i][1:]}",
    ),
    "change that a choice may skip": (
        "class Rows(Dataset):\n    def __len__(self): return 8\n    def __getitem__(self, i):\n"
        "        x = tokens[i]\n        y = x[0]\n        if i > 9:\n            x = x + 1\n        return x, y\n"
        "def build():\n    return DataLoader(Rows())\n",
        "return x, y",
        "y = x[0]",
    ),
    "argument that the dataset stores": (
        "class Pairs(Dataset):\n    def __init__(self, inputs, labels):\n        self.inputs = inputs.float()\n"
        "        self.labels = labels\n    def __len__(self): return 8\n"
        "    def __getitem__(self, i):\n        return self.inputs[i], self.labels[i]\n"
        "def build():\n    targets = tokens.flip(0)\n    return DataLoader(Pairs(tokens, targets))\n",
        "self.inputs = inputs.float()",
        "targets = tokens.flip(0)",
    ),
    "mapping of the dataset": (
        "class Names(Dataset):\n    def __init__(self):\n        self.names = ['b', 'a'] * 4\n"
        "        self.numbers = {name: i for i, name in enumerate(self.names)}\n    def __len__(self): return 8\n"
        "    def __getitem__(self, i):\n        return tokens[i], self.numbers[self.names[i]]\n"
        "def build():\n    return DataLoader(Names())\n",
        "return tokens[i], self.numbers[self.names[i]]",
        "self.numbers = {name: i for i, name in enumerate(self.names)}",
    ),
    "part of a stored row": (
        "class Rows(Dataset):\n    def __init__(self):\n        self.rows = tokens\n    def __len__(self): return 8\n"
        "    def __getitem__(self, i):\n        return self.rows[i, :-1], self.rows[i, 1:]\n"
        "def build():\n    return DataLoader(Rows())\n",
        "return self.rows[i, :-1], self.rows[i, 1:]",
        "return self.rows[i, :-1], self.rows[i, 1:]",
    ),
    "one of two equal calls": (
        "def other():\n    return DataLoader(TensorDataset(tokens, tokens))\n"
        "def build():\n    return DataLoader(TensorDataset(tokens, tokens))\n",
        None,
        None,
    ),
}


def build_setup(tmp_path: Path, text: str) -> Setup:
    file = tmp_path / "program.py"
    file.write_text(text, encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, str(file), "exec"), scope)
    setup = Setup(nn.Linear(2, 2), scope["build"]())
    setup.files = {str(file)}
    return setup


@pytest.mark.parametrize("name", PROGRAMS)
def test_origin_line_of_inputs_and_targets_is_the_line_that_makes_them(name: str, tmp_path: Path) -> None:
    body, inputs, targets = PROGRAMS[name]
    setup = build_setup(tmp_path, HEADER + body)
    lines = origin_line(setup, "inputs"), origin_line(setup, "targets")
    assert [line.text.strip() if line else None for line in lines] == [inputs, targets]


# By name: the program, and the text of the line that decides the order of the targets.
ORDERS = {
    "helper before the conversion": (
        "def clean(x, y):\n    kept = x[::2]\n    return kept, y[: len(kept)]\n"
        "def build():\n    x, y = clean(tokens, tokens)\n    x, y = torch.as_tensor(x), torch.as_tensor(y)\n"
        "    return DataLoader(TensorDataset(x, y))\n",
        "return kept, y[: len(kept)]",
    ),
    "conversion of the dtype": (
        "def build():\n    x = tokens\n    y = tokens[torch.randperm(8)]\n    labels = y.float().clone()\n"
        "    return DataLoader(TensorDataset(x, labels))\n",
        "y = tokens[torch.randperm(8)]",
    ),
    "operation with an argument": (
        "def build():\n    x = tokens\n    y = x.roll(1, 0)\n    labels = torch.as_tensor(y + 1)\n"
        "    return DataLoader(TensorDataset(x, labels))\n",
        "labels = torch.as_tensor(y + 1)",
    ),
    "dataset of the user": (
        "class Pairs(Dataset):\n    def __init__(self, rows):\n        self.rows = rows\n"
        "        self.labels = torch.tensor(sorted(rows[:, 0].tolist()))\n    def __len__(self): return 8\n"
        "    def __getitem__(self, i):\n        return self.rows[i], self.labels[i]\n"
        "def build():\n    return DataLoader(Pairs(tokens))\n",
        "self.labels = torch.tensor(sorted(rows[:, 0].tolist()))",
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_origin_line_of_the_target_order_passes_conversions(name: str, tmp_path: Path) -> None:
    body, expected = ORDERS[name]
    line = origin_line(build_setup(tmp_path, HEADER + body), "target order")
    assert line is not None
    assert line.text.strip() == expected


def test_origin_line_of_validation_data_and_loss_is_the_line_that_makes_them(tmp_path: Path) -> None:
    text = (
        "def build():\n    train_loader = DataLoader(TensorDataset(tokens))\n"
        "    return train_loader\nval_loader = DataLoader(TensorDataset(tokens), batch_size=4)\n"
        "loss_fn = torch.nn.MSELoss(reduction='sum')\n"
    )
    setup = build_setup(tmp_path, HEADER + text)
    scope: dict[str, Any] = {}
    exec(compile(HEADER + text, str(tmp_path / "program.py"), "exec"), scope)
    setup.val_loader, setup.loss_fn = scope["val_loader"], torch.nn.MSELoss(reduction="sum")
    lines = origin_line(setup, "loader", "val"), origin_line(setup, "validation"), origin_line(setup, "loss")
    assert [line.number if line else None for line in lines] == [7, 7, 8]


SPLITS = {
    "random split": (
        "train_set, val_set = random_split(TensorDataset(tokens, tokens), [6, 2])\n",
        "train_set, val_set = random_split(TensorDataset(tokens, tokens), [6, 2])",
    ),
    "function that splits": (
        "def split(data):\n    rows = len(data) - 2\n    return Subset(data, range(rows)), Subset(data, range(2))\n"
        "train_set, val_set = split(TensorDataset(tokens, tokens))\n",
        "train_set, val_set = split(TensorDataset(tokens, tokens))",
    ),
    "function of both parts": (
        "def joined(first, second):\n    return TensorDataset(torch.cat([first, second]))\n"
        "train_set = TensorDataset(tokens[:6])\nval_set = joined(tokens[6:], tokens[:2])\n",
        "val_set = joined(tokens[6:], tokens[:2])",
    ),
    "function without data": (
        "def held_out(count):\n    return TensorDataset(tokens[-count:])\n"
        "train_set = TensorDataset(tokens[:6])\nval_set = held_out(2)\n",
        "return TensorDataset(tokens[-count:])",
    ),
    "dataset of the user": (
        "class Rows(Dataset):\n    def __init__(self, rows): self.rows = rows\n    def __len__(self): return 2\n"
        "    def __getitem__(self, i): return self.rows[i]\n"
        "train_set = Rows(tokens[:6])\nval_set = Rows(tokens[6:])\n",
        "val_set = Rows(tokens[6:])",
    ),
}


@pytest.mark.parametrize("name", SPLITS)
def test_origin_line_of_validation_is_the_line_that_selects_its_samples(name: str, tmp_path: Path) -> None:
    body, expected = SPLITS[name]
    loaders = "    train, val = DataLoader(train_set, batch_size=2), DataLoader(val_set)\n    return [train, val]\n"
    header = HEADER.replace("TensorDataset", "TensorDataset, random_split")
    setup = build_setup(tmp_path, f"{header}{body}def build():\n{loaders}")
    setup.train_loader, setup.val_loader = setup.train_loader
    line = origin_line(setup, "validation")
    assert line is not None
    assert line.text.strip() == expected


def one_thousandth(step: int) -> float:
    return 0.001 / (1 + step)


class Warmup:
    """A schedule as an object."""

    def __call__(self, step: int) -> float:
        return 0.001 * (1 + step)


@pytest.mark.parametrize("factor", [one_thousandth, Warmup(), Warmup().__call__])
def test_factor_line_is_that_of_the_function_of_a_schedule(factor: Any) -> None:
    optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
    line = factor_line(torch.optim.lr_scheduler.LambdaLR(optimizer, factor))
    assert line is not None
    assert line.text.strip().startswith("return 0.001")
