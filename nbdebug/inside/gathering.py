"""The others on their way through the layers, held against one sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nbdebug.inside.nearness import ClassMeans
from nbdebug.inside.others import Others
from nbdebug.inside.passing import Passing, Place
from nbdebug.inside.path import Path
from nbdebug.inside.summary import Summary

CLASSES = 10  # that are held against the sample
FEW = 2  # samples without which a class has no mean here


@dataclass
class Gathering:
    """A sample with what it left at each place, and the samples that it is held against."""

    passing: Passing
    mine: dict[Place, Summary]
    scores: Tensor | None
    others: Others

    @property
    def places(self) -> list[Place]:
        """The layers of the path."""
        return [(one.name, one.call) for one in self.passing.steps]

    def path(self, truth: int | None, names: tuple[str, ...] | None, notes: list[str]) -> Path:
        """The path with everything that it is beside."""
        labels, said = self.labels()
        predicted = self.predicted(labels)
        classes = [] if labels is None else self.classes(labels, predicted, truth)
        sizes, means = self.first(labels, classes)
        labels = None if labels is None else labels[: len(sizes)]
        cosines, apart = self.second(labels, means)
        counts = tuple(0 if labels is None else int((labels == one).sum()) for one in classes)
        layers = tuple(self.passing.steps)
        own = torch.stack([self.mine[place].sizes[0] for place in self.places]).double().numpy()
        return Path(
            layers, own, sizes, None if labels is None else labels.numpy(), tuple(classes), counts, cosines, apart,
            predicted, truth, names, (*notes, *said),
        )  # fmt: skip

    def labels(self) -> tuple[Tensor | None, list[str]]:
        """The classes of the others; what the model says of them where nothing else is known."""
        if self.others.labels is not None or not self.others.guess or self.scores is None or len(self.scores[0]) < 2:
            return self.others.labels, []
        bare = Passing(self.passing.look, ())
        found = [scores.argmax(1) for _, scores in map(bare.run, self.others.parts()) if scores is not None]
        labels = torch.cat(found)
        self.others = self.others.first(len(labels))
        said = ["The others count as what the model says of them, since their true classes are not known."]
        return (labels, said) if len(labels) == len(self.others) else (None, [])

    def predicted(self, labels: Tensor | None) -> int | None:
        """What the model says of the sample; of one output the side of 0, or of 0.5 for a chance."""
        if self.scores is None or labels is None:
            return None
        if self.scores.shape[1] > 1:
            return int(self.scores.argmax(1))
        value = float(self.scores[0, 0])
        return None if int(labels.max()) > 1 else int(value > (0.5 if 0 <= value <= 1 else 0))

    def classes(self, labels: Tensor, predicted: int | None, truth: int | None) -> list[int]:
        """The classes that it is held against: its own, what is said of it, and what else the model thinks likely."""
        counts = torch.bincount(labels)
        known = [int(one) for one in (counts >= FEW).nonzero()[:, 0]]
        many = self.scores is not None and self.scores.shape[1] > 1
        likely = {} if not many else dict(enumerate(self.scores[0].tolist()))  # type: ignore[index]
        first = [one for one in (truth, predicted) if one in known]
        rest = sorted((one for one in known if one not in first), key=lambda one: (-likely.get(one, 0.0), one))
        kept = sorted([*dict.fromkeys(first), *rest][:CLASSES])
        return kept if len(kept) > 1 else []

    def first(self, labels: Tensor | None, classes: list[int]) -> tuple[np.ndarray, list[ClassMeans]]:
        """The sizes of all others, samples × layers × 3, and the means of classes at each layer."""
        means = [ClassMeans(torch.tensor(classes), self.mine[place].vectors.shape[1]) for place in self.places]
        sizes, start = [], 0
        for found, _ in map(self.passing.run, self.others.parts()):
            size = self.passing.size
            sizes.append(torch.stack([sizes_of(found.get(place), size) for place in self.places], 1))
            if labels is not None and classes:
                for place, mean in zip(self.places, means, strict=True):
                    if place in found:
                        mean.add(found[place].vectors, labels[start : start + size])
            start += size
        self.others = self.others.first(start)
        return torch.cat(sizes).double().numpy(), means if classes else []

    def second(self, labels: Tensor | None, means: list[ClassMeans]) -> tuple[np.ndarray, np.ndarray]:
        """The cosines of the sample, layers × classes, and how many others each layer tells apart, by a second pass."""
        count = len(self.places)
        if labels is None or not means:
            return np.full((count, 0), np.nan), np.full(count, np.nan)
        cosines = [mean.cosines(self.mine[place].vectors)[0] for place, mean in zip(self.places, means, strict=True)]
        right, asked, start = torch.zeros(count), torch.zeros(count), 0
        for found, _ in map(self.passing.run, self.others.parts(limited=False)):
            own = labels[start : start + self.passing.size]
            start += self.passing.size
            for at, (place, mean) in enumerate(zip(self.places, means, strict=True)):
                if place in found:
                    hits = told_apart(mean, found[place].vectors, own)
                    right[at] += hits.sum()
                    asked[at] += len(hits)
        return torch.stack(cosines).numpy(), (right / asked).double().numpy()


def sizes_of(found: Summary | None, size: int) -> Tensor:
    """The sizes of some samples; NaN where a layer was not reached."""
    return torch.full((size, 3), torch.nan) if found is None else found.sizes


def told_apart(mean: ClassMeans, vectors: Tensor, labels: Tensor) -> Tensor:
    """Which of the samples that were taken in look most like their own class, each left out of its mean."""
    counted = mean.member(labels).any(1)
    near = mean.cosines(vectors[counted], labels[counted]).nan_to_num(-2).argmax(1)
    return mean.classes[near] == labels[counted]
