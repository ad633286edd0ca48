"""Labeled sets that come with packages, for the benchmarks of data(); no package is required.

The reviews are read from the source archive of vaderSentiment in the working directory:

    pip download vaderSentiment==3.3.2 --no-deps --no-binary :all:
"""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import Tensor

_Item = TypeVar("_Item")
_REVIEWS = Path("vaderSentiment-3.3.2.tar.gz")
_LANGUAGES = ("nl_NL", "fi_FI", "sv_SE", "et_EE", "de_DE", "fr_FR", "hr_HR", "it_IT")
_NAMES_PER_LANGUAGE, _LETTERS = 400, 14
_PATCH, _MIN_CONTRAST = 32, 0.05
_PHOTOS = ("astronaut", "chelsea", "coffee", "rocket", "ihc")
_REVIEW_COUNT, _WORDS, _VOCABULARY, _MIN_RATING = 4_000, 30, 4_000, 1.0


def _package_folder(package: str) -> Path:
    """Return the folder of an installed package, which is not imported."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def digits() -> tuple[Tensor, Tensor]:
    """1,797 images of 8 × 8 with values from 0 to 1."""
    loaded = load_digits()
    return torch.tensor(loaded.images / 16, dtype=torch.float32)[:, None], torch.tensor(loaded.target)


def breast_cancer() -> tuple[Tensor, Tensor]:
    """569 rows of 30 standardized columns."""
    loaded = load_breast_cancer()
    x = torch.tensor(loaded.data, dtype=torch.float32)
    return (x - x.mean(0)) / x.std(0), torch.tensor(loaded.target)


def titanic() -> tuple[Tensor, Tensor]:
    """1,313 passengers: class, sex, age (missing for many) and length of the name."""
    import pandas as pd

    frame = pd.read_csv(_package_folder("bokeh_sampledata") / "_data" / "titanic_all.csv")
    columns = [
        pd.to_numeric(frame["class"].str[0], errors="coerce"),
        (frame["sex"] == "female").astype(float),
        frame["age"],
    ]
    table = np.stack([*columns, frame["name"].str.len().astype(float)], 1)
    return torch.tensor(table, dtype=torch.float32), torch.tensor(frame["survived"].to_numpy())


def sensor_windows() -> tuple[Tensor, Tensor]:
    """1,500 windows of 64 steps and 3 channels of noisy oscillations, in 4 classes of frequency."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 4, (1500,), generator=generator)
    steps = torch.arange(64.0)
    phase = 6.28 * torch.rand(1500, 1, 3, generator=generator)
    x = torch.sin(steps[None, :, None] * (0.15 + 0.1 * y[:, None, None]) + phase)
    return x * (1 + 0.2 * torch.rand(1500, 1, 3, generator=generator)) + 0.4 * torch.randn(
        1500, 64, 3, generator=generator
    ), y


def names() -> tuple[Tensor, Tensor]:
    """Up to 400 surnames in each of 8 languages (faker), as codes of letters padded with 0."""
    rows = list[tuple[str, int]]()
    for number, locale in enumerate(_LANGUAGES):
        provider = import_module(f"faker.providers.person.{locale}").Provider
        surnames = sorted({name.lower() for name in provider.last_names if name.isalpha()})
        rows += [(name, number) for name in _evenly(surnames, _NAMES_PER_LANGUAGE)]
    letters = sorted(set("".join(name for name, _ in rows)))
    codes = [[letters.index(letter) + 1 for letter in name[:_LETTERS]] for name, _ in rows]
    return _pad(codes, _LETTERS), torch.tensor([number for _, number in rows])


