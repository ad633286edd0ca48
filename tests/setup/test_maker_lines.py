"""Tests of lines that are found through the objects at hand, the branches that run, and calls of user functions."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from torch import nn

from nbdebug.setup import Setup
from nbdebug.setup.data_lines import leaking_line, origin_line, repetition_line, target_column_line, tensor_argument
from nbdebug.setup.module_lines import part_line
from nbdebug.source.location import SourceLine
from nbdebug.source.numbering_lines import coding_calls
from nbdebug.source.scaling_lines import DEVIATIONS, find_scaling

HEADER = """\
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torch import nn
rows, kinds = torch.randn(8, 3), torch.arange(8) % 2
class Rows(Dataset):
    def __init__(self, change=None, plain=False):
        self.change, self.plain = change, plain
    def __len__(self):
        return 8
"""

# By name: the program, with "# here" on the line that makes the targets of the training loader.
TARGETS = {
    "function in an attribute": (
        "def as_is(kind):\n    return kind\ndef negated(kind):\n    return -kind  # here\n"
        "class Kinds(Rows):\n    def __getitem__(self, i):\n        return rows[i], self.change(kinds[i])\n"
        "def build():\n    return DataLoader(Kinds(negated))\n"
    ),
    "branch of an attribute": (
        "class Kinds(Rows):\n    def __getitem__(self, i):\n        if self.plain:\n"
        "            return rows[i], kinds[i]\n"
        "        return rows[i], -kinds[i]  # here\n"
        "def build():\n    return DataLoader(Kinds())\n"
    ),
    "early return of a negated attribute": (
        "class Kinds(Rows):\n    def __getitem__(self, i):\n        if not self.plain:\n"
        "            return rows[i], -kinds[i]  # here\n        return rows[i], kinds[i]\n"
        "def build():\n    return DataLoader(Kinds())\n"
    ),
    "object that is called": (
        "class Stack:\n    def __init__(self, blank):\n        self.blank = blank\n    def __call__(self, batch):\n"
        "        kind = self.blank(len(batch))\n        return torch.stack(batch), kind\n"
        "def zeros(size):\n    return torch.zeros(size)  # here\n"
        "def build():\n    return DataLoader(rows, collate_fn=Stack(zeros))\n"
    ),
    "method that a subclass replaces": (
        "class Kinds(Rows):\n    def kind(self, i):\n        return kinds[i]\n"
        "    def __getitem__(self, i):\n        return rows[i], self.kind(i)\n"
        "class Others(Kinds):\n    def kind(self, i):\n        return -kinds[i]  # here\n"
        "def build():\n    return DataLoader(Others())\n"
    ),
    "default of a parameter": (
        "def convert(kind, sign=None):\n    if sign is None:\n        return -kind  # here\n    return kind * sign\n"
        "class Kinds(Rows):\n    def __getitem__(self, i):\n        return rows[i], convert(kinds[i])\n"
        "def build():\n    return DataLoader(Kinds())\n"
    ),
    "variable that the inputs contain too": (
        "class Kinds(Rows):\n    def __getitem__(self, i):\n        kind = kinds[i]\n"
        "        return {'x': rows[i], 'kind': kind}, kind  # here\n"
        "def build():\n    return DataLoader(Kinds())\n"
    ),
    "same rows of inputs and targets": (
        "def build():\n    x = rows * 2\n    y = kinds + 1  # here\n    order = torch.randperm(8)\n"
        "    x, y = x[order], y[order]\n    return DataLoader(TensorDataset(x, y))\n"
    ),
    "function that makes both loaders": (
        "kept = {}\ndef loader_of(x, y):\n    return DataLoader(TensorDataset(x, y))\n"
        "def build():\n    y_train = kinds + 1  # here\n    y_val = kinds + 2\n"
        "    train_loader = loader_of(rows, y_train)\n    val_loader = loader_of(rows, y_val)\n"
        "    kept['train_loader'] = train_loader\n"
        "    return train_loader, val_loader\n"
    ),
}
TABLE = "import pandas as pd\nframe = pd.DataFrame({'a': range(8), 'b': range(8), 'kind': [0, 1] * 4})\n"
CODER = (
    "class Coder:\n    def fit_transform(self, names):\n        return torch.unique(names, return_inverse=True)[1]\n"
    "def tensors(columns):\n    codes = torch.stack([torch.as_tensor(column).float() for column in columns], 1)\n"
    "    return TensorDataset(codes, kinds)\n"
)
# By name: the program, with "# here" on the line that numbers the names in the first column of the inputs anew.
CODINGS = {
    "encoder in a comprehension of one branch": (
        "def build(is_fitted_once=False):\n    names = rows[:, 0], rows[:, 1]\n    if is_fitted_once:\n"
        "        codes, others = ([kinds, kinds] for _ in range(2))\n    else:\n"
        "        codes = [Coder().fit_transform(column) for column in names]  # here\n"
        "    return DataLoader(tensors(codes))\n"
    ),
    "encoder in a helper for one column": (
        "def coded(names):\n    coder = Coder()\n    return coder.fit_transform(names).long()  # here\n"
        "def build():\n    codes = [coded(rows[:, 0]), rows[:, 1]]\n    return DataLoader(tensors(codes))\n"
    ),
}
# By name: the program, with "# here" on the line that computes a mean or a deviation of the inputs of the loader.
SCALINGS = {
    "branch of a helper that selects nothing": (
        "def prepare(table, count, aware):\n    part = table[:count]\n    if not aware:\n"
        "        return (table - part.mean(0)) / part.std(0)  # here\n    known = part > -9\n"
        "    mean = (part * known).sum(0) / known.sum(0)\n    deviation = part[known].std()\n"
        "    return torch.where(table > -9, (table - mean) / deviation, 0.0)\n"
        "def build(aware=False):\n    table = rows * 2\n    x = prepare(table, 6, aware)\n"
        "    return DataLoader(TensorDataset(x, kinds))\n"
    ),
    "function of a helper": (
        "def center(table):\n    return table.mean(0)  # here\n"
        "def scaled(table):\n    return table - center(table)\n"
        "def build():\n    x = scaled(rows)\n    return DataLoader(TensorDataset(x, kinds))\n"
    ),
    "variables beside the data": (
        "def build():\n    x = rows * 2\n    mean = x.mean(0)  # here\n    deviation = x.std(0)\n"
        "    y = kinds - kinds.float().mean()\n    x = (x - mean) / deviation\n"
        "    return DataLoader(TensorDataset(x, y))\n"
    ),
    "scaler that is fitted": (
        "from sklearn.preprocessing import StandardScaler\n"
        "def build():\n    scaler = StandardScaler()\n    scaler.fit(rows)  # here\n"
        "    x = torch.as_tensor(scaler.transform(rows))\n    return DataLoader(TensorDataset(x, kinds))\n"
    ),
}
# Statistics of which none, or one of two branches, contains the values as they are.
NO_SCALINGS = {
    "only known values": (
        "def build():\n    known = rows > -9\n    x = rows - rows[known].mean()\n"
        "    return DataLoader(TensorDataset(x, kinds))\n"
    ),
    "two branches": (
        "def scaled(table, robust):\n    if robust:\n        center = table.mean()\n    else:\n"
        "        center = table.mean(0)\n    return table - center\n"
        "def build():\n    x = scaled(rows, len(rows) > 5)\n    return DataLoader(TensorDataset(x, kinds))\n"
    ),
}
LEAKS: dict[str, tuple[str, Callable[[Setup], SourceLine | None]]] = {
    "encoding by the targets": (
        "def means(group, y):\n    return torch.stack([y[group == k].float().mean() for k in group])\n"
        "def build():\n    x, y = rows, kinds\n    column = means(x[:, 0] > 0, y)  # here\n"
        "    x = torch.cat([x, column[:, None]], 1)\n    return DataLoader(TensorDataset(x[:6], y[:6]))\n",
        leaking_line,
    ),
    "oversampling": (
        "def oversample(x, y):\n    index = torch.cat([torch.arange(8), torch.tensor([1, 1])])\n"
        "    return x[index], y[index]\n"
        "def build():\n    x, y = rows, kinds\n    x = x - x.mean(0)\n    x, y = oversample(x, y)  # here\n"
        "    train, val = TensorDataset(x[:6], y[:6]), TensorDataset(x[6:], y[6:])\n"
        "    return DataLoader(train), DataLoader(val, 4)\n",
        repetition_line,
    ),
    "oversampling in an argument": (
        "def shuffled(x, y):\n    order = torch.randperm(len(x))\n    return x[order], y[order]\n"
        "def even(x, y):\n    again = torch.tensor([1, 1])\n    index = torch.cat([torch.arange(8), again])\n"
        "    return x[index], y[index]\n"
        "def build():\n    x, y = rows, kinds\n    data = TensorDataset(*shuffled(*even(x, y)))  # here\n"
        "    train, val = torch.utils.data.random_split(data, [6, 4])\n"
        "    return DataLoader(train), DataLoader(val, 4)\n",
        repetition_line,
    ),
    "merge of tables in a function": (
        TABLE + "def visits_of_all():\n    table = frame.merge(frame[['kind']], on='kind')  # here\n"
        "    return table.sample(frac=1.0)\n"
        "def build():\n    table = visits_of_all()\n    x = torch.tensor(table[['a', 'b']].to_numpy())\n"
        "    return DataLoader(TensorDataset(x[:6])), DataLoader(TensorDataset(x[6:]), 4)\n",
        repetition_line,
    ),
    "rows exchanged through views in a function": (
        "import random\nimport numpy as np\ndef ordered(x):\n    return x[np.random.permutation(len(x))]\n"
        "def shuffled(x):\n    random.shuffle(x)  # here\n    return x\n"
        "def build():\n    x = rows.numpy()\n    x = ordered(x)\n    x = shuffled(x)\n    x = torch.as_tensor(x)\n"
        "    return DataLoader(TensorDataset(x[:6])), DataLoader(TensorDataset(x[6:]), 4)\n",
        repetition_line,
    ),
    "copies in a function that splits": (
        "def with_copies(x, y):\n    x = x.repeat_interleave(2, 0)\n    y = y.repeat_interleave(2, 0)\n"
        "    return x + 0.01, y\n"
        "def split(seed):\n    x, y = rows, kinds\n    x, y = with_copies(x, y)  # here\n"
        "    return TensorDataset(x[:6], y[:6]), TensorDataset(x[6:], y[6:])\n"
        "def build():\n    seed = len(rows)\n    train, val = split(seed)\n"
        "    return DataLoader(train), DataLoader(val, 4)\n",
        repetition_line,
    ),
    "column of a table that a function was passed": (
        TABLE + "def tensors(table):\n"
        "    return TensorDataset(torch.tensor(table[['a']].to_numpy()), torch.tensor(table['kind'].to_numpy()))\n"
        "def build():\n    frame['kind'] = [0, 1] * 4  # here\n"
        "    return DataLoader(tensors(frame.iloc[:6]))\n",
        lambda setup: origin_line(setup, "target order"),
    ),
    "column that is shifted into the inputs": (
        TABLE + "def table_of(step):\n    table = frame.copy()\n    table['next'] = table['a'].shift(step)  # here\n"
        "    return table.dropna()\n"
        "def tensors(table):\n    x = torch.tensor(table.drop(columns='next').to_numpy())\n"
        "    return TensorDataset(x, torch.tensor(table['next'].to_numpy())[:, None])\n"
        "def build():\n    table = table_of(0)\n    return DataLoader(tensors(table.iloc[:6]))\n",
        target_column_line,
    ),
}


@pytest.fixture
def build_setup(tmp_path: Path) -> Iterator[Callable[[str], Setup]]:
    """A function that imports a program and returns the setup of its loaders."""

    def build(text: str) -> Setup:
        file = tmp_path / "program_of_makers.py"
        file.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[file.stem] = module
        spec.loader.exec_module(module)
        loaders = module.build()
        model = getattr(module, "model", None) or nn.Linear(3, 2)
        setup = Setup(model, *(loaders if isinstance(loaders, tuple) else (loaders,)))
        setup.loss_fn = getattr(module, "loss_fn", None)
        setup.files = {str(file)}
        return setup

    yield build
    sys.modules.pop("program_of_makers", None)


def check_line(line: SourceLine | None) -> None:
    assert line is not None
    assert line.text.endswith("# here")


@pytest.mark.parametrize("name", TARGETS)
def test_targets_are_made_by_the_code_that_runs(name: str, build_setup: Callable[[str], Setup]) -> None:
    check_line(origin_line(build_setup(HEADER + TARGETS[name]), "targets"))


@pytest.mark.parametrize("name", LEAKS)
def test_data_that_leak_are_made_before_the_split(name: str, build_setup: Callable[[str], Setup]) -> None:
    text, find = LEAKS[name]
    check_line(find(build_setup(HEADER + text)))


@pytest.mark.parametrize("name", CODINGS)
def test_names_are_numbered_anew_where_the_encoder_is_fitted(name: str, build_setup: Callable[[str], Setup]) -> None:
    setup = build_setup(HEADER + CODER + CODINGS[name])
    loader = setup.train_loader
    inputs = tensor_argument(setup, loader, [loader.dataset], 0)
    assert inputs is not None
    (call,) = coding_calls(inputs, 0)
    check_line(call.line)


@pytest.mark.parametrize(("parts", "is_known"), [(3, True), (60, False)])
def test_calls_that_number_names_are_unknown_among_many(
    parts: int, is_known: bool, build_setup: Callable[[str], Setup]
) -> None:
    def function(number: int) -> str:
        joined = f"torch.stack([Coder().fit_transform(rows[:, 0]), {f'part{number + 1}(), ' * parts}])"
        return f"def part{number}():\n    if len(rows) > 99:\n        return {joined}\n    return rows\n"

    text = "".join(function(number) for number in range(4)) + "def part4():\n    return rows\n"
    setup = build_setup(HEADER + CODER + text + "def build():\n    return DataLoader(TensorDataset(part0(), kinds))\n")
    inputs = tensor_argument(setup, setup.train_loader, [setup.train_loader.dataset], 0)
    assert inputs is not None
    assert bool(coding_calls(inputs, None)) is is_known


@pytest.mark.parametrize("name", SCALINGS)
def test_scaling_is_found_where_its_statistics_are_computed(name: str, build_setup: Callable[[str], Setup]) -> None:
    check_line(find_scaling(origin_line(build_setup(HEADER + SCALINGS[name]), "inputs"), DEVIATIONS))


@pytest.mark.parametrize("name", NO_SCALINGS)
def test_scaling_by_selected_values_or_in_any_of_two_branches_is_unknown(
    name: str, build_setup: Callable[[str], Setup]
) -> None:
    assert find_scaling(origin_line(build_setup(HEADER + NO_SCALINGS[name]), "inputs"), DEVIATIONS) is None


def test_target_column_that_the_inputs_may_contain_is_no_cause(build_setup: Callable[[str], Setup]) -> None:
    text = "def build():\n    frame['next'] = frame['a'] * 2\n    x = torch.tensor(frame.to_numpy())\n"
    text += "    return DataLoader(TensorDataset(x, torch.tensor(frame['next'].to_numpy())))\n"
    assert target_column_line(build_setup(HEADER + TABLE + text)) is None


def test_leaking_line_of_inputs_without_targets_is_none(build_setup: Callable[[str], Setup]) -> None:
    text = "def build():\n    x, y = rows, kinds\n    x, y = x[kinds], y[kinds]\n"
    text += "    return DataLoader(TensorDataset(x, y))\n"
    setup = build_setup(HEADER + text)
    assert leaking_line(setup) is None
    assert repetition_line(setup) is None


def test_path_that_is_joined_before_the_data_are_read_repeats_no_rows(build_setup: Callable[[str], Setup]) -> None:
    text = "import os\ndef read(path):\n    return rows[:, :2] if path else rows\n"
    text += "def build():\n    path = os.path.join('data', 'rows.csv')\n    x = read(path)\n"
    text += "    return DataLoader(TensorDataset(x[:6])), DataLoader(TensorDataset(x[6:]), 4)\n"
    assert repetition_line(build_setup(HEADER + text)) is None


def test_part_line_is_that_of_the_statement_that_writes_a_parameter(build_setup: Callable[[str], Setup]) -> None:
    text = (
        "class Adapter(nn.Module):\n    def __init__(self, fill):\n        super().__init__()\n"
        "        self.down = nn.Parameter(torch.empty(2, 3))\n        fill(self.down)  # here\n"
        "model = nn.Sequential(Adapter(nn.init.zeros_))\ndef build():\n    return DataLoader(rows)\n"
    )
    check_line(part_line(build_setup(HEADER + text), "0", "0.down"))


def test_origin_line_of_an_own_loss_is_what_it_returns(build_setup: Callable[[str], Setup]) -> None:
    text = (
        "class Loss(nn.Module):\n    def forward(self, scores, y):\n        gap = scores.flatten() - y\n"
        "        return (gap * gap).mean()  # here\nloss_fn = Loss()\ndef build():\n    return DataLoader(rows)\n"
    )
    check_line(origin_line(build_setup(HEADER + text), "loss"))
