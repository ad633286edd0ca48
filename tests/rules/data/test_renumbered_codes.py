"""Tests of D125 for codes of categories in the inputs, which each split numbers by itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.preprocessing import OrdinalEncoder
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import source_line
from tests.rules.rule_findings import rule_faults
from tests.source.source_modules import load_module

NAMES = np.array(["ash", "birch", "cedar", "elm", "fir", "oak"])
LEVELS = np.array([1.0, 4.0, 2.0, 6.0, 3.0, 8.0])


class Trees(Dataset[tuple[Tensor, Tensor]]):
    """Heights of trees by their kind and age; the kinds are numbered in the order in which they occur."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.kind = torch.tensor(pd.factorize(frame["kind"])[0])  # here
        self.read_numbers(frame)

    def read_numbers(self, frame: pd.DataFrame) -> None:
        """Read the age and the height."""
        self.age = torch.tensor(frame["age"].to_numpy(), dtype=torch.float32)
        self.height = torch.tensor(frame["height"].to_numpy(), dtype=torch.float32)

    def __len__(self) -> int:
        return len(self.height)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.stack([self.kind[index].float(), self.age[index]]), self.height[index]


def frame(rows: int, seed: int, drift: float = 0.0, first: str = "") -> pd.DataFrame:
    random = np.random.default_rng(seed)
    kind, age = random.integers(0, len(NAMES), rows), random.uniform(-1, 1, rows)
    table = pd.DataFrame({"kind": NAMES[kind], "age": age, "height": LEVELS[kind] + age + drift})
    return table.sort_values("kind", key=lambda kinds: kinds != first, kind="stable") if first else table


def sorted_codes(table: pd.DataFrame) -> TensorDataset:
    numbers = np.stack([np.searchsorted(NAMES, table["kind"]), table["age"]], axis=1)
    return TensorDataset(
        torch.tensor(numbers, dtype=torch.float32), torch.tensor(table["height"].to_numpy(), dtype=torch.float32)
    )


def years(rows: int, seed: int, start: int) -> TensorDataset:
    """A year of a window that moves on, and prices that rise from year to year."""
    random = np.random.default_rng(seed)
    year = random.integers(0, 6, rows)
    x = np.stack([year, random.normal(size=rows)], axis=1)
    return TensorDataset(
        torch.tensor(x, dtype=torch.float32), torch.tensor(year + start + x[:, 1], dtype=torch.float32)
    )


def inverted(data: TensorDataset) -> TensorDataset:
    x, y = data.tensors
    return TensorDataset(torch.stack([5 - x[:, 0], x[:, 1]], 1), y)


def d125_findings(train: Dataset[object], val: Dataset[object]) -> list[object]:
    setup = Setup(nn.Linear(2, 1), DataLoader(train, 20, shuffle=True), DataLoader(val, 20), loss_fn=nn.MSELoss())
    return [*rule_faults(setup, "D125")]


def test_codes_that_each_split_numbers_by_itself_are_reported_at_their_line() -> None:
    train, val = frame(600, 0, first="ash"), frame(300, 1, first="oak")
    (finding,) = d125_findings(Trees(train), Trees(val))
    (own, other), *_ = finding.evidence["validation code: training code"].items()  # type: ignore[attr-defined]
    train_names, val_names = pd.factorize(train["kind"])[1], pd.factorize(val["kind"])[1]
    assert val_names[own] == train_names[other]
    assert "# here" in (finding.where.source or "")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("train", "val"),
    [
        (lambda: sorted_codes(frame(600, 0)), lambda: sorted_codes(frame(300, 1))),
        (lambda: sorted_codes(frame(600, 0)), lambda: sorted_codes(frame(300, 1, drift=2.0))),
        (lambda: sorted_codes(frame(600, 0)), lambda: sorted_codes(frame(40, 1))),
        (lambda: years(600, 0, 0), lambda: years(300, 1, 1)),
        (lambda: years(600, 0, 0), lambda: inverted(years(300, 1, 0))),
    ],
    ids=["same codes", "drift", "few rows", "years", "inverted"],
)
def test_codes_with_one_meaning_are_quiet(
    train: Callable[[], Dataset[object]], val: Callable[[], Dataset[object]]
) -> None:
    assert d125_findings(train(), val()) == []


class InOrder(OrdinalEncoder):
    """An encoder that numbers the categories in the order in which they occur."""

    def fit(self, x: np.ndarray, y: object = None) -> InOrder:
        """Take the categories in their order."""
        self.categories = [pd.unique(x[:, 0])]
        fitted: InOrder = super().fit(x)
        return fitted


ENCODER = InOrder()


class EncodedTrees(Trees):
    """The same trees, whose kinds an encoder numbers in a call of several lines."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.read_numbers(frame)
        self.kind = torch.tensor(
            ENCODER.fit_transform(
                frame[["kind"]].to_numpy(),
            )[:, 0]
        )


class FreshlyEncodedTrees(Trees):
    """The same trees, whose kinds a new encoder numbers."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.read_numbers(frame)
        self.kind = torch.tensor(InOrder().fit_transform(frame[["kind"]].to_numpy())[:, 0])


