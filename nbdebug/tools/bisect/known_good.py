"""Bisection against a known-good model or known-good data: halves are swapped, and judged on the same batches."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler, SequentialSampler

from nbdebug.crashes.meta import clone_tensor, copy_model
from nbdebug.exceptions import SetupError
from nbdebug.formatting import format_value, join_names
from nbdebug.preserve import Preserve
from nbdebug.setup import Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.setup.loaders import is_map_style
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.tensors.pytree import tree_leaves
from nbdebug.tools.bisect.delta_debugging import OutOfRuns, minimize
from nbdebug.tools.bisect.result import Bisection, BisectVerdict, ProbeRun
from nbdebug.tools.bisect.run_log import RunLog
from nbdebug.tools.bisect.states import Fails, describe_samples, read_state, train_steps
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.tools.try_fix.matched_run import changed_copy
from nbdebug.tools.try_fix.tool import is_trained_in_place
from nbdebug.training.changed_loaders import rebuild_loader

_FROZEN_BATCHES = 8


class _MixtureTest:
    """Judges mixtures of the user's part and the known-good one.

    By default a mixture fails if its loss on the frozen batches is nearer to the loss of the user's part than to that
    of the known-good one, or is not finite. The batches are training batches, in eval mode.
    """

    def __init__(self, setup: Setup, log: RunLog, fails: Fails | None, subject: str) -> None:
        self.log, self.own_test, self.subject = log, fails, subject
        self.batches = list(setup.batches(_FROZEN_BATCHES))
        self.limit = float("inf")

    def fails(self, treated: TreatedSetup, name: str, size: int) -> bool:
        """Judge a copy, and add the run to the log."""
        loss = None if self.own_test is not None else self._loss(treated)
        failed = bool(self.own_test(treated)) if self.own_test is not None else not _is_below(loss, self.limit)
        self.log.add(ProbeRun(name, size, score=loss, failed=failed))
        return failed

    def compare_ends(self, good: Callable[[], bool], bad: Callable[[], bool]) -> str:
        """Run the known-good end and the user's, and set the limit between them; return why they do not differ."""
        if good():
            return f"The known-good {self.subject} fails, too."
        if self.own_test is not None:
            return "" if bad() else f"Your {self.subject} passes."
        bad()
        first, second = (float(run.score) for run in self.log.runs[-2:] if run.score is not None)
        if isfinite(second) and second <= first:
            return (
                f"The loss with your {self.subject} is {format_value(second)}, and that with the known-good "
                f"{self.subject} {format_value(first)}: it is not higher. Pass fails=."
            )
        self.limit = (first + second) / 2 if isfinite(second) else float("inf")
        return ""

    def _loss(self, treated: TreatedSetup) -> float:
        with torch.no_grad(), in_mode(treated.model, False):
            losses = [float(treated.setup.output_and_loss(batch)[1]) for batch in self.batches]
        return sum(losses) / len(losses)


def _preserved(setup: Setup) -> Preserve:
    return Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader))


def _is_below(loss: float | None, limit: float) -> bool:
    return loss is not None and isfinite(loss) and loss < limit


def bisect_layers(setup: Setup, reference: Any, log: RunLog, fails: Fails | None) -> Bisection:
    """Return the modules of the user's model that fail inside a known-good one.

    Halves of the child modules are swapped, until the fewest are left that fail; a single one is opened, so that the
    deepest module is named (hierarchical delta debugging: Misherghi and Su 2006, doi:10.1145/1134285.1134307).
    ``reference`` is a model whose modules have the same names, or a state dictionary or its path.
    """
    in_place = is_trained_in_place(setup)
    with _preserved(setup), UserCodeErrors(lambda: "before the bisection"):
        layers = _Layers(setup, _known_good_model(setup, reference), _MixtureTest(setup, log, fails, "model"), in_place)
    try:
        if reason := layers.test.compare_ends(lambda: layers.fails(()), lambda: layers.fails(("",))):
            return log.result("not reproduced", reason)
        culprits = layers.culprits("")
    except OutOfRuns:
        return log.result("undecided", f"The {log.most} runs did not suffice. Allow more runs=.")
    names = tuple(path or "the model's own code or parameters" for path in culprits)
    verb = "fails" if len(names) == 1 else "fail together"
    return log.result("located", f"{join_names(names)} {verb} inside the known-good model.", candidates=names)


class _Layers:
    """Puts modules of the user's model into the known-good one."""

    def __init__(self, setup: Setup, good: nn.Module, test: _MixtureTest, in_place: bool) -> None:
        self.setup, self.good, self.test, self.in_place = setup, good, test, in_place

    def culprits(self, path: str) -> Sequence[str]:
        """Return the deepest modules that fail, of one that fails."""
        children = [f"{path}.{name}".lstrip(".") for name in _common_children(self.setup.eager_model, self.good, path)]
        if not children or not self.fails(children):
            return (path,)
        minimal = minimize(range(len(children)), lambda indices: self.fails([children[index] for index in indices]))
        return [children[index] for index in minimal] if len(minimal) > 1 else self.culprits(children[minimal[0]])

    def fails(self, paths: Sequence[str]) -> bool:
        """Judge the known-good model with the user's modules at some paths."""
        self.test.log.check()
        name = f"your {join_names(paths)}" if any(paths) else "your model" if paths else "the known-good model"
        with self._mixture(paths) as treated, UserCodeErrors(lambda: f"with {name} in the known-good model"):
            return self.test.fails(treated, name, len(paths))

    @contextmanager
    def _mixture(self, paths: Sequence[str]) -> Iterator[TreatedSetup]:
        own = self.setup.eager_model
        replaced = {self.good.get_submodule(path): own.get_submodule(path) for path in paths}
        with changed_copy(self.setup, (), [], "other", in_place=self.in_place) as treated:
            treated.model = copy_model(own if "" in paths else self.good, {} if "" in paths else replaced, clone_tensor)
            yield treated


