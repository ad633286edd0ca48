"""Each tool in one call: a Debugger is made, asked and let go."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.report import Report
from nbdebug.setup import Setup
from nbdebug.setup.training import as_optimizers
from nbdebug.watching import Watch

if TYPE_CHECKING:
    from nbdebug.tools.batch_size import BatchSize
    from nbdebug.tools.contest import Contest
    from nbdebug.tools.errors import Errors
    from nbdebug.tools.explain import Explanation
    from nbdebug.tools.importance import Importance
    from nbdebug.tools.lr_range import LrRange
    from nbdebug.tools.overfit import Overfit


def checkup(model: nn.Module, train_loader: Any, val_loader: Any = None, **given: Any) -> Report:
    """A checkup in one call; takes what Debugger and its ``checkup`` take."""
    return Debugger(model, train_loader, val_loader, **own(given)).checkup(**given)


def overfit(model: nn.Module, train_loader: Any, val_loader: Any = None, **given: Any) -> Overfit:
    """The tiny-batch overfit test in one call; takes what Debugger and its ``overfit`` take."""
    return Debugger(model, train_loader, val_loader, **own(given)).overfit(**given)


def lr_range(model: nn.Module, train_loader: Any, val_loader: Any = None, **given: Any) -> LrRange:
    """The learning-rate range test in one call; takes what Debugger and its ``lr_range`` take."""
    return Debugger(model, train_loader, val_loader, **own(given)).lr_range(**given)


def compare_optimizers(model: nn.Module, train_loader: Any, val_loader: Any = None, **given: Any) -> Contest:
    """A contest of optimizers in one call; takes what Debugger and its ``compare_optimizers`` take."""
    return Debugger(model, train_loader, val_loader, **own(given)).compare_optimizers(**given)


def batch_size(model: nn.Module, train_loader: Any, val_loader: Any = None, **given: Any) -> BatchSize:
    """The batch-size finder in one call; takes what Debugger and its ``batch_size`` take."""
    return Debugger(model, train_loader, val_loader, **own(given)).batch_size(**given)


def errors(model: nn.Module | None = None, loader: Any = None, *, predictions: Any = None, **given: Any) -> Errors:
    """The error browser of a model on a loader, or of predictions that are there already.

    ``predictions`` are labels, or scores of classes, rows × classes, and come with ``targets`` and, where samples are
    to be shown, ``inputs``; of a DataFrame, also in the place of the model, and of the path of Parquet files,
    ``target``, ``prediction`` and ``scores`` name columns. Otherwise it takes what Debugger and its ``errors`` take.
    Raises SetupError for what does not fit together.
    """
    from nbdebug.predictions.frames import as_frame
    from nbdebug.tools.errors.given import of_predictions

    if predictions is None and as_frame(model) is not None:
        return of_predictions(model, loader, **given)
    if predictions is not None:
        return of_predictions(predictions, **given)
    if model is None:
        raise SetupError("model is None; expected a model with a loader, or predictions=. Pass either.")
    return Debugger(model, loader, **own(given)).errors(loader, **given)


def explain(model: Any, sample: Any, train_loader: Any = None, val_loader: Any = None, **given: Any) -> Explanation:
    """Why a model says what it says of a sample, in one call.

    With a loader ``sample`` may be a place in its data set, and it takes what Debugger and its ``explain`` take.
    With a validation loader alone it is one in that, and ``background`` are the samples to compare with, if any.
    Without a loader ``model`` may also be a function or a fitted estimator.
    """
    if train_loader is not None:
        return Debugger(model, train_loader, val_loader, **own(given)).explain(sample, **given)
    if val_loader is not None:
        given = {"loader": val_loader, **given}
    if isinstance(model, nn.Module) or val_loader is not None:
        return Debugger(model, (), **own(given)).explain(sample, **{"background": None, **given})
    from nbdebug.tools.explain import explain

    return explain(model, sample, **{"background": None, **given})


def importance(model: nn.Module, train_loader: Any, val_loader: Any = None, **given: Any) -> Importance:
    """What a whole model goes by, in one call; takes what Debugger and its ``importance`` take."""
    return Debugger(model, train_loader, val_loader, **own(given)).importance(**given)


def watch(model: nn.Module, optimizer: Any = None, **options: Any) -> Watch:
    """A block around a training loop, without anything else; takes what ``Debugger.watch`` takes."""
    return Watch(Setup(model, (), optimizers=as_optimizers(optimizer)), **options)


def own(given: dict[str, Any]) -> dict[str, Any]:
    """What a Debugger takes, taken out of what was given."""
    return {name: given.pop(name) for name in signature(Debugger).parameters if name in given}
