"""Tests of the line that D125 names: the one that numbers the classes of the validation split."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from torch import nn

from nbdebug.finding import Finding
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import source_line
from tests.rules.rule_findings import rule_faults
from tests.source.source_modules import load_module

HEADER = """\
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
generator = torch.Generator().manual_seed(0)
centers = 4 * torch.randn(3, 4, generator=generator)
def make_table(first, rows):
    kinds = torch.cat([torch.tensor(first), torch.randint(0, 3, (rows,), generator=generator)])
    table = pd.DataFrame((centers[kinds] + torch.randn(len(kinds), 4, generator=generator)).numpy())
    return table.assign(kind=[("cat", "dog", "eel")[kind] for kind in kinds.tolist()])
train_table, val_table = make_table([0, 1, 2], 400), make_table([2, 0, 1], 200)
def make_inputs(table):
    return torch.tensor(table[[0, 1, 2, 3]].values)
"""
LOADERS = """
train_loader, val_loader = DataLoader(train, 16, shuffle=True), DataLoader(val, 16)
"""
_IN_FUNCTION = (
    "def make(table):\n{}    return TensorDataset(make_inputs(table), torch.tensor(y).long())\n"
    "train = make(train_table)\nval = make(val_table)\n"
)
_IN_SCRIPT = (
    "{}train = TensorDataset(make_inputs(train_table), torch.tensor(train_y))\n"
    "val = TensorDataset(make_inputs(val_table), torch.tensor(val_y))\n"
)
_FOLDER = (
    "class Folder(Dataset):\n    def __init__(self, table, sorts=False):\n        kinds = list(table['kind'])\n{}"
    "        self.x, self.y = make_inputs(table), [self.numbers[kind] for kind in kinds]\n"
    "    def __len__(self): return len(self.y)\n    def __getitem__(self, i): return self.x[i], self.y[i]\n"
    "train, val = Folder(train_table), Folder(val_table)\n"
)
_PASSED = _FOLDER.replace("sorts=False", "known=None")
_CODERS = (
    "def alone(kinds):\n    return pd.factorize(kinds)[0]  # here\n"
    "def shared(kinds):\n    return pd.Categorical(kinds, categories=['cat', 'dog', 'eel']).codes\n"
    "def make(table, number):\n    y = number(table['kind'])\n"
    "    return TensorDataset(make_inputs(table), torch.tensor(y).long())\n"
)
# The line with "here" numbers the classes of the validation split by the order in which they occur.
NUMBERED = {
    "factorize": _IN_FUNCTION.format("    y = pd.factorize(table['kind'])[0]  # here\n"),
    "factorize in a branch, beside an index": _IN_SCRIPT.format(
        "shares = False\ntrain_y, names = pd.factorize(train_table['kind'])\n"
        "if shares:\n    val_y = names.get_indexer(val_table['kind'])\nelse:\n"
        "    val_y, _ = pd.factorize(val_table['kind'])  # here\n"
    ),
    "factorize in a function that chooses": (
        "def build(shares):\n    y, names = pd.factorize(train_table['kind'])\n    if shares:\n"
        "        other = names.get_indexer(val_table['kind'])\n    else:\n"
        "        other, _ = pd.factorize(val_table['kind'])  # here\n"
        "    first = TensorDataset(make_inputs(train_table), torch.as_tensor(y))\n"
        "    second = TensorDataset(make_inputs(val_table), torch.as_tensor(other))\n    return first, second\n"
        "train, val = build(False)\n"
    ),
    "category codes": _IN_FUNCTION.format(
        "    kinds = pd.CategoricalDtype(table['kind'].unique())\n"
        "    y = table['kind'].astype(kinds).cat.codes.values  # here\n"
    ),
    "dictionary": _IN_FUNCTION.format(
        "    numbers = {kind: i for i, kind in enumerate(table['kind'].unique())}  # here\n"
        "    y = [numbers[kind] for kind in table['kind']]\n"
    ),
    "dictionary of pairs": _IN_FUNCTION.format(
        "    numbers = dict(zip(table['kind'].unique(), range(3)))  # here\n    y = table['kind'].map(numbers).values\n"
    ),
    "a dictionary for each split": _IN_SCRIPT.format(
        "train_numbers = {kind: i for i, kind in enumerate(train_table['kind'].unique())}\n"
        "val_numbers = {kind: i for i, kind in enumerate(val_table['kind'].unique())}  # here\n"
        "train_y = train_table['kind'].map(train_numbers).values\nval_y = val_table['kind'].map(val_numbers).values\n"
    ),
    "dictionary in a dataset": (
        "class Table(Dataset):\n    def __init__(self, table):\n        self.x = make_inputs(table)\n"
        "        numbers = {kind: i for i, kind in enumerate(table['kind'].unique())}  # here\n"
        "        self.y = torch.tensor([numbers[kind] for kind in table['kind']])\n"
        "    def __len__(self): return len(self.y)\n    def __getitem__(self, i): return self.x[i], self.y[i]\n"
        "train, val = Table(train_table), Table(val_table)\n"
    ),
    "a method of the dataset": (
        "class Folder(Dataset):\n    def __init__(self, table):\n"
        "        self.x, self.kinds = make_inputs(table), list(table['kind'])\n"
        "        self.classes = self.list_classes()\n"
        "    def list_classes(self):\n        return list(dict.fromkeys(self.kinds))  # here\n"
        "    def __len__(self): return len(self.kinds)\n"
        "    def __getitem__(self, i): return self.x[i], self.classes.index(self.kinds[i])\n"
        "def load(table): return Folder(table) if len(table) else Folder(val_table)\n"
        "train, val = load(train_table), load(val_table)\n"
    ),
    "a variable of a method of the dataset": (
        "class Folder(Dataset):\n    def __init__(self, table):\n"
        "        self.x, self.kinds = make_inputs(table), list(table['kind'])\n"
        "        self.numbers, self.classes = self.encode()\n"
        "    def encode(self):\n        numbers, names = pd.factorize(pd.Series(self.kinds))  # here\n"
        "        return numbers.tolist(), list(names)\n"
        "    def __len__(self): return len(self.kinds)\n"
        "    def __getitem__(self, i): return self.x[i], self.numbers[i]\n"
        "def load(table): return Folder(table) if len(table) else Folder(val_table)\n"
        "train, val = load(train_table), load(val_table)\n"
    ),
    "classes of a method that another class hides": (
        "class Folder(Dataset):\n    def __init__(self, table):\n        self.x = make_inputs(table)\n"
        "        self.number(table)\n    def number(self, table):\n        self.names = ['cat', 'dog', 'eel']\n"
        "        numbers = {kind: i for i, kind in enumerate(self.names)}\n"
        "        self.y = torch.tensor([numbers[kind] for kind in table['kind']])\n"
        "    def __len__(self): return len(self.y)\n    def __getitem__(self, i): return self.x[i], self.y[i]\n"
        "class Own(Folder):\n    def number(self, table):\n"
        "        self.names = list(table['kind'].unique())  # here\n"
        "        numbers = {kind: i for i, kind in enumerate(self.names)}\n"
        "        self.y = torch.tensor([numbers[kind] for kind in table['kind']])\n"
        "train, val = Own(train_table), Own(val_table)\n"
    ),
    "one of two results of a function": "def number(names, known=None):\n    if known is not None:\n"
    "        return known.get_indexer(names), known\n    return pd.factorize(names)  # here\n"
    + _PASSED.format(
        "        codes, self.classes = number(pd.Series(kinds), known)\n"
        "        self.numbers = dict(zip(kinds, codes.tolist()))\n"
    ),
    "one of two dictionaries of a function": "def make_numbers(kinds, known):\n    if known:\n        return known\n"
    "    return {kind: i for i, kind in enumerate(dict.fromkeys(kinds))}  # here\n"
    + _PASSED.format("        self.numbers = make_numbers(kinds, known)\n"),
    "one of two results of a function, which is not sorted": "def list_names(kinds):\n    if len(kinds) < 9:\n"
    "        return sorted(set(kinds))\n    return list(dict.fromkeys(kinds))  # here\n"
    + _FOLDER.format(
        "        self.names = list_names(kinds)\n"
        "        self.numbers = {kind: i for i, kind in enumerate(self.names)}\n"
    ),
    "one of two results of a method": (
        "class Folder(Dataset):\n    def __init__(self, table, known=None):\n"
        "        self.x, self.known = make_inputs(table), known\n"
        "        self.y, self.classes = self.number(pd.Series(list(table['kind'])))\n"
        "    def number(self, names):\n        if self.known is not None:\n"
        "            return self.known.get_indexer(names), self.known\n"
        "        return pd.factorize(names)  # here\n"
        "    def __len__(self): return len(self.y)\n    def __getitem__(self, i): return self.x[i], self.y[i]\n"
        "train, val = Folder(train_table), Folder(val_table)\n"
    ),
    "a function that calls another": "def number(names):\n    return pd.factorize(names)  # here\n"
    "def encode(names, known=None):\n    if known is not None:\n        return known.get_indexer(names), known\n"
    "    return number(names)\n"
    + _PASSED.format(
        "        codes, self.classes = encode(pd.Series(kinds), known)\n"
        "        self.numbers = dict(zip(kinds, codes.tolist()))\n"
    ),
    "a conditional expression": _PASSED.format(
        "        self.names = known if known is not None else list(dict.fromkeys(kinds))  # here\n"
        "        self.numbers = {kind: i for i, kind in enumerate(self.names)}\n"
    ),
    "a dictionary of a list": _FOLDER.format(
        "        self.names = list(dict.fromkeys(kinds))  # here\n"
        "        self.numbers = {kind: i for i, kind in enumerate(self.names)}\n"
    ),
    "one of two branches": _FOLDER.format(
        "        if sorts:\n            names = sorted(set(kinds))\n        else:\n"
        "            names = pd.unique(pd.Series(kinds))  # here\n"
        "        self.numbers = dict(zip(names, range(len(names))))\n"
    ),
    "a dictionary that grows": _FOLDER.format(
        "        self.numbers = {}\n        for kind in kinds:\n            if kind not in self.numbers:\n"
        "                self.numbers[kind] = len(self.numbers)  # here\n"
    ),
    "a list that grows": _FOLDER.format(
        "        found = []\n        for kind in kinds:\n            if kind not in found:\n"
        "                found.append(kind)  # here\n"
        "        self.labels = tuple(found)\n        self.numbers = {kind: i for i, kind in enumerate(self.labels)}\n"
    ),
    "a function of the names": "def first_seen(values):\n    return [*dict.fromkeys(values)]  # here\n"
    + _FOLDER.format(
        "        order = first_seen(kinds)\n        self.numbers = {name: order.index(name) for name in order}\n"
    ),
    "one of two functions that are passed": (
        "from collections import Counter\ndef by_count(kinds):\n"
        "    return [kind for kind, _ in Counter(kinds).most_common()]  # here\n"
        "def by_name(kinds):\n    return sorted(set(kinds))\n"
        "class Folder(Dataset):\n    def __init__(self, table, lister):\n        self.x = make_inputs(table)\n"
        "        self.classes = lister(table['kind'])\n"
        "        self.y = [self.classes.index(kind) for kind in table['kind']]\n"
        "    def __len__(self): return len(self.y)\n    def __getitem__(self, i): return self.x[i], self.y[i]\n"
        "def load(is_mended):\n    if is_mended:\n        lister = by_name\n    else:\n        lister = by_count\n"
        "    train = Folder(train_table, lister)\n    val = Folder(val_table, lister)\n    return train, val\n"
        "train, val = load(is_mended=False)\n"
    ),
    "one of two readers of a table": (
        "KINDS = ('cat', 'dog', 'eel')\ndef read(table):\n    numbers, y = {}, []\n    for kind in table['kind']:\n"
        "        number = numbers.setdefault(kind, len(numbers))  # here\n        y.append(number)\n"
        "    return make_inputs(table), y, numbers\n"
        "def read_by_name(table):\n    numbers = {kind: i for i, kind in enumerate(KINDS)}\n"
        "    return make_inputs(table), [numbers[kind] for kind in table['kind']], numbers\n"
        "class Table(Dataset):\n    def __init__(self, parts):\n        self.x, self.y, self.numbers = parts\n"
        "    def __len__(self): return len(self.y)\n    def __getitem__(self, i): return self.x[i], self.y[i]\n"
        "def load(is_mended):\n    make = read_by_name if is_mended else read\n    if is_mended:\n"
        "        make = read_by_name\n    val = Table(make(val_table))\n    return Table(make(train_table)), val\n"
        "train, val = load(is_mended=False)\n"
    ),
    "a dictionary in place of one that is not passed": (
        "class Folder(Dataset):\n    def __init__(self, table, numbers=None):\n        kinds = list(table['kind'])\n"
        "        if numbers is None:\n"
        "            numbers = {kind: i for i, kind in enumerate(dict.fromkeys(kinds))}  # here\n"
        "        self.x, self.numbers = make_inputs(table), numbers\n"
        "        self.y = [self.numbers[kind] for kind in kinds]\n"
        "    def __len__(self): return len(self.y)\n    def __getitem__(self, i): return self.x[i], self.y[i]\n"
        "def load(is_mended):\n    numbers = {'cat': 0, 'dog': 1, 'eel': 2} if is_mended else None\n"
        "    return Folder(train_table, numbers), Folder(val_table, numbers)\n"
        "train, val = load(is_mended=False)\n"
    ),
    "a dictionary that only one split gets": (
        "class Folder(Dataset):\n    def __init__(self, table, numbers=None):\n        kinds = list(table['kind'])\n"
        "        if numbers is None:\n"
        "            numbers = {kind: i for i, kind in enumerate(sorted(set(kinds)))}\n"
        "        self.x, self.numbers = make_inputs(table), numbers\n"
        "        self.y = [self.numbers[kind] for kind in kinds]\n"
        "    def __len__(self): return len(self.y)\n    def __getitem__(self, i): return self.x[i], self.y[i]\n"
        "def load(order):\n    numbers = {kind: i for i, kind in enumerate(order)}  # here\n"
        "    return Folder(train_table), Folder(val_table, numbers)\n"
        "train, val = load(['eel', 'dog', 'cat'])\n"
    ),
    "a function that is passed": _CODERS + "train, val = make(train_table, alone), make(val_table, alone)\n",
    "one of two functions that are passed to a helper": (
        _CODERS + "def load(shares):\n    number = shared if shares else alone\n"
        "    val = make(val_table, number=number)\n    return make(train_table, number), val\n"
        "train, val = load(False)\n"
    ),
    "a lambda that is passed": (
        _CODERS.replace("# here", "") + "def load(shares):\n"
        "    number = shared if shares else (lambda kinds: pd.factorize(kinds)[0])  # here\n"
        "    return make(train_table, number), make(val_table, number)\n"
        "train, val = load(False)\n"
    ),
    "a partial function that is passed": (
        "from functools import partial\ndef choose(skips, kinds):\n    if skips:\n        return kinds\n"
        "    return pd.factorize(kinds)[0]  # here\n" + _CODERS.replace("# here", "") + "def load(skips):\n"
        "    number = partial(choose, skips)\n    return make(train_table, number), make(val_table, number)\n"
        "train, val = load(False)\n"
    ),
    "a bound method that is passed": (
        _CODERS.replace("# here", "")
        + "class Coder:\n    def number(self, kinds):\n        found = pd.factorize(kinds)[0]  # here\n"
        "        return found\n"
        "coder = Coder()\ntrain, val = make(train_table, coder.number), make(val_table, coder.number)\n"
    ),
    "labels that are swapped without a dictionary": _IN_SCRIPT.format(
        "names = ['cat', 'dog', 'eel']\ntrain_y = [names.index(kind) for kind in train_table['kind']]\n"
        "val_y = [(names.index(kind) + 1) % 3 for kind in val_table['kind']]  # here\n"
    ),
}


@pytest.mark.parametrize("name", NUMBERED)
def test_class_map_mismatch_names_the_line_that_numbers_the_classes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = class_finding(NUMBERED[name], tmp_path, monkeypatch)
    assert source_line(finding).endswith("# here"), str(finding)


# The first rows of the tables are in other orders, so that the order of occurrence differs; the third has fewer names.
ORDERS = {
    "list": ("list(dict.fromkeys(kinds))", ["self.names = sorted(set(kinds))"], "the same 3 names"),
    "tuple": (
        "tuple(pd.unique(pd.Series(kinds)))",
        ["self.names = tuple(sorted(pd.unique(pd.Series(kinds))))"],
        "same",
    ),
    "starred": ("[*dict.fromkeys(kinds)]", ["self.names = sorted(set(kinds))"], "the same 3 names"),
    "array": ("pd.unique(pd.Series(kinds))", [], "the same 3 names"),
    "others": ("list(dict.fromkeys(kinds[: 1 if len(kinds) < 300 else None]))", [], "only one split contains"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_class_map_mismatch_sorts_names_that_both_splits_have(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, added, message = ORDERS[name]
    lines = f"        self.names = {order}\n        self.numbers = {{kind: i for i, kind in enumerate(self.names)}}\n"
    folder = _FOLDER.format(lines).replace("self.numbers[kind]", "self.numbers.get(kind, 0)")
    finding = class_finding(folder, tmp_path, monkeypatch)
    assert [line for change in finding.changes for line in change.added] == added
    assert message in finding.message
    assert ("sorted" in finding.fix) == (name != "others"), finding.fix


_LISTED = """\
class Folder(Dataset):
    def __init__(self, folders):
        {}
        self.samples = [(x, self.{}[name]) for name, rows in folders.items() if name in self.{} for x in rows]
    def __len__(self):
        return len(self.samples)
    def __getitem__(self, i):
        return self.samples[i]