@pytest.mark.parametrize(
    ("trees", "fix"),
    [
        (EncodedTrees, "Fit ENCODER on the training split alone, and call its transform() for both splits."),
        (FreshlyEncodedTrees, "Fit one InOrder on the training split alone, and call its transform() for both splits."),
        (Trees, "Number the categories of the training split once, and use these numbers in both splits."),
    ],
)
def test_fix_of_codes_names_the_encoder_that_each_split_fits(trees: type[Trees], fix: str) -> None:
    (finding,) = d125_findings(trees(frame(600, 0, first="ash")), trees(frame(300, 1, first="oak")))
    assert finding.fix == fix  # type: ignore[attr-defined]


def stations(rows: int, seed: int, *, levels: int = 0, shares: int = 0, renumbers: bool = False) -> TensorDataset:
    """Counts at forty stations; ``levels`` and ``shares`` are the seeds of their means and of their frequencies."""
    random = np.random.default_rng(seed)
    level = np.random.default_rng(levels).normal(0, 1.2, 40)
    station = random.choice(40, rows, p=np.random.default_rng(100 + shares).dirichlet(np.full(40, 1.2)))
    x = random.normal(size=rows)
    y = level[station] + 0.5 * x + 0.3 * random.normal(size=rows)
    codes = pd.factorize(station)[0] if renumbers else station
    return TensorDataset(torch.tensor(np.stack([codes, x], 1)).float(), torch.tensor(y).float())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_many_codes_are_compared_by_their_means_and_shares(seed: int) -> None:
    train, val = stations(1900, seed, renumbers=True), stations(500, seed + 10, renumbers=True)
    (finding,) = d125_findings(train, val)
    assert max(finding.evidence["differences of shares"]) > 2  # type: ignore[attr-defined]
    for drift in ({}, {"levels": 1}, {"shares": 1}, {"levels": 1, "shares": 1}):
        assert d125_findings(stations(1900, seed), stations(500, seed + 10, **drift)) == []


def with_equal_heights(rows: int, seed: int, names: np.ndarray) -> TensorDataset:
    """Six kinds of trees, of which the first three have the same height, numbered in the order of ``names``."""
    random = np.random.default_rng(seed)
    kind, age = random.integers(0, len(NAMES), rows), random.uniform(-1, 1, rows)
    code = np.array([[*names].index(name) for name in NAMES[kind]])
    height = np.array([2.0, 2.0, 2.0, 6.0, 9.0, 14.0])[kind] + age
    x = torch.tensor(np.stack([code, age], 1), dtype=torch.float32)
    return TensorDataset(x, torch.tensor(height, dtype=torch.float32))


def test_only_pairs_of_codes_that_fit_no_other_code_are_listed() -> None:
    val_names = np.roll(NAMES, 1)
    (finding,) = d125_findings(with_equal_heights(600, 0, NAMES), with_equal_heights(400, 1, val_names))
    text = str(finding.message)  # type: ignore[attr-defined]
    pairs = text.split("validation and training codes ")[1].split(". ")[0].split(", ")
    listed = [tuple(map(int, pair.split(" and "))) for pair in pairs]
    assert sorted(listed) == [(0, 5), (4, 3), (5, 4)]
    assert all(val_names[own] == NAMES[other] for own, other in listed)


CODED = """\
from functools import partial
import numpy as np
import pandas as pd
import torch
from torch.utils.data import DataLoader, TensorDataset
from tests.rules.data.test_renumbered_codes import NAMES, frame
COLUMNS = ["kind", "soil"]
def alone(table, names):
    columns = []
    for column in COLUMNS:
        codes = pd.factorize(table[column])[0]  # here
        columns.append(codes)
    return np.stack(columns, axis=1)
def shared(table, names):
    return np.stack([pd.Categorical(table[c], categories=names).codes for c in COLUMNS], axis=1)
def first(names, table):
    return alone(table, names)
class Encoder:
    def encode(self, table, names):
        return alone(table, names)
encoder = Encoder()
def tensors(table, encode, names):
    x = np.concatenate([encode(table, names), table[["age"]].to_numpy()], axis=1)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(table["height"].to_numpy(), dtype=torch.float32)
def build(train, val, shares):
    encode = {encode}
    return TensorDataset(*tensors(train, encode, NAMES)), TensorDataset(*tensors(val, encode, NAMES))
def table(rows, seed, name):
    return frame(rows, seed, first=name).assign(soil=NAMES[np.random.default_rng(seed).integers(0, 6, rows)])
train, val = build(table(600, 0, "ash"), table(300, 1, "oak"), False)
train_loader, val_loader = DataLoader(train, 20, shuffle=True), DataLoader(val, 20)
"""


@pytest.mark.parametrize(
    "encode",
    [
        "alone",
        "shared if shares else alone",
        "lambda table, names: shared(table, names) if shares else alone(table, names)",
        "partial(alone)",
        "encoder.encode",
        "lambda table, names, code=alone: code(table, names)",
    ],
)
def test_codes_of_a_function_that_is_passed_are_reported_at_its_line(
    encode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load_module(tmp_path / "program_with_codes.py", CODED.replace("{encode}", encode))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    setup = Setup(nn.Linear(3, 1), module.train_loader, module.val_loader, loss_fn=nn.MSELoss())
    setup.files = {str(module.__file__)}
    (finding,) = rule_faults(setup, "D125")
    assert source_line(finding).endswith("# here"), str(finding)
