"""Tests of the line that makes the data of a loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.setup import Setup
from nbdebug.setup.data_lines import origin_line
from nbdebug.setup.schedule_lines import factor_line
from nbdebug.setup.source_lines import learning_rate_line, option_line, replacement_line

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
    loaders = scope["build"]()
    setup = Setup(nn.Linear(2, 2), *(loaders if isinstance(loaders, tuple) else (loaders,)))
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


COLLATE = """\
class Rows(Dataset):
    def __init__(self): self.rows = [(tokens[i, :-1], tokens[i, 1:]) for i in range(8)]
    def __len__(self): return 8
    def __getitem__(self, i): return self.rows[i]
{function}
def build():
    return DataLoader(Rows(), collate_fn={collate})
"""
BODY = "    x, y = zip(*rows)\n    targets = torch.stack(y)  # here\n    return torch.stack(x), targets\n"
COLLATE_FUNCTIONS = {
    "function": ("def pad(rows):\n" + BODY, "pad"),
    "partial": ("import functools\ndef pad(rows, value):\n" + BODY, "functools.partial(pad, value=0)"),
    "object": ("class Pad:\n    def __call__(self, rows):\n" + BODY.replace("    ", "        "), "Pad()"),
    "method": ("class Pad:\n    def pad(self, rows):\n" + BODY.replace("    ", "        "), "Pad().pad"),
}


@pytest.mark.parametrize("name", COLLATE_FUNCTIONS)
def test_origin_line_of_padded_targets_is_in_the_collate_function(name: str, tmp_path: Path) -> None:
    function, collate = COLLATE_FUNCTIONS[name]
    setup = build_setup(tmp_path, HEADER + COLLATE.format(function=function, collate=collate))
    line = origin_line(setup, "padded targets")
    assert line is not None
    assert line.text.endswith("# here")


# By name: the functions that make the data of both splits, and the text of the line of the values of validation.
SCALINGS = {
    "another method": (
        "class Scaler:\n    def fit(self, x):\n        return x.log()\n    def apply(self, x):\n"
        "        return x / 2\nscaler = Scaler()\n",
        ("scaler.fit(tokens)", "scaler.apply(tokens)"),
        "return x / 2",
    ),
    "the same function": (
        "def scale(x):\n    return x / 2\n",
        ("scale(tokens)", "scale(tokens + 1)"),
        "x_val = scale(tokens + 1)",
    ),
}


@pytest.mark.parametrize("name", SCALINGS)
def test_origin_line_of_validation_values_enters_a_function_of_validation_alone(name: str, tmp_path: Path) -> None:
    functions, (train, val), expected = SCALINGS[name]
    text = (
        f"{functions}def build():\n    x_train = {train}\n    x_val = {val}\n"
        "    return DataLoader(TensorDataset(x_train, tokens)), DataLoader(TensorDataset(x_val, tokens), 4)\n"
    )
    line = origin_line(build_setup(tmp_path, HEADER + text), "validation values")
    assert line is not None
    assert line.text.strip() == expected


@pytest.mark.parametrize(("flag", "expected"), [(True, "train, val = random_split"), (False, "train, val = Tensor")])
def test_origin_line_of_validation_is_in_the_branch_that_makes_its_dataset(
    flag: bool, expected: str, tmp_path: Path
) -> None:
    text = (
        "from torch.utils.data import random_split\ndef build():\n"
        f"    if {flag}:\n        train, val = random_split(TensorDataset(tokens), [6, 2])\n"
        "    else:\n        train, val = TensorDataset(tokens[:6]), TensorDataset(tokens[6:])\n"
        "    return DataLoader(train, shuffle=True), DataLoader(val, batch_size=2)\n"
    )
    line = origin_line(build_setup(tmp_path, HEADER + text), "validation")
    assert line is not None
    assert line.text.strip().startswith(expected)


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


# By name: a sampler with the line that yields its indices, and the call of the loader.
SAMPLERS = {
    "batches by length": (
        "class ByLength(Sampler):\n    mixes = False\n    def __len__(self): return 4\n    def __iter__(self):\n"
        "        if self.mixes:\n            yield [3, 1]\n            return\n"
        "        for start in range(0, 8, 2):\n            yield [start, start + 1]  # here\n",
        "DataLoader(tokens, batch_sampler=ByLength())",
    ),
    "list of indices": (
        "class Sorted(Sampler):\n    def __len__(self): return 8\n    def __iter__(self):\n"
        "        order = sorted(range(8))\n        return iter(order)  # here\n",
        "DataLoader(tokens, batch_size=2, sampler=Sorted())",
    ),
    "sampler of torch": ("", "DataLoader(tokens, batch_size=2, shuffle=True)  # here"),
    "shuffled, not the other one": (
        "other = DataLoader(tokens, batch_size=2)\n",
        "DataLoader(tokens, batch_size=2, shuffle=True)  # here",
    ),
    "not shuffled, unlike the other one": (
        "other = DataLoader(tokens, batch_size=2, shuffle=True)\n",
        "DataLoader(tokens, batch_size=2)  # here",
    ),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_origin_line_of_the_loader_is_that_of_its_order(name: str, tmp_path: Path) -> None:
    body, call = SAMPLERS[name]
    header = HEADER.replace("TensorDataset", "TensorDataset, Sampler")
    line = origin_line(build_setup(tmp_path, f"{header}{body}def build():\n    return {call}\n"), "loader")
    assert line is not None
    assert line.text.endswith("# here")


SPLITS = {
    "random split": (
        "train_set, val_set = random_split(TensorDataset(tokens, tokens), [6, 2])\n",
        "train_set, val_set = random_split(TensorDataset(tokens, tokens), [6, 2])",
    ),
    "function that splits": (
        "def split(data):\n    rows = len(data) - 2\n    return Subset(data, range(rows)), Subset(data, range(2))\n"
        "train_set, val_set = split(TensorDataset(tokens, tokens))\n",
        "return Subset(data, range(rows)), Subset(data, range(2))",
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
    "parts of a split in a dataset": (
        "def split(x, y):\n    return x[:6], x[4:], y[:6], y[4:]\nx, y = tokens, tokens\n"
        "x_train, x_val, y_train, y_val = split(x, y)\n"
        "train_set, val_set = TensorDataset(x_train, y_train), TensorDataset(x_val, y_val)\n",
        "x_train, x_val, y_train, y_val = split(x, y)",
    ),
    "parts in a function of both": (
        "def as_set(x, y):\n    return TensorDataset(x.float(), y)\n"
        "kept, held_out = (tokens, tokens), (tokens, tokens)\n"
        "train_set = as_set(*kept)\nval_set = as_set(*held_out)\n",
        "kept, held_out = (tokens, tokens), (tokens, tokens)",
    ),
    "part that is changed": (
        "x_val = tokens[6:]\nx_train = tokens[:6]\nx_val = x_val / 255\n"
        "train_set, val_set = TensorDataset(x_train), TensorDataset(x_val)\n",
        "x_val = x_val / 255",
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


# By name: an optimizer whose momentum the line with "here" sets.
OPTIONS = {
    "argument": "optimizer = torch.optim.SGD(\n    model.parameters(),\n    0.1,\n    momentum=0.999,  # here\n)\n",
    "dictionary that is unpacked": (
        "options = {\n    'lr': 0.1,\n    'momentum': 0.999,  # here\n}\nother = {'momentum': 0.9}\n"
        "optimizer = torch.optim.SGD(model.parameters(), **options)\n"
    ),
    "call of dict": (
        "class Config:\n    adam = dict(lr=0.1, momentum=0.999)  # here\n"
        "optimizer = torch.optim.SGD(model.parameters(), **Config.adam)\n"
    ),
    "unknown dictionary": (
        'import json\noptions = json.loads(\'{"lr": 0.1, "momentum": 0.999}\')\n'
        "optimizer = torch.optim.SGD(model.parameters(), **options)  # here\n"
    ),
}


OPTIONS |= {
    "computed variable": (
        "rest = 0.001\nmomentum = 1 - rest  # here\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=momentum)\n"
    ),
    "variable of a function": (
        "def smooth(rest):\n    momentum = 1 - rest  # here\n    return momentum\nmomentum = smooth(0.001)\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=momentum)\n"
    ),
    "constant that is passed": (
        "value = 0.999  # here\nmomentum = value\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=momentum)\n"
    ),
    "setting that is passed": (
        "import os\nclass Options:\n    momentum = float(os.environ.get('MOMENTUM', '0.999'))\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=Options.momentum)  # here\n"
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_option_line_sets_the_option_of_an_optimizer(name: str, tmp_path: Path) -> None:
    text = f"model = torch.nn.Linear(2, 2)\n{OPTIONS[name]}def build():\n    return DataLoader(tokens)\n"
    setup = build_setup(tmp_path, HEADER + text)
    optimizer = torch.optim.SGD(setup.model.parameters(), lr=0.1, momentum=0.999)
    line = option_line(setup, optimizer, "momentum", 0.999)
    assert line is not None
    assert line.text.endswith("# here")


def test_option_line_of_computed_groups_is_that_of_their_dictionary(tmp_path: Path) -> None:
    text = (
        "model = torch.nn.Linear(2, 2)\ngroups = []\nfor depth, p in enumerate(model.parameters()):\n"
        "    groups.append({'params': [p], 'lr': 0.1 * 0.5**depth})  # here\n"
        "optimizer = torch.optim.SGD(groups)\ndef build():\n    return DataLoader(tokens)\n"
    )
    setup = build_setup(tmp_path, HEADER + text)
    groups = [{"params": [p], "lr": 0.1 * 0.5**depth} for depth, p in enumerate(setup.model.parameters())]
    line = option_line(setup, torch.optim.SGD(groups), "lr", 0.05)
    assert line is not None
    assert line.text.endswith("# here")


# By name: what happens after an optimizer was created with a rate of 2e-3. The line with "here" gave it another one.
CHANGED_RATES = {
    "state of an earlier run": (
        "old = torch.optim.Adam(model.parameters(), lr=1e-7)\noptimizer.load_state_dict(old.state_dict())  # here\n"
        "if model is None:\n    optimizer.param_groups[0]['lr'] = 2e-3\n"
    ),
    "group set by hand": "for group in optimizer.param_groups:\n    group['lr'] = 1e-7  # here\n",
    "attribute of a trainer": (
        "class Trainer:\n    def fit(self): pass\ntrainer = Trainer()\ntrainer.adam, optimizer = optimizer, None\n"
        "state = trainer.adam.state_dict()\nstate['param_groups'][0].update(lr=1e-7)\n"
        "model.load_state_dict(model.state_dict())\ntrainer.adam.load_state_dict(state)  # here\n"
        "optimizer = trainer.adam\n"
    ),
}


@pytest.mark.parametrize("name", CHANGED_RATES)
def test_learning_rate_line_is_that_of_a_later_change(name: str, tmp_path: Path) -> None:
    text = (
        "model = torch.nn.Linear(2, 2)\noptimizer = torch.optim.Adam(model.parameters(), lr=2e-3)\n"
        f"{CHANGED_RATES[name]}def build():\n    build.optimizer = optimizer\n    return DataLoader(tokens)\n"
    )
    setup = build_setup(tmp_path, HEADER + text)
    scope: dict[str, Any] = {"__name__": "program"}
    exec(compile(HEADER + text, str(tmp_path / "program.py"), "exec"), scope)
    setup.optimizers = (scope["optimizer"],)
    line = learning_rate_line(setup, 1e-7)
    assert line is not None
    assert line.text.endswith("# here")
    created = learning_rate_line(setup, 2e-3)
    assert created is not None
    assert created.number == 5


# By name: a program whose line with "here" replaces what the optimizer holds.
REPLACED = {
    "the model": (
        "model = torch.nn.Linear(2, 2)\noptimizer = torch.optim.Adam(model.parameters())\n"
        "model = torch.nn.Linear(2, 2)  # here\n"
    ),
    "a copy of the model": (
        "import copy\nclass Run: pass\nrun = Run()\nrun.model = torch.nn.Linear(2, 2)\n"
        "optimizer = torch.optim.Adam([{'params': run.model.parameters()}])\n"
        "run.model = copy.deepcopy(run.model)  # here\nmodel = run.model\n"
    ),
    "the weights of all layers": (
        "model = torch.nn.Linear(2, 2)\noptimizer = torch.optim.Adam(model.parameters())\n"
        "for layer in model.modules():\n    layer.weight = torch.nn.Parameter(torch.ones(2, 2))  # here\n"
    ),
    "nothing later": (
        "model = torch.nn.Linear(2, 2)\nmodel = torch.nn.Linear(2, 2)\n"
        "optimizer = torch.optim.Adam(model.parameters())\n"
    ),
}


@pytest.mark.parametrize("name", REPLACED)
def test_replacement_line_replaces_what_the_optimizer_holds(name: str, tmp_path: Path) -> None:
    text = f"{REPLACED[name]}def build():\n    build.made = model, optimizer\n    return DataLoader(tokens)\n"
    setup = build_setup(tmp_path, HEADER + text)
    scope: dict[str, Any] = {"__name__": "program"}
    exec(compile(HEADER + text, str(tmp_path / "program.py"), "exec"), scope)
    line = replacement_line(setup, scope["optimizer"], "", "weight")
    texts = [source for source in text.splitlines() if source.endswith("# here")]
    assert ([line.text] if line else []) == texts
