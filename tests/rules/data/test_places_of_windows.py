"""Tests of the line that D115 names for windows of a series that include their targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from nbdebug.finding import Finding
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import source_line
from tests.rules.rule_findings import rule_faults

HEADER = """\
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset
generator = np.random.default_rng(0)
series = generator.normal(size=400).cumsum().astype("float32")
several = generator.normal(size=(400, 3)).cumsum(0).astype("float32")
"""
LOADER = "x, y = make_windows({}, 12)\nloader = DataLoader(TensorDataset(x, y), batch_size=16)\n"
_LISTS = "def make_windows(series, width):\n    xs, ys = [], []\n    for i in range(len(series) - width):\n"
_RETURN = "    return torch.tensor(np.array(xs)), torch.tensor(np.array(ys))[:, None]\n"

# The line with "here" selects a window that is too long, or a target that is too early.
WINDOWS = {
    "an early target": (
        f"{_LISTS}        xs.append(series[i:i + width])\n        ys.append(series[i + width - 1])  # here\n{_RETURN}"
    ),
    "a late window": (
        f"{_LISTS}        xs.append(series[i + 1:i + width + 1])  # here\n"
        f"        ys.append(series[i + width])\n{_RETURN}"
    ),
    "a long window": (
        f"{_LISTS}        xs.append(series[i:i + width + 1])  # here\n        ys.append(series[i + width])\n{_RETURN}"
    ),
    "a target in a variable": (
        f"{_LISTS}        end = i + width\n        target = series[end - 1]  # here\n"
        f"        xs.append(series[i:end])\n        ys.append(target)\n{_RETURN}"
    ),
    "comprehensions": (
        "def make_windows(series, width):\n    count = len(series) - width\n"
        "    xs = np.stack([series[i:i + width] for i in range(count)])\n"
        "    ys = [series[i + width - 1] for i in range(count)]  # here\n"
        "    return torch.tensor(xs), torch.tensor(ys)[:, None]\n"
    ),
    "rows of arrays": (
        "def make_windows(series, width):\n    count = len(series) - width\n"
        "    xs, ys = np.empty((count, width), 'float32'), np.empty((count, 1), 'float32')\n"
        "    for i in range(count):\n        xs[i] = series[i:i + width]\n"
        "        ys[i] = series[i + width - 1]  # here\n"
        "    return torch.from_numpy(xs), torch.from_numpy(ys)\n"
    ),
    "two branches": (
        "def make_windows(series, width, early=True):\n    xs, ys = [], []\n"
        "    if early:\n        end = width - 1\n    else:\n        end = width\n"
        "    for i in range(len(series) - width):\n        xs.append(series[i:i + width])\n"
        "        if early:\n            ys.append(series[i + end])  # here\n"
        f"        else:\n            ys.append(series[i + width])\n{_RETURN}"
    ),
    "tensors": (
        f"{_LISTS}        xs.append(torch.from_numpy(series[i:i + width]))\n"
        "        ys.append(torch.tensor(series[i + width - 1]))  # here\n"
        "    return torch.stack(xs), torch.stack(ys)[:, None]\n"
    ),
}
_ITEMS = (
    "from torch.utils.data import Dataset\nclass Windows(Dataset):\n"
    "    def __init__(self, series, width, offset=0):\n"
    "        self.series, self.width, self.offset = torch.tensor(series), width, offset\n"
    "    def __len__(self): return len(self.series) - self.width\n    def __getitem__(self, i):\n"
)
_ITEM_LOADER = "x = torch.zeros(2, {})\nloader = DataLoader(Windows(series, 12, {}), batch_size=16)\n"
ITEMS = {
    "an early target": (
        f"{_ITEMS}        past = self.series[i:i + self.width]\n"
        "        target = self.series[i + self.width + self.offset]  # here\n        return past, target.unsqueeze(0)\n"
        + _ITEM_LOADER.format(12, -1)
    ),
    "a long window": (
        f"{_ITEMS}        past = self.series[i:i + self.width + 1]  # here\n"
        "        return past, self.series[i + self.width].unsqueeze(0)\n" + _ITEM_LOADER.format(13, 0)
    ),
    "a method for the index": (
        f"{_ITEMS}        past = self.series[i:i + self.width]\n"
        "        return past, self.series[self.target_of(i)].unsqueeze(0)\n"
        "    def target_of(self, i):\n        return i + self.width + self.offset  # here\n"
        + _ITEM_LOADER.format(12, -1)
    ),
    "two branches": (
        f"{_ITEMS}        if self.offset:\n            past = self.series[i:i + self.width + 1]  # here\n"
        "        else:\n            past = self.series[i:i + self.width]\n"
        "        return past, self.series[i + self.width].unsqueeze(0)\n" + _ITEM_LOADER.format(13, 1)
    ),
    "a branch that depends on the item": (
        f"{_ITEMS}        if i > 0:\n            target = self.series[i + self.width - 1]  # here\n"
        "        else:\n            target = self.series[self.width - 1]\n"
        "        return self.series[i:i + self.width], target.unsqueeze(0)\n" + _ITEM_LOADER.format(12, 0)
    ),
    "several early steps": (
        f"{_ITEMS}        past = self.series[i:i + self.width]\n"
        "        coming = self.series[i + self.width - 1:i + self.width]  # here\n        return past, coming\n"
        + _ITEM_LOADER.format(12, 0)
    ),
}
# The window, the target or both are made by methods or functions of the user.
METHODS = {
    "a target of a method": (
        f"{_ITEMS}        return self.series[i:i + self.width], self.target(i).unsqueeze(0)\n"
        "    def target(self, i):\n        return self.series[i + self.width - 1]  # here\n"
        + _ITEM_LOADER.format(12, 0)
    ),
    "a target in a variable": (
        f"{_ITEMS}        past = self.series[i:i + self.width]\n        target = self.target(start=i)\n"
        "        return past, target.float().view(1)\n    def target(self, start):\n"
        "        end = start + self.width\n        return self.series[start + self.width - 1]  # here\n"
        + _ITEM_LOADER.format(12, 0)
    ),
    "both of methods": (
        f"{_ITEMS}        return self.past(i), self.coming(i)\n"
        "    def past(self, i):\n        return self.series[i:i + self.width]\n    def coming(self, i):\n"
        "        return self.series[i + self.width - 1:i + self.width]  # here\n" + _ITEM_LOADER.format(12, 0)
    ),
    "a long window of a method": (
        f"{_ITEMS}        return self.past(i), self.series[i + self.width].unsqueeze(0)\n"
        "    def past(self, i):\n        return self.series[i:i + self.width + 1]  # here\n"
        + _ITEM_LOADER.format(13, 0)
    ),
    "a method of a method": (
        f"{_ITEMS}        return self.series[i:i + self.width], self.target(i).unsqueeze(0)\n"
        "    def target(self, i):\n        return self.at(i + self.width + self.offset)\n"
        "    def at(self, step):\n        return self.series[step]  # here\n" + _ITEM_LOADER.format(12, -1)
    ),
    "a function of the series": (
        f"def value_at(values, step):\n    return values[step]  # here\n{_ITEMS}"
        "        return self.series[i:i + self.width], value_at(self.series, i + self.width - 1).unsqueeze(0)\n"
        + _ITEM_LOADER.format(12, 0)
    ),
    "a method of a parent class": (
        _ITEMS.replace("class Windows(", "class Base(")
        + "        return self.series[i:i + self.width], self.target(i).unsqueeze(0)\n"
        "    def target(self, i):\n        return self.series[i + self.width]\n"
        "class Windows(Base):\n    def target(self, i):\n        return self.series[i + self.width - 1]  # here\n"
        + _ITEM_LOADER.format(12, 0)
    ),
}
_SEVERAL_ITEMS = _ITEMS.replace("torch.tensor(series)", "torch.tensor(series)[:, 0]").replace(
    "    def __len__", "        self.wind = torch.tensor(series)[:, 1]\n    def __len__"
)
_SEVERAL_LOADER = _ITEM_LOADER.replace("Windows(series", "Windows(several")
JOINED_ITEMS = {
    "an early target": (
        f"{_SEVERAL_ITEMS}        past = slice(i, i + self.width)\n"
        "        target = self.series[i + self.width - 1]  # here\n"
        "        return torch.stack([self.series[past], self.wind[past]], dim=1), target.unsqueeze(0)\n"
        + _SEVERAL_LOADER.format("12, 2", 0)
    ),
    "windows in a variable": (
        f"{_SEVERAL_ITEMS}        end = i + self.width\n"
        "        past = torch.column_stack([self.wind[i:end], self.series[i:end]])\n"
        "        level = self.series[end + self.offset]  # here\n        return past.float(), level.unsqueeze(0)\n"
        + _SEVERAL_LOADER.format("12, 2", -1)
    ),
    "a long window": (
        f"{_SEVERAL_ITEMS}        level = self.series[i:i + self.width + 1]  # here\n"
        "        wind = self.wind[i:i + self.width + 1]\n        past = torch.stack([wind, level], 1)\n"
        "        return past, self.series[i + self.width].unsqueeze(0)\n" + _SEVERAL_LOADER.format("13, 2", 0)
    ),
}
_VIEW = "    windows = np.lib.stride_tricks.sliding_window_view(series, width)\n"
_ARRAYS = "    return torch.from_numpy(x.copy()), torch.from_numpy(y.copy()).unsqueeze(1)\n"
_MAKER = "def make_windows(series, width):\n"
# Arrays of all windows, or of shifted slices, and targets that are a slice of the series or a column of the windows.
SLICES = {
    "an early slice": f"{_MAKER}{_VIEW}    x, y = windows, None\n    y = series[width - 1:]  # here\n{_ARRAYS}",
    "one of two branches, at a setting": (
        "from types import SimpleNamespace\n"
        "def make_windows(series, width, early=True):\n    cfg = SimpleNamespace(width=width)\n"
        "    x = np.lib.stride_tricks.sliding_window_view(series, cfg.width)\n    if bool(early):\n"
        "        y = series[cfg.width - 1:]  # here\n    else:\n        x, y = x[:-1], series[cfg.width:]\n" + _ARRAYS
    ),
    "unfold": (
        f"{_MAKER}    values = torch.tensor(series)\n    x = values.unfold(0, width, 1)\n"
        "    y = values[width - 1:]  # here\n    return x, y[:, None]\n"
    ),
    "a slice of a tensor": (
        f"{_MAKER}    x = torch.tensor(series).unfold(0, width, 1)\n"
        "    y = torch.tensor(series)[width - 1:].reshape(-1, 1)  # here\n    return x, y\n"
    ),
    "windows that start one step later": (
        f"{_MAKER}{_VIEW}    x = windows[1:]  # here\n    y = series[width:]\n{_ARRAYS}"
    ),
    "windows that are one step longer": (
        f"{_MAKER}    x = np.lib.stride_tricks.sliding_window_view(series, width + 1)  # here\n"
        f"    y = series[width:]\n{_ARRAYS}"
    ),
    "a column of the windows": (
        f"{_MAKER}    windows = np.lib.stride_tricks.sliding_window_view(series, width + 1)\n"
        f"    x = windows[:, 1:]  # here\n    y = windows[:, -1]\n{_ARRAYS}"
    ),
    "another column of the windows": (
        f"{_MAKER}    windows = np.lib.stride_tricks.sliding_window_view(series, width + 1)\n"
        f"    x = windows[:, :-1]\n    y = windows[:, -2]  # here\n{_ARRAYS}"
    ),
    "windows of a loop": (
        f"{_MAKER}    count = len(series) - width\n    x = np.stack([series[i:i + width] for i in range(count)])\n"
        f"    y = series[width - 1:-1]  # here\n{_ARRAYS}"
    ),
    "shifted slices": (
        f"{_MAKER}    count = len(series) - width\n"
        "    x = np.stack([series[lag:lag + count] for lag in range(width)], axis=1)\n"
        f"    y = series[width - 1:-1]  # here\n{_ARRAYS}"
    ),
}
# The offset is right, or may be; another column reveals the target. The line with "here" makes the inputs as before.
OTHER_LEAKS = {
    "another column": (
        f"{_LISTS}        xs.append(series[i:i + width])\n        ys.append(series[i + width, 0])\n"
        "    return torch.tensor(np.array(xs)), torch.tensor(np.array(ys))[:, None]  # here\n",
        "np.stack([several[:, 0], np.roll(several[:, 0], -1)], 1)",
    ),
    "an unknown horizon": (
        "def make_windows(series, width, horizon=0):\n    xs, ys = [], []\n"
        "    for i in range(len(series) - width):\n        xs.append(series[i:i + width])\n"
        "        ys.append(series[i + horizon])\n"
        "    return torch.tensor(np.array(xs)), torch.tensor(np.array(ys))[:, None]  # here\n",
        "series",
    ),
    "right slices of windows of another column": (
        f"{_MAKER}{_VIEW.replace('width)', 'width, axis=0)')}    x, y = windows[:-1], series[width:, 0]\n"
        "    return torch.from_numpy(x.copy()), torch.from_numpy(y.copy())[:, None]  # here\n",
        "np.stack([several[:, 0], np.roll(several[:, 0], -1)], 1)",
    ),
    "a slice at an unknown horizon": (
        f"def make_windows(series, width, horizon=0):\n{_VIEW}    x, y = windows, series[horizon:][:len(windows)]\n"
        "    return torch.from_numpy(x.copy()), torch.from_numpy(y.copy())[:, None]  # here\n",
        "series",
    ),
}


def window_finding(text: str, file: Path) -> Finding:
    file.write_text(text, encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, str(file), "exec"), scope)
    model = nn.Sequential(nn.Flatten(), nn.LazyLinear(1))
    model(scope["x"][:2])
    setup = Setup(model, scope["loader"], loss_fn=nn.MSELoss())
    setup.files = {str(file)}
    finding, *_ = rule_faults(setup, "D115")
    return finding


_STEP = "def make_windows(several, width):\n    action = several[:, 2] ** 2\n    state = several[1:, :2]\n"
_PAIR = "    return torch.tensor(x), torch.tensor(y)\n"
# The last action among the inputs is the one to be predicted: both are slices from the same step on.
STEPS = {
    "a variable": (
        f"{_STEP}    last = action[1:]  # here\n    x, y = np.column_stack([state, last]), action[1:, None]\n{_PAIR}"
    ),
    "a branch": (
        f"{_STEP}    if width > 20:\n        last = action[:-1]\n    else:\n        last = action[1:]  # here\n"
        f"    x, y = np.column_stack([state, last]), action[1:, None]\n{_PAIR}"
    ),
    "a later step": (
        f"{_STEP}    last = action[width:, None]  # here\n    y = action[width:, None]\n"
        f"    x = np.concatenate([state[width - 1:], last], 1)\n{_PAIR}"
    ),
    "tensors": (
        f"{_STEP}    action = torch.tensor(action)\n    target = action[1:].unsqueeze(1)\n"
        "    last = action[1:]  # here\n"
        "    x = torch.cat([torch.tensor(state), last[:, None]], 1)\n    return x, target\n"
    ),
    "a function of both": (
        "def pack(a, b):\n    return torch.tensor(a), torch.tensor(b)\n"
        f"{_STEP}    last = action[1:]  # here\n    return pack(np.column_stack([state, last]), action[1:, None])\n"
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_target_leak_names_the_line_that_puts_the_step_of_the_target_into_the_inputs(name: str, tmp_path: Path) -> None:
    finding = window_finding(HEADER + STEPS[name] + LOADER.format("several"), tmp_path / "program.py")
    assert source_line(finding).endswith("# here"), str(finding)
    assert "select a later target" in finding.fix


@pytest.mark.parametrize("name", WINDOWS | SLICES)
def test_target_leak_names_the_line_that_selects_the_window_or_its_target(name: str, tmp_path: Path) -> None:
    finding = window_finding(HEADER + (WINDOWS | SLICES)[name] + LOADER.format("series"), tmp_path / "program.py")
    assert source_line(finding).endswith("# here"), str(finding)


@pytest.mark.parametrize("name", ITEMS)
def test_target_leak_names_the_line_of_a_dataset_that_selects_the_window_or_its_target(
    name: str, tmp_path: Path
) -> None:
    finding = window_finding(HEADER + ITEMS[name], tmp_path / "program.py")
    assert source_line(finding).endswith("# here"), str(finding)
    assert finding.fix.startswith("End each window before its target")


@pytest.mark.parametrize("name", METHODS)
def test_target_leak_names_the_line_of_a_method_that_selects_the_window_or_its_target(
    name: str, tmp_path: Path
) -> None:
    finding = window_finding(HEADER + METHODS[name], tmp_path / "program.py")
    assert source_line(finding).endswith("# here"), str(finding)
    assert finding.fix.startswith("End each window before its target")


@pytest.mark.parametrize("name", JOINED_ITEMS)
def test_target_leak_names_the_line_of_a_dataset_that_joins_several_series(name: str, tmp_path: Path) -> None:
    finding = window_finding(HEADER + JOINED_ITEMS[name], tmp_path / "program.py")
    assert source_line(finding).endswith("# here"), str(finding)
    assert finding.fix.startswith("Move the target one step later")


@pytest.mark.parametrize("name", OTHER_LEAKS)
def test_target_leak_names_no_line_of_a_window_that_may_end_before_its_target(name: str, tmp_path: Path) -> None:
    body, series = OTHER_LEAKS[name]
    finding = window_finding(HEADER + body + LOADER.format(series), tmp_path / "program.py")
    assert source_line(finding).endswith("# here"), str(finding)
