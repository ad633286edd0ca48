"""Each rule about data finds its fault on the other side too: in either split, too small as well as too large."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding

Change = Callable[[Tensor, Tensor], object]
_SPLITS = ("train", "val")


def clusters() -> list[list[Tensor]]:
    """600 and 300 points of three classes, which can be told apart, with unequal shares."""
    generator = torch.Generator().manual_seed(0)
    y = torch.multinomial(torch.tensor([0.5, 0.3, 0.2]), 900, replacement=True, generator=generator)
    x = 3 * torch.randn(3, 8, generator=generator)[y] + torch.randn(900, 8, generator=generator)
    x = (x - x.mean(0)) / x.std(0)
    return [[x[:600].clone(), y[:600].clone()], [x[600:].clone(), y[600:].clone()]]


def find(
    code: str, splits: list[list[Tensor]], datasets: Callable[..., Dataset[object]] = TensorDataset
) -> list[Finding]:
    """The findings of a rule on the splits."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    train, val = (datasets(*split) for split in splits)
    loaders = DataLoader(train, 32, shuffle=True), DataLoader(val, 64)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    dbg = Debugger(model, *loaders, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    return [finding for finding in dbg.checkup(select=[code]) if finding.code == code]


def scale(factor: float, offset: float = 0.0, column: int | slice = slice(None)) -> Change:
    """Multiply and move the values."""
    return lambda x, y: x[:, column].mul_(factor).add_(offset)


def fill(value: float, step: int = 9) -> Change:
    """Replace some values of a column."""
    return lambda x, y: x[::step, 2].fill_(value)


def copy_half(x: Tensor, y: Tensor) -> None:
    half = len(x) // 2
    x[half:], y[half:] = x[:half].clone(), y[:half].clone()


def flip(x: Tensor, y: Tensor) -> None:
    y[: len(y) // 12] = (y[: len(y) // 12] + 1) % 3


def contradict(x: Tensor, y: Tensor) -> None:
    quarter = len(y) // 4
    x[:quarter], y[:quarter] = x[quarter : 2 * quarter].clone(), (y[quarter : 2 * quarter] + 1) % 3


def shuffle(x: Tensor, y: Tensor) -> None:
    y.copy_(y[torch.randperm(len(y), generator=torch.Generator().manual_seed(1))])


def add_class(x: Tensor, y: Tensor) -> None:
    y[y == 2] = 0
    y[len(y) // 2 :] = 1


_OF_EITHER_SPLIT: dict[str, tuple[str, Change]] = {
    "class beyond the outputs": ("D101", lambda x, y: y[3:4].fill_(7)),
    "negative class": ("D101", lambda x, y: y[3:4].fill_(-1)),
    "NaN": ("D103", fill(float("nan"))),
    "minus infinity": ("D103", fill(float("-inf"))),
    "shuffled labels": ("D105", shuffle),
    "copies": ("D107", copy_half),
    "255 times larger": ("D109", scale(255.0)),
    "255 times smaller": ("D109", scale(1 / 255)),
    "higher level": ("D109", scale(1.0, 100.0)),
    "lower level": ("D109", scale(1.0, -100.0)),
    "one column 100 times larger": ("D109", scale(100.0, column=2)),
    "one column 100 times smaller": ("D109", scale(0.01, column=2)),
    "more of a class": ("D110", add_class),
    "wrong labels": ("D111", flip),
    "constant column": ("D112", fill(1.5, 1)),
    "a low number for missing values": ("D113", fill(-999.0)),
    "a high number for missing values": ("D113", fill(999.0)),
    "a value far above": ("D114", lambda x, y: x[5:6, 3].fill_(1e4)),
    "a value far below": ("D114", lambda x, y: x[5:6, 3].fill_(-1e4)),
    "missing first class": ("D119", lambda x, y: y.masked_fill_(y == 0, 1)),
    "missing last class": ("D119", lambda x, y: y.masked_fill_(y == 2, 1)),
    "contradicting labels": ("D122", contradict),
    "another numbering": ("D125", lambda x, y: y.copy_((y + 1) % 3)),
}


@pytest.mark.parametrize("split", _SPLITS)
@pytest.mark.parametrize("fault", _OF_EITHER_SPLIT)
def test_fault_is_found_in_either_split(fault: str, split: str) -> None:
    code, change = _OF_EITHER_SPLIT[fault]
    splits = clusters()
    change(*splits[_SPLITS.index(split)])
    assert find(code, splits)


@pytest.mark.parametrize("code", sorted({code for code, _ in _OF_EITHER_SPLIT.values()} | {"D104", "D108"}))
def test_same_data_without_fault_is_quiet(code: str) -> None:
    assert not find(code, clusters())


@pytest.mark.parametrize(
    "change",
    [
        scale(1e3),
        scale(1e-3),
        scale(1e-5),
        scale(1.0, 300.0),
        scale(1.0, -300.0),
        scale(1e4, column=2),
        scale(1e-4, column=2),
    ],
    ids=["large", "small", "tiny", "high", "low", "one large column", "one tiny column"],
)
def test_scale_is_found_above_and_below(change: Change) -> None:
    splits = clusters()
    for split in splits:
        change(*split)
    assert find("D104", splits)


@pytest.mark.parametrize("split", _SPLITS)
def test_samples_of_the_other_split_are_found(split: str) -> None:
    splits = clusters()
    target = _SPLITS.index(split)
    splits[target][0][:60], splits[target][1][:60] = splits[1 - target][0][:60], splits[1 - target][1][:60]
    assert find("D108", splits)


class FaultySamples(TensorDataset):
    """Samples of which some raise or have another dtype, if their number is that of the faulty split."""

    def __init__(self, *tensors: Tensor, rows: int, raises: bool) -> None:
        super().__init__(*tensors)
        self.is_faulty, self.raises = len(tensors[0]) == rows, raises

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        x, y = super().__getitem__(index)
        if self.is_faulty and index % 40 == 7:
            if self.raises:
                raise ValueError("the file is damaged")
            x = x.double()
        return x, y


@pytest.mark.parametrize("rows", [600, 300])
@pytest.mark.parametrize(("code", "raises"), [("D121", True), ("D120", False)])
def test_faulty_samples_are_found_in_either_split(code: str, raises: bool, rows: int) -> None:
    assert find(code, clusters(), lambda *split: FaultySamples(*split, rows=rows, raises=raises))
    assert not find(code, clusters(), lambda *split: FaultySamples(*split, rows=0, raises=raises))


def test_message_and_aspect_name_validation() -> None:
    texts = {}
    for fault in ("a low number for missing values", "a value far above", "constant column", "copies"):
        code, change = _OF_EITHER_SPLIT[fault]
        splits = clusters()
        change(*splits[1])
        (finding,) = find(code, splits)
        assert finding.aspect == "validation"
        texts[code] = finding.message
    assert all("validation" in text for text in texts.values())


def test_fault_of_both_splits_is_reported_once() -> None:
    for fault in ("a low number for missing values", "a value far above", "constant column"):
        code, change = _OF_EITHER_SPLIT[fault]
        splits = clusters()
        for split in splits:
            change(*split)
        assert [finding.aspect for finding in find(code, splits)] == [""]


def test_rare_indicator_that_is_constant_by_chance_is_quiet() -> None:
    splits = clusters()
    for x, _ in splits:
        x[:, 4] = 0.0
    splits[0][0][:4, 4] = 1.0
    assert not find("D112", splits)


def test_gradually_falling_deviations_are_quiet() -> None:
    splits = clusters()
    for split in splits:
        split[0] *= 3.0 ** -torch.arange(8.0)
    assert not any(finding.aspect == "hidden columns" for finding in find("D104", splits))