def _known_good_model(setup: Setup, reference: Any) -> nn.Module:
    own = setup.eager_model
    if isinstance(reference, nn.Module):
        if not _common_children(own, reference, ""):
            raise SetupError("reference differs in no module that your model has; expected one. Check the names.")
        return reference
    good = copy_model(own, {}, clone_tensor)
    good.load_state_dict(read_state(reference))
    return good


def _common_children(own: nn.Module, good: nn.Module, path: str) -> list[str]:
    """Return the names of the children of a module that both models have, and that differ."""
    mine, others = dict(own.get_submodule(path).named_children()), dict(good.get_submodule(path).named_children())
    return [name for name in mine if name in others and _differ(mine[name], others[name])]


def _differ(first: nn.Module, second: nn.Module) -> bool:
    """Check whether two modules have other code, settings or tensors."""
    states = first.state_dict(), second.state_dict()
    return (
        [(name, type(part), part.extra_repr()) for name, part in first.named_modules()]
        != [(name, type(part), part.extra_repr()) for name, part in second.named_modules()]
        or states[0].keys() != states[1].keys()
        or not all(_is_same(states[0][name], states[1][name]) for name in states[0])
    )


def _is_same(first: Any, second: Any) -> bool:
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return first.shape == second.shape and torch.equal(first.cpu(), second.cpu())
    try:
        return bool(first == second)
    except (ValueError, RuntimeError):  # an array, whose comparison has no single truth
        return bool((first == second).all())


def bisect_data(setup: Setup, reference: Any, log: RunLog, fails: Fails | None, steps: int) -> Bisection:
    """Return the fewest training samples that make training fail, if all others are the known-good ones.

    ``reference`` is a dataset, or a loader over one, with the same number of samples. Each run trains a copy for one
    epoch, with the same seed; the frozen batches are those of the known-good data.
    """
    loader, good = setup.train_loader, getattr(reference, "dataset", reference)
    has_samples = is_map_style(loader) and loader.batch_size is not None and hasattr(good, "__len__")
    if not has_samples or len(good) != len(loader.dataset):
        raise SetupError(
            "train_loader and reference do not have the same number of samples by index; expected it. "
            "Pass a dataset whose sample i replaces sample i of yours."
        )
    in_place = is_trained_in_place(setup)
    with _preserved(setup), UserCodeErrors(lambda: "before the bisection"):
        differing = [index for index in range(len(good)) if not _is_same_sample(loader.dataset[index], good[index])]
        good_setup = replace(setup, train_loader=_with_dataset(loader, good))
        test = _MixtureTest(good_setup, log, fails, "data")

    def fails_with(indices: Sequence[int]) -> bool:
        log.check()
        count = min(len(loader), steps)
        with changed_copy(setup, (), [], "other", in_place=in_place) as treated:
            treated.train_loader = _with_dataset(loader, _MixedDataset(loader.dataset, good, set(indices)))
            train_steps(treated, count)
            return test.fails(treated, f"{len(indices)} of your samples", len(indices))

    smallest: Sequence[int] = differing
    verdict: BisectVerdict = "located"
    try:
        if not differing:
            return log.result("not reproduced", "All samples are equal to the known-good ones.")
        if reason := test.compare_ends(lambda: fails_with(()), lambda: fails_with(differing)):
            return log.result("not reproduced", reason)
        smallest = minimize(differing, fails_with)
    except OutOfRuns:
        verdict = "undecided"
    return describe_samples(log, smallest, verdict, "among the known-good ones")


class _MixedDataset(Dataset[Any]):
    """The known-good samples, and the user's at some indices."""

    def __init__(self, own: Any, good: Any, indices: Container[int]) -> None:
        self.own, self.good, self.indices = own, good, indices

    def __getitem__(self, index: int) -> Any:
        return (self.own if index in self.indices else self.good)[index]

    def __len__(self) -> int:
        return len(self.good)


def _with_dataset(loader: DataLoader[Any], dataset: Any) -> DataLoader[Any]:
    sampler = loader.sampler
    if isinstance(sampler, (RandomSampler, SequentialSampler)):
        return rebuild_loader(loader, dataset=dataset, shuffle=isinstance(sampler, RandomSampler))
    return rebuild_loader(loader, dataset=dataset, sampler=sampler)


def _is_same_sample(first: Any, second: Any) -> bool:
    leaves, others = dict(tree_leaves(first)), dict(tree_leaves(second))
    return leaves.keys() == others.keys() and all(_is_same(leaves[path], others[path]) for path in leaves)