def reviews() -> tuple[Tensor, Tensor]:
    """Up to 4,000 different reviews that 20 raters judged clearly positive or negative, as codes of words."""
    with tarfile.open(_REVIEWS) as outer:
        inner = next(item for item in outer.getmembers() if item.name.endswith("ICWSM_2014.tar.gz"))
        archive = outer.extractfile(inner)
        assert archive is not None
        with tarfile.open(fileobj=BytesIO(archive.read())) as files:
            texts = files.extractfile("hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt")
            assert texts is not None
            lines = [line.split("\t", 2) for line in texts.read().decode("utf-8", "replace").splitlines()]
    clear = [(float(rating), re.findall(r"[a-z']+", text.lower())) for _, rating, text in lines]
    clear = _evenly([row for row in clear if abs(row[0]) >= _MIN_RATING], _REVIEW_COUNT)
    counts = Counter(word for _, words in clear for word in words)
    codes = {word: code for code, (word, _) in enumerate(counts.most_common(_VOCABULARY), 2)}  # 1 is unknown
    rows = [[codes.get(word, 1) for word in words[:_WORDS]] for _, words in clear]
    distinct = {tuple(row): int(rating > 0) for row, (rating, _) in zip(rows, clear, strict=True)}
    return _pad([list(row) for row in distinct], _WORDS), torch.tensor(list(distinct.values()))


def _evenly(items: list[_Item], count: int) -> list[_Item]:
    """Return up to so many items, evenly spaced."""
    return [items[i * len(items) // count] for i in range(count)] if len(items) > count else items


def _pad(rows: list[list[int]], length: int) -> Tensor:
    return torch.tensor([row + [0] * (length - len(row)) for row in rows])


def watch() -> tuple[Tensor, Tensor]:
    """2,229 windows of 200 steps and 6 channels of a smartwatch, in 7 exercises (seglearn); neighbors share half."""
    x, y, _ = smartwatch()
    return x, y


def smartwatch(step: int = 100) -> tuple[Tensor, Tensor, Tensor]:
    """The windows of the smartwatch, every so many steps, with the subject of each."""
    recordings = np.load(_package_folder("seglearn") / "data" / "watch_dataset.npy", allow_pickle=True).item()
    places = [(row, start) for row, x in enumerate(recordings["X"]) for start in range(0, len(x) - 199, step)]
    windows = np.stack([recordings["X"][row][start : start + 200] for row, start in places])
    y, subjects = (torch.tensor([int(recordings[key][row]) for row, _ in places]) for key in ("y", "subject"))
    return torch.tensor(windows).float(), y, subjects


def watch_apart() -> tuple[Tensor, Tensor]:
    """The windows of the smartwatch that share no steps."""
    x, y, _ = smartwatch(step=200)
    return x, y


def patches() -> tuple[Tensor, Tensor]:
    """Patches of 32 × 32 of photographs, the classes, which do not overlap and are not smooth (scikit-image)."""
    from skimage import data as photos
    from sklearn.datasets import load_sample_images

    images = [*load_sample_images().images]
    for name in _PHOTOS:
        try:
            images.append(getattr(photos, name)())
        except Exception:  # a photograph that the package would have to download
            continue
    parts = [_cut(torch.tensor(image[..., :3])) for image in images]
    cut = torch.cat(parts).float() / 255
    y = torch.repeat_interleave(torch.arange(len(parts)), torch.tensor([len(part) for part in parts]))
    is_varied = cut.mean(1).flatten(1).std(1) > _MIN_CONTRAST
    return cut[is_varied], y[is_varied]


def _cut(image: Tensor) -> Tensor:
    rows = image.permute(2, 0, 1).unfold(1, _PATCH, _PATCH).unfold(2, _PATCH, _PATCH)
    return rows.permute(1, 2, 0, 3, 4).reshape(-1, 3, _PATCH, _PATCH)


SETS: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
    "digits": digits,
    "breast cancer": breast_cancer,
    "sensor windows": sensor_windows,
}
for _package, _name, _load in (
    ("bokeh_sampledata", "titanic", titanic),
    ("faker", "names", names),
    ("seglearn", "watch", watch),
    ("seglearn", "watch apart", watch_apart),
    ("skimage", "patches", patches),
):
    if find_spec(_package) is not None:
        SETS[_name] = _load
if _REVIEWS.exists():
    SETS["reviews"] = reviews
