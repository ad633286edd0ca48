"""The tool: some samples, what they are compared with, and the first explanation of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from nbdebug.arguments import function
from nbdebug.attribution.given import as_batch, count, inputs_of
from nbdebug.attribution.scores import Target
from nbdebug.exceptions import SetupError
from nbdebug.samples import Samples
from nbdebug.samples.vocabulary import given
from nbdebug.setup import Batch, Setup
from nbdebug.tools.errors.tool import chosen
from nbdebug.tools.explain.asked import Asked
from nbdebug.tools.explain.cases import Cases, cases
from nbdebug.tools.explain.compared import data_of
from nbdebug.tools.explain.result import Explanation


def explain(
    setup_or_model: Any,
    sample: Any,
    method: str = "auto",
    target: Target = "predicted",
    background: Any = "data",
    *,
    loader: Any = None,
    space: str = "logits",
    score: Callable[[Any], Any] | None = None,
    decode: Any = None,
    **options: Any,
) -> Explanation:
    """Why the model says what it says of a sample: what each number of it contributes, and how exact that is.

    ``sample`` is a place in the data set of ``loader`` ("val", "train" or one of your own; the validation loader where
    there is one), several places, or samples themselves. ``method`` is an engine of ``nbdebug.attribution`` or "auto";
    ``target`` "predicted", "true" or a class. ``background`` are samples to compare with, or "data", "mean", "zeros"
    or "shuffled". ``space`` is "logits" or "probability"; ``score(output)`` picks samples × classes from an output of
    another form; ``decode`` reads tokens. ``options`` are those of the engine. Nothing of the user's is changed. Raises
    SetupError for what cannot be explained.
    """
    begun = time.perf_counter()
    asked = Asked(method, target, background if isinstance(background, str) else "data", space, options)
    function("score", score, "the model's output", "Pass lambda y: y[0]")
    if decode is not None:
        given(decode)
    setup = setup_or_model if isinstance(setup_or_model, Setup) else None
    if isinstance(setup_or_model, nn.Module):
        setup = Setup(setup_or_model, ())
    found = found_cases(setup, setup_or_model, sample, loader)
    data = None if background is None else as_background(data_of(setup, background), setup, setup_or_model)
    model = setup_or_model if setup is None else setup.eager
    samples = drawn_like(found, data, setup, decode)
    return Explanation.of(model, setup, found, data, asked, samples, score, time.perf_counter() - begun)


def found_cases(setup: Setup | None, model: Any, sample: Any, loader: Any) -> Cases:
    """The samples, of a set-up or of a model alone."""
    if setup is None:
        batch = as_batch(sample, model)
        return Cases(batch, (None,) * count(batch))
    return cases(setup, sample, chosen(setup, loader) if setup.has_data or not isinstance(loader, str | None) else None)


def as_background(given: Any, setup: Setup | None, model: Any) -> Batch | None:
    """What is compared with as a batch; a loader gives its first one."""
    if given is None or isinstance(given, Batch):
        return given
    if hasattr(given, "dataset") or hasattr(given, "__next__"):
        raise SetupError(
            f"background is a {type(given).__name__}; expected samples. Pass next(iter(loader))[0], or leave it out."
        )
    return as_batch(given, model if setup is None else setup.eager, "background")


def drawn_like(found: Cases, data: Batch | None, setup: Setup | None, decode: Any) -> Samples:
    """How the samples are shown: as others of the background, on one scale with them."""
    rows = [*rows_of(found.batch), *(rows_of(data) if data is not None else [])]
    loader = found.loader if found.loader is not None or setup is None else setup.train_loader
    names = setup.feature_names if setup is not None else None
    near = [getattr(loader, "collate_fn", None)]
    made = Samples(rows, inputs=lambda row: row, feature_names=names, decode=decode, near=near)
    made.hints.source = getattr(loader, "dataset", None)
    return made


def rows_of(batch: Batch) -> list[dict[str, Any]]:
    """Each sample of a batch with its inputs by name."""
    size = count(batch)
    leaves = {
        name: leaf.detach().to("cpu")
        for name, leaf in inputs_of(batch)
        if isinstance(leaf, Tensor) and leaf.dim() and len(leaf) == size
    }
    return [{name: leaf[row] for name, leaf in leaves.items()} for row in range(size)]
