"""X1051: a loader is asked to shuffle or sample a stream."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from nbdebug.crashes import Crash
from nbdebug.crashes.explanation import CrashCause
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import replace_node

_OPTIONS = ("shuffle", "sampler", "batch_sampler")


@crash_rule("X1051")
def stream_shuffled(crash: Crash) -> CrashCause | None:
    """A loader of an ``IterableDataset`` gets ``shuffle`` or a sampler.

    ## What it does
    Reads the dataset and the options of the loader.

    ## Why it matters
    A stream has no indices: it gives its samples in its own order, and a loader cannot choose among them.

    ## How it is measured
    Exactly, by the class of the dataset and the options.

    ## How to fix
    Leave the option out, and shuffle inside ``__iter__``, for example with a buffer of samples.

    ## When to ignore
    Never: the loader cannot be made.

    ## References
    Documentation of torch.utils.data, Iterable-style datasets.
    """
    dataset, call = crash.local("dataset", function="__init__"), crash.call
    if not isinstance(dataset, IterableDataset) or call is None or crash.own is None:
        return None
    keywords = [keyword for keyword in call.keywords if keyword.arg in _OPTIONS]
    keywords = [keyword for keyword in keywords if f"{keyword.arg} option" in crash.message]
    if not keywords:
        return None
    name, options = type(dataset).__name__, ", ".join(str(keyword.arg) for keyword in keywords)
    message = f"The loader of {name} gets {options}; {name} is an IterableDataset, a stream without indices."
    cause = f"A stream gives its samples in its own order: leave {options} out, and shuffle inside __iter__ of {name}, "
    cause += "for example in a buffer."
    kept = [crash.text(part) for part in (*call.args, *call.keywords) if part not in keywords]
    edit = replace_node(crash.own.file, call, f"{crash.text(call.func)}({', '.join(kept)})")
    return CrashCause(message, cause, edits=(edit,))


class _Stream(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        yield from points()[0]


def bad() -> Setup:
    """A loader that is asked to shuffle a stream."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        DataLoader(_Stream(), batch_size=4, shuffle=True)
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that makes no loader."""
    return classifier()
