"""Which class an activation looks like: the cosines to the means of classes, seen from the middle between them."""

from __future__ import annotations

import torch
from torch import Tensor

SMALLEST = 1e-24  # a squared length that counts as none


class ClassMeans:
    """Sums of the activations of one layer by class."""

    def __init__(self, classes: Tensor, length: int) -> None:
        self.classes = classes
        self.sums = torch.zeros(len(classes), length, dtype=torch.float64)
        self.counts = torch.zeros(len(classes), dtype=torch.float64)

    def member(self, labels: Tensor) -> Tensor:
        """Samples × classes, 1 where a sample is of a class."""
        return (labels[:, None] == self.classes).double()

    def add(self, vectors: Tensor, labels: Tensor) -> None:
        """Takes in samples of any classes."""
        member = self.member(labels)
        self.sums += member.T @ vectors.double()
        self.counts += member.sum(0)

    def cosines(self, vectors: Tensor, labels: Tensor | None = None) -> Tensor:
        """The cosines of samples to the means of classes, samples × classes; NaN for a class without samples.

        ``labels`` are given for samples that were taken in: each is left out of the mean of its own class. All that
        is needed are the products of the sample and the sums with each other.
        """
        vectors = vectors.double()
        size = len(self.classes)
        member = torch.zeros(len(vectors), size, dtype=torch.float64) if labels is None else self.member(labels)
        counts = self.counts - member
        known = counts > 0
        share = torch.where(known, 1 / counts.clamp_min(1), 0)
        means = torch.cat([(-member * share)[..., None], torch.diag_embed(share)], 2)
        middle = means.sum(1, keepdim=True) / known.sum(1).clamp_min(1)[:, None, None]
        own = torch.zeros(len(vectors), 1, size + 1, dtype=torch.float64)
        own[..., 0] = 1
        ours, theirs, products = own - middle, means - middle, self.products(vectors)
        dots = (theirs @ products @ ours.mT)[..., 0]
        lengths = ((theirs @ products) * theirs).sum(2) * ((ours @ products) * ours).sum(2)
        found = dots / lengths.clamp_min(SMALLEST).sqrt()
        return torch.where(known & (lengths > SMALLEST), found, torch.nan)

    def products(self, vectors: Tensor) -> Tensor:
        """The products of each sample and the sums with each other, samples × (1 + classes) × (1 + classes)."""
        size = len(self.classes) + 1
        found = torch.empty(len(vectors), size, size, dtype=torch.float64)
        found[:, 1:, 1:] = self.sums @ self.sums.T
        found[:, 0, 1:] = found[:, 1:, 0] = vectors @ self.sums.T
        found[:, 0, 0] = vectors.square().sum(1)
        return found
