"""Tests of the line by which each split fits an encoder, a vocabulary or a mapping on its own data."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from torch import nn

from nbdebug.setup import Setup
from nbdebug.setup.split_fits import own_fit_line
from tests.source.source_modules import load_module

HEADER = """\
import numpy as np
import pandas as pd
import torch
from sklearn.preprocessing import OrdinalEncoder, StandardScaler
from torch.utils.data import DataLoader, Dataset, TensorDataset
train_rows = [(list("abcd"), 0), (list("bcde"), 1)] * 8
val_rows = [(list("dcba"), 0), (list("ebcd"), 1)] * 8
train_x, val_x = np.random.rand(16, 3), np.random.rand(16, 3)
y = torch.zeros(16)
class Vocabulary:
    def __init__(self):
        self.numbers = {}
    @classmethod
    def of(cls, rows):
        made = cls()
        for words, _ in rows:
            for word in words:
                made.numbers.setdefault(word, len(made.numbers))
        return made
    def encode(self, words):
        return torch.tensor([self.numbers.get(word, 0) for word in words])
class Index:
    def __init__(self, rows):
        self.numbers = {word: i for i, word in enumerate(dict.fromkeys(w for words, _ in rows for w in words))}
    def encode(self, words):
        return torch.tensor([self.numbers.get(word, 0) for word in words])
def number(rows):
    numbers = {}
    for words, _ in rows:
        for word in words:
            if word not in numbers:
                numbers[word] = len(numbers)
    return numbers
def enumerated(rows):
    return {word: i for i, word in enumerate(dict.fromkeys(w for words, _ in rows for w in words))}
def codes(rows, numbers):
    return torch.tensor([[numbers.get(word, 0) for word in words] for words, _ in rows])
class Indexer:
    def __init__(self, rows):
        self.numbers = self.number(rows)
    @classmethod
    def number(cls, rows):
        return {word: i for i, word in enumerate(dict.fromkeys(w for words, _ in rows for w in words))}
    def transform(self, rows, reuse=True):
        numbers = self.numbers if reuse else self.number(rows)  # here
        return torch.tensor([[numbers.get(word, 0) for word in words] for words, _ in rows])
class Tokenizer:
    def fit(self, rows):
        self.numbers = enumerated(rows)
        return self
    def transform(self, rows):
        return codes(rows, self.numbers)
class Recipes(Dataset):
    def __init__(self, rows, vocabulary):
        self.items = [(vocabulary.encode(words), kind) for words, kind in rows]
    def __len__(self): return len(self.items)
    def __getitem__(self, i): return self.items[i]
class Own(Dataset):
    def __init__(self, rows, known=None):
        self.rows = rows
        FIT
    def __len__(self): return len(self.rows)
    def __getitem__(self, i): return torch.tensor([self.numbers.get(w, 0) for w in self.rows[i][0]]), self.rows[i][1]
