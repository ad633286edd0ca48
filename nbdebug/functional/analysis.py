"""The tools that inspect data and predictions, as functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.functional.new_debugger import DEBUGGER_OPTIONS, run_tool
from nbdebug.options import check_option_names, check_unused

if TYPE_CHECKING:
    from pathlib import Path

    from nbdebug.checklist import Guide
    from nbdebug.inference.outputs import Target
    from nbdebug.options import Decode, Method, Metric, Package, Space
    from nbdebug.tools.data import DataProfile
    from nbdebug.tools.errors import Errors
    from nbdebug.tools.explain import Explanation
    from nbdebug.tools.importance import Importance


@check_option_names()
def data(
    model: nn.Module,
    train_loader: Any,
    val_loader: Any = None,
    *,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    scheduler: Any = None,
    task: str | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    forward: Callable[..., Any] | None = None,
    unpack: Callable[[Any], Any] | None = None,
    step_fn: Callable[[Any], Any] | None = None,
    device: torch.device | str | None = None,
    extra_state: Iterable[Any] = (),
    samples: int | None = 2000,
    seconds: float = 20.0,
    seed: int = 0,
    reference: Any = None,
    pred_probs: Any = None,
    embed: bool | str | nn.Module | Callable[[Any], Tensor] = False,
    groups: Any = None,
    ratings: Any = None,
    windows: int | None = None,
) -> DataProfile:
    """Profile what enters a model: structure, statistics, drift, duplicates and suspect labels of both splits.

    The options are those of ``Debugger`` and ``Debugger.data``.
    """
    return run_tool(Debugger.data, locals())


@check_option_names({"columns": "metadata"})
def errors(
    model: Any = None,
    loader: Any = None,
    *,
    val_loader: Any = None,
    predictions: Any = None,
    targets: Any = None,
    inputs: Any = None,
    target: str | None = None,
    prediction: str | None = None,
    scores: Sequence[str] | None = None,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    scheduler: Any = None,
    task: str | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    forward: Callable[..., Any] | None = None,
    unpack: Callable[[Any], Any] | None = None,
    step_fn: Callable[[Any], Any] | None = None,
    device: torch.device | str | None = None,
    extra_state: Iterable[Any] = (),
    index: Any = None,
    metadata: Any = None,
    properties: bool = True,
    embed: str | nn.Module | None = None,
    render: Callable[[Any], Any] | None = None,
    decode: Decode = None,
    tags: str | Path | None = None,
) -> Errors:
    """Browse the errors of a model on a loader, or of existing predictions, and the samples behind each number.

    With a model, the options are those of ``Debugger`` and ``Debugger.errors``. With predictions, those below,
    ``class_names``, ``metadata``, ``render`` and ``tags``. Raises SetupError for options that do not fit together.

    Args:
        model: The model; or a DataFrame of predictions.
        loader: The loader to evaluate; with a DataFrame in place of the model, the name of the column of targets.
        val_loader: The validation loader.
        predictions: Class indices or names, scores of shape (rows, classes), a DataFrame, or a path of Parquet files.
        targets: Targets, one per row; of a DataFrame or a path, the name of their column.
        inputs: Samples to display, one per row.
        target: Name of the column of targets.
        prediction: Name of the column of predictions.
        scores: Names of the columns of scores, one per class.
    """
    from nbdebug.predictions.dataframes import to_pandas_frame
    from nbdebug.tools.errors.tool import errors_from_predictions

    arguments = dict(locals())
    if predictions is None and to_pandas_frame(model) is not None:
        predictions, targets = model, loader if loader is not None else targets
        arguments |= {"model": None, "loader": None}
    if predictions is not None:
        unused = {**DEBUGGER_OPTIONS, "properties": True}
        unused |= dict.fromkeys(("model", "loader", "val_loader", "index", "embed", "decode"))
        del unused["class_names"]
        check_unused("with predictions", arguments, unused)
        return errors_from_predictions(
            predictions,
            targets,
            inputs,
            target=target,
            prediction=prediction,
            scores=scores,
            class_names=class_names,
            columns=None if metadata is None else dict(metadata.items()),
            render=render,
            tags=tags,
        )
    if model is None:
        raise SetupError("model is None; expected a model with a loader, or predictions=. Pass either.")
    check_unused("with a model", arguments, dict.fromkeys(("targets", "inputs", "target", "prediction", "scores")))
    return run_tool(Debugger.errors, {**arguments, "train_loader": loader})


@check_option_names()
def explain(
    model: Any,
    sample: Any,
    train_loader: Any = None,
    val_loader: Any = None,
    *,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    scheduler: Any = None,
    task: str | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    forward: Callable[..., Any] | None = None,
    unpack: Callable[[Any], Any] | None = None,
    step_fn: Callable[[Any], Any] | None = None,
    device: torch.device | str | None = None,
    extra_state: Iterable[Any] = (),
    method: Method = "auto",
    target: Target = "predicted",
    background: Any = "data",
    loader: Any = None,
    space: Space = "logits",
    score: Callable[[Any], Any] | None = None,
    decode: Any = None,
    completeness: float | None = None,
    error: float | None = None,
    standard_error: float | None = None,
    nodes: int | None = None,
    most: int | None = None,
    layer: str | nn.Module | None = None,
    size: int | None = None,
    stride: int | None = None,
    samples: int | None = None,
    passes: int | None = None,
    permutations: int | None = None,
    evaluations: int | None = None,
    package: Package | None = None,
) -> Explanation:
    """Explain a prediction of a model: the contribution of each input value, with its error and a reliability check.

    The options are those of ``Debugger`` and ``Debugger.explain``. With a loader, ``sample`` may be an index in its
    dataset: that of ``val_loader`` if there is one. Without a training loader, ``background`` are the samples to
    compare with, if any. Without any loader, ``model`` may also be a function or a fitted estimator.
    """
    arguments = dict(locals())
    options = {name: arguments[name] for name in set(signature(Debugger.explain).parameters) - {"self", "sample"}}
    if train_loader is not None or val_loader is not None or isinstance(model, nn.Module):
        if train_loader is None and val_loader is not None and loader is None:
            options["loader"] = val_loader
        if train_loader is None:
            arguments |= {"train_loader": (), "val_loader": None}
        return run_tool(Debugger.explain, {**arguments, **options})
    from nbdebug.tools.explain import explain

    check_unused("with a function or an estimator", arguments, DEBUGGER_OPTIONS)
    return explain(model, sample, **{name: value for name, value in options.items() if value is not None})


@check_option_names()
def importance(
    model: nn.Module,
    train_loader: Any,
    val_loader: Any = None,
    *,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    scheduler: Any = None,
    task: str | None = None,
    class_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    forward: Callable[..., Any] | None = None,
    unpack: Callable[[Any], Any] | None = None,
    step_fn: Callable[[Any], Any] | None = None,
    device: torch.device | str | None = None,
    extra_state: Iterable[Any] = (),
    loader: Any = None,
    samples: int | None = None,
    background: Any = None,
    target: Target = "predicted",
    method: Method = "auto",
    metric: Metric = "auto",
    repeats: int = 5,
    decode: Any = None,
    score: Callable[[Any], Any] | None = None,
) -> Importance:
    """Measure feature importance: mean attributions and permutation importance, with intervals.

    The options are those of ``Debugger`` and ``Debugger.importance``.
    """
    return run_tool(Debugger.importance, locals())


def guide(debugger: Debugger) -> Guide:
    """Return the guide of a Debugger: a checklist that is walked on its setup, as ``Debugger.guide`` does."""
    return debugger.guide()