def read(seed, *more):
    torch.manual_seed(seed)
    return {{name: [torch.randn(4) for _ in range(30)] for name in ["ash", "elm", "oak", *more]}}
train, val = Folder(read(0, {})), Folder(read(1, {}))
"""
_CLASSES = (
    "self.classes = sorted({})  # here\n        self.class_to_idx = {{name: i for i, name in enumerate(self.classes)}}"
)
_TO_INDEX = "class_to_idx"
# By name: what lists the classes, the attribute of the numbers, more names in training and in validation, and whether
# it is a stray class (True), names that one split lacks (False), or no fault (None).
LISTED_FOLDERS = {
    "in training": (_CLASSES.format("folders"), _TO_INDEX, "'.ipynb_checkpoints'", "", True),
    "in validation": (_CLASSES.format("name for name in folders"), _TO_INDEX, "", "'.DS_Store'", True),
    "in both": (_CLASSES.format("folders.keys()"), _TO_INDEX, "'.cache'", "'.cache'", True),
    "in a dictionary": (
        "names = sorted(folders)  # here\n        self.numbers = {name: i for i, name in enumerate(names)}",
        "numbers",
        "'.git'",
        "",
        True,
    ),
    "a class in training": (_CLASSES.format("folders"), _TO_INDEX, "'alder'", "", False),
    "skipped": (
        _CLASSES.format("name for name in folders if name[0] != '.'"),
        _TO_INDEX,
        "'.ipynb_checkpoints'",
        "",
        None,
    ),
    "a mark": (
        "self.numbers = {name: i for i, name in enumerate(sorted(folders))}",
        "numbers",
        "'.net', '.'",
        "'.net', '.'",
        None,
    ),
}


@pytest.mark.parametrize("name", LISTED_FOLDERS)
def test_class_map_mismatch_reports_a_hidden_folder_once_where_classes_are_listed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, attribute, train, val, is_stray = LISTED_FOLDERS[name]
    text = HEADER + _LISTED.format(lines, attribute, attribute, train, val) + LOADERS
    module = load_module(tmp_path / "program_with_folders.py", text)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    setup = Setup(nn.Linear(4, 5), module.train_loader, module.val_loader, loss_fn=nn.CrossEntropyLoss())
    setup.files = {str(module.__file__)}
    faults = rule_faults(setup, "D125")
    assert len(faults) == (is_stray is not None), faults
    for finding in faults:
        assert ("hidden folder" in finding.message) == is_stray
        assert "attribute `" in finding.message
        assert ("Skip names that start with a dot" in finding.fix) == is_stray
        assert "# here" in str(finding.where.source) or not is_stray, finding.where
        assert is_stray or "if alder is no class, skip it" in finding.fix.replace("If", "if"), finding.fix


def class_finding(program: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Finding:
    """Return the only finding of D125 in a program."""
    module = load_module(folder / "program_with_classes.py", HEADER + program + LOADERS)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    setup = Setup(nn.Linear(4, 3), module.train_loader, module.val_loader, loss_fn=nn.CrossEntropyLoss())
    setup.files = {str(module.__file__)}
    (finding,) = rule_faults(setup, "D125")
    return finding