"""
_FEEDER = (
    "class Feeder:\n    def __init__(self, size):\n        self.size = size\n    def loaders(self, train, val):\n"
    "        return DataLoader(train, batch_size=self.size, shuffle=True), DataLoader(val, batch_size=self.size)\n"
)
_LOADERS = "train_loader, val_loader = DataLoader(train, 4), DataLoader(val, 4)\n"
_OWN = "train, val = Own(train_rows), Own(val_rows)\n" + _LOADERS
_TENSORS = "train, val = TensorDataset(a, y), TensorDataset(b, y)\n" + _LOADERS
# What the class Own does to number its words, and the program; the line with "here" fits on the data of each split.
PROGRAMS = {
    "a class method, in one of two branches": (
        "pass",
        "def make(rows, vocabulary, shared):\n"
        "    used = vocabulary if shared else Vocabulary.of(rows)  # here\n"
        "    return DataLoader(Recipes(rows, used), batch_size=4)\n"
        "def program(fixed):\n    vocabulary = Vocabulary.of(train_rows)\n"
        "    return make(train_rows, vocabulary, True), make(val_rows, vocabulary, fixed)\n"
        "train_loader, val_loader = program(bool(0))\n",
    ),
    "another object for the second split": (
        "pass",
        "first = Index(train_rows)\nsecond = Index(val_rows)  # here\n"
        "train, val = Recipes(train_rows, first), Recipes(val_rows, second)\n" + _LOADERS,
    ),
    "an object of the dataset": ("self.numbers = Index(rows).numbers  # here", _OWN),
    "a function of the dataset": ("self.numbers = known or number(rows)  # here", _OWN),
    "a dictionary of the dataset": (
        "self.numbers = {w: i for i, w in enumerate(sorted(w for ws, _ in rows for w in ws))}  # here",
        _OWN,
    ),
    "an encoder that is fitted on both": (
        "pass",
        "encoder = OrdinalEncoder()\na = torch.tensor(encoder.fit_transform(train_x)).float()\n"
        "b = torch.tensor(encoder.fit_transform(val_x)).float()  # here\n" + _TENSORS,
    ),
    "a function that fits": (
        "pass",
        "def tensors(rows):\n    scaled = StandardScaler().fit_transform(rows)  # here\n"
        "    return torch.tensor(scaled).float()\na, b = tensors(train_x), tensors(val_x)\n" + _TENSORS,
    ),
    "a method that the object calls of itself": (
        "pass",
        "def program(fixed):\n    indexer = Indexer(train_rows)\n    a = indexer.transform(train_rows)\n"
        "    return a, indexer.transform(val_rows, reuse=fixed)\na, b = program(bool(0))\n" + _TENSORS,
    ),
    "a fit again, with loaders of a method": (
        "pass",
        _FEEDER + "def program(rows, others):\n    tokenizer, feeder = Tokenizer(), Feeder(4)\n"
        "    a = tokenizer.fit(rows).transform(rows)\n"
        "    b = tokenizer.fit(others).transform(others)  # here\n"
        "    return feeder.loaders(TensorDataset(a, y), TensorDataset(b, y))\n"
        "train_loader, val_loader = program(train_rows, val_rows)\n",
    ),
    "a fit again, with loaders of a static method": (
        "pass",
        "class Feeder:\n    @staticmethod\n    def halves(train, val):\n"
        "        return DataLoader(train, batch_size=4, shuffle=True), DataLoader(val, batch_size=4)\n"
        "def program(rows, others):\n    tokenizer = Tokenizer()\n    a = tokenizer.fit(rows).transform(rows)\n"
        "    b = tokenizer.fit(others).transform(others)  # here\n"
        "    return Feeder.halves(TensorDataset(a, y), TensorDataset(b, y))\n"
        "train_loader, val_loader = program(train_rows, val_rows)\n",
    ),
    "a function that returns the numbers": (
        "pass",
        "def program(rows, others):\n    first = enumerated(rows)\n    second = enumerated(others)  # here\n"
        "    return codes(rows, first), codes(others, second)\na, b = program(train_rows, val_rows)\n" + _TENSORS,
    ),
    "such a function in one of both": (
        "pass",
        "def encode(rows):\n    numbers = enumerated(rows)  # here\n    return codes(rows, numbers)\n"
        "a, b = encode(train_rows), encode(val_rows)\n" + _TENSORS,
    ),
}
# Each of these fits once, on the training data, or numbers constants.
SHARED = {
    "one vocabulary": (
        "pass",
        "vocabulary = Vocabulary.of(train_rows)\n"
        "train, val = Recipes(train_rows, vocabulary), Recipes(val_rows, vocabulary)\n" + _LOADERS,
    ),
    "one vocabulary in a function of both": (
        "pass",
        "def program(rows, others):\n    vocabulary = Index(rows)\n"
        "    return DataLoader(Recipes(rows, vocabulary), 4), DataLoader(Recipes(others, vocabulary), 4)\n"
        "train_loader, val_loader = program(train_rows, val_rows)\n",
    ),
    "one vocabulary that is passed on": (
        "pass",
        "def make(rows, vocabulary):\n    return DataLoader(Recipes(rows, vocabulary), batch_size=4)\n"
        "vocabulary = Vocabulary.of(train_rows)\n"
        "train_loader, val_loader = make(train_rows, vocabulary), make(val_rows, vocabulary)\n",
    ),
    "numbers that a function returns": (
        "pass",
        "def program():\n    numbers = enumerated(train_rows)\n"
        "    return codes(train_rows, numbers), codes(val_rows, numbers)\na, b = program()\n" + _TENSORS,
    ),
    "numbers of an object": (
        "pass",
        "def program():\n    indexer = Indexer(train_rows)\n"
        "    return indexer.transform(train_rows), indexer.transform(val_rows)\na, b = program()\n" + _TENSORS,
    ),
    "a fit, with loaders of a method": (
        "pass",
        _FEEDER + "def program():\n    tokenizer, feeder = Tokenizer(), Feeder(4)\n    tokenizer.fit(train_rows)\n"
        "    a, b = tokenizer.transform(train_rows), tokenizer.transform(val_rows)\n"
        "    return feeder.loaders(TensorDataset(a, y), TensorDataset(b, y))\n"
        "train_loader, val_loader = program()\n",
    ),
    "a list of constants": ("self.numbers = {word: i for i, word in enumerate('abcde')}", _OWN),
    "one scaler": (
        "pass",
        "scaler = StandardScaler()\na = torch.tensor(scaler.fit_transform(train_x)).float()\n"
        "b = torch.tensor(scaler.transform(val_x)).float()\n" + _TENSORS,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS | SHARED)
def test_own_fit_line_is_that_of_the_fit_on_the_data_of_each_split(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit, program = (PROGRAMS | SHARED)[name]
    text = HEADER.replace("FIT", fit) + program
    module = load_module(tmp_path / "program_with_fits.py", text)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    setup = Setup(nn.Linear(3, 1), module.train_loader, module.val_loader, loss_fn=nn.MSELoss())
    setup.files = {str(module.__file__)}
    line = own_fit_line(setup)
    assert (line is None) == (name in SHARED), line
    assert line is None or "# here" in text.splitlines()[line.number - 1], line
