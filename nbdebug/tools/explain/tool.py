"""The tool explain(): samples, their background, and the first attribution."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.inference.inputs import ModelInputs, as_inputs
from nbdebug.inference.outputs import Target
from nbdebug.inference.progress import ProgressMeter, use_meter
from nbdebug.sample_display import SampleDisplay
from nbdebug.sample_display.vocabulary import user_vocabulary
from nbdebug.setup import Batch, Setup
from nbdebug.tools.explain.backgrounds import default_background
from nbdebug.tools.explain.request import ExplanationRequest
from nbdebug.tools.explain.result import Explanation
from nbdebug.tools.explain.samples import ExplainedSamples, resolve_samples
from nbdebug.validation import describe_type, validate_callable
from nbdebug.views.late_screen import LateScreen


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
    """Explain a prediction: the contribution of each input value, and how exact it is.

    ``sample`` is an index in the data set of ``loader`` ("val", "train" or your own; by default the validation loader
    if there is one), several indices, or samples. ``method`` is a method of ``nbdebug.attribution`` or "auto";
    ``target`` is "predicted", "true" or a class. ``background`` holds comparison samples, or is "data", "mean", "zeros"
    or "shuffled". ``space`` is "logits" or "probability"; ``score(output)`` extracts samples × classes from other
    outputs; ``decode`` reads tokens. ``options`` are those of the method. User objects are unchanged. Raises SetupError
    for invalid arguments.
    """
    start = time.perf_counter()
    options = {name: value for name, value in options.items() if value is not None}
    request = ExplanationRequest(method, target, background if isinstance(background, str) else "data", space, options)
    validate_callable("score", score, "the model's output", "Pass lambda y: y[0]")
    if decode is not None:
        user_vocabulary(decode)
    setup = setup_or_model if isinstance(setup_or_model, Setup) else None
    if isinstance(setup_or_model, nn.Module):
        setup = Setup(setup_or_model, ())
    samples = resolve_samples(setup, setup_or_model, sample, loader)
    background_batch = (
        None
        if background is None
        else _to_background_batch(default_background(setup, background), setup, setup_or_model)
    )
    background_inputs = None if background_batch is None else as_inputs(background_batch, None, "background")
    display = _create_display(samples, background_inputs, setup, decode)
    explained = setup_or_model if setup is None else setup
    with LateScreen("Explanation") as screen, use_meter(ProgressMeter(on_progress=partial(_report, screen))):
        attribution = samples.attribute(explained, background_inputs, request, score)
        model = setup_or_model if setup is None else setup.eager_model
        seconds = time.perf_counter() - start
        result = Explanation(model, samples, request, attribution, background_batch, setup, display, score, seconds)
        screen.finish(result)
    return result


def _report(screen: LateScreen, meter: ProgressMeter) -> None:
    """Display how many rows went through the model, and the time that is left."""
    remaining = f", about {meter.remaining:.0f} s left" if meter.remaining is not None else ""
    total = f" of {meter.rows_total:,}" if meter.rows_total > meter.rows_done else ""
    share = meter.rows_done / meter.rows_total if total else None
    screen.report(f"{meter.rows_done:,}{total} rows went through the model{remaining}", share)


def _to_background_batch(background: Any, setup: Setup | None, model: Any) -> Batch | None:
    if background is None or isinstance(background, Batch):
        return background
    if isinstance(background, ModelInputs):
        return background.batch
    if hasattr(background, "dataset") or hasattr(background, "__next__"):
        raise SetupError(
            f"background is {describe_type(background)}; expected samples. Pass next(iter(loader))[0], or leave it out."
        )
    return as_inputs(background, model if setup is None else setup.eager_model, "background").batch


def _create_display(
    samples: ExplainedSamples, background: ModelInputs | None, setup: Setup | None, decode: Any
) -> SampleDisplay:
    """Return the display of the samples, on one scale with the background."""
    rows = [
        {name: tensor[row] for name, tensor in tensors.items()}
        for inputs in (samples.inputs, background)
        if inputs is not None
        for tensors in [{name: leaf.detach().to("cpu") for _, name, leaf in inputs.sample_leaves}]
        for row in range(inputs.size)
    ]
    loader = samples.loader if samples.loader is not None or setup is None else setup.train_loader
    names = setup.feature_names if setup is not None else None
    near = [getattr(loader, "collate_fn", None)]
    display = SampleDisplay(rows, inputs=lambda row: row, feature_names=names, decode=decode, near=near)
    display.hints.source = getattr(loader, "dataset", None)
    return display
